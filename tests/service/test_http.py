"""The server over HTTP, as its clients see it: protocol, answers, refusals, headers, log, numbers."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from serving import PROCEDURE, SHAPE, Served, images, png, serving, tensors

from smoothcert.core.errors import InputError
from smoothcert.procedures import Fixed, Sequential
from smoothcert.service.limits import Limits
from smoothcert.service.serve import Door

INFER = "/v2/models/net/infer"
LEFT = 'smoothcert_answers_total{outcome="left"} 1.0'


def request(levels: np.ndarray[Any, Any], **more: Any) -> dict[str, Any]:
    one = {"name": "input", "shape": list(levels.shape), "datatype": "UINT8", "data": levels.ravel().tolist()}
    return {"inputs": [one], **more}


def by_name(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    return {one["name"]: one for one in response.json()["outputs"]}


@pytest.mark.parametrize("binary", [True, False], ids=["bytes", "JSON"])
@pytest.mark.parametrize("kind", ["UINT8", "FP32"])
def test_tritonclient_works_unchanged_and_answers_are_the_librarys(served: Served, kind: str, binary: bool) -> None:
    triton = pytest.importorskip("tritonclient.http", reason="tritonclient is not installed: pip install '.[dev]'")
    levels = images(3, seed=1 + 2 * binary + (kind == "FP32"))
    given = levels if kind == "UINT8" else tensors(levels).numpy()
    with triton.InferenceServerClient(served.url.removeprefix("http://")) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("net")
        about = client.get_model_metadata("net")
        assert about["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, *SHAPE]}]
        tensor = triton.InferInput("input", list(given.shape), kind)
        tensor.set_data_from_numpy(given, binary_data=binary)
        outputs = [triton.InferRequestedOutput(one["name"], binary_data=binary) for one in about["outputs"]]
        found = client.infer("net", [tensor], outputs=outputs, request_id="7")
    want = served.library(tensors(levels), PROCEDURE, about["parameters"]["key"])
    assert found.get_response()["id"] == "7"
    for name in ("label", "radius", "p_lower", "votes", "abstained", "draws", "alpha"):
        assert np.array_equal(found.as_numpy(name), np.array([getattr(one, name) for one in want])), name
    for name in ("reason", "norm", "scope"):
        texts = [text.decode() if isinstance(text, bytes) else text for text in found.as_numpy(name)]
        assert texts == [str(getattr(one, name)) for one in want]


def test_tritonclient_of_asyncio(served: Served) -> None:
    triton = pytest.importorskip("tritonclient.http.aio", reason="tritonclient is not installed: pip install '.[dev]'")

    async def ask() -> Any:
        client = triton.InferenceServerClient(served.url.removeprefix("http://"))
        tensor = triton.InferInput("input", [1, *SHAPE], "UINT8")
        tensor.set_data_from_numpy(images(1))
        try:
            return await client.infer("net", [tensor], parameters={"radius": 0.05, "n": 1_000})
        finally:
            await client.close()

    found = asyncio.run(ask())
    asked = Sequential(radius=0.05, n=1_000)
    (want,) = served.library(tensors(images(1)), asked, found.as_numpy("key")[0].decode())
    assert found.as_numpy("radius")[0] == want.radius
    assert tuple(found.as_numpy("votes")[0]) == want.votes


def test_an_image_for_people_with_curl(served: Served) -> None:
    levels = images(1, seed=9)
    with served.client() as client:
        found = client.post("/certify", content=png(levels[0])).json()
        again = client.post("/certify", content=png(levels[0])).json()
        # The votes of one look are no votes of the next procedure: its draws are its own.
        other = client.post("/certify?alpha=0.002", content=png(levels[0])).json()
    (want,) = served.library(tensors(levels), PROCEDURE, found["seed"]["hash"])
    said = {name: found[name] for name in ("label", "radius", "votes", "reason", "sentence", "draws")}
    assert said == {name: getattr(want, name) for name in ("label", "radius", "reason", "draws")} | {
        "votes": list(want.votes),
        "sentence": str(want),
    }
    assert again == found
    assert found["receipt"] in {line["digest"] for line in served.lines()}
    assert other["receipt"] != found["receipt"]
    seeds = {served.key(found["seed"]["hash"]).seed(one["procedure"]) for one in (found, other)}
    assert len(seeds) == 2
    assert not any(str(seed) in json.dumps([found, other]) for seed in seeds)


def test_votes_grow_while_one_looks(served: Served) -> None:
    with served.client() as client:
        text = client.post("/certify/live?n=3000&radius=0.2", content=png(images(1, seed=4)[0])).text
    events = [part.split("\n") for part in text.strip().split("\n\n")]
    names = [event[0] for event in events]
    assert names[-1] == "event: answer"
    assert set(names[:-1]) == {"event: votes"}
    grown = [sum(map(sum, json.loads(event[1][6:]).values())) for event in events[:-1]]
    assert grown == sorted(grown)
    assert grown[-1] == json.loads(events[-1][1][6:])["draws"]


def test_a_deadline_ends_in_an_abstention_that_says_so(served: Served) -> None:
    asked = request(images(1, seed=5), parameters={"deadline": 1e-6})
    with served.client() as client:
        found = by_name(client.post(INFER, json=asked))
    assert found["abstained"]["data"] == [True]
    assert "not decided within the deadline of 1e-06 s" in found["reason"]["data"][0]
    assert found["receipt"]["data"] == [""]


def test_a_radius_asked_of_fixed_draws_is_decided_with_fewer(tmp_path: Path) -> None:
    with serving(tmp_path, procedure=Fixed(n=3_000)) as served, served.client() as client:
        found = client.post("/certify?radius=0.05", content=png(images(1)[0])).json()
    (want,) = served.library(tensors(images(1)), Sequential(radius=0.05, n=3_000), found["seed"]["hash"])
    assert (found["radius"], found["votes"], found["draws"]) == (want.radius, list(want.votes), want.draws)
    assert found["draws"] < 3_100


def test_who_leaves_is_asked_for_no_more(tmp_path: Path) -> None:
    def left(client: httpx.Client) -> bool:
        return LEFT in client.get("/metrics").text

    with serving(tmp_path, procedure=Fixed(n=900_000)) as served, served.client() as client:
        with httpx.Client(base_url=served.url, timeout=0.2) as hasty, pytest.raises(httpx.TimeoutException):
            hasty.post("/certify", content=png(images(1)[0]))
        for _ in range(600):
            if left(client):
                break
            threading.Event().wait(0.05)
        assert left(client)
        assert served.lines() == []


WRONG = [
    (b"{", "must be JSON"),
    (b"[]", "must be a JSON object"),
    (b"{}", "inputs must be a list of one tensor"),
    (request(images(1)) | {"parameters": {"sigma": 1}}, "parameters may be radius, alpha, n, deadline, got 'sigma'"),
    (request(images(1), parameters={"alpha": 2}), "alpha must lie strictly between 0 and 1"),
    (request(images(1), parameters={"radius": -1}), "radius must be above 0"),
    (request(images(1), parameters={"radius": "a,b"}), "radius must be a number"),
    (request(images(1), parameters={"radius": 90}), "radius 90 can never be shown"),
    (request(images(1), parameters={"n": 10**8}), "this server makes at most 1000000"),
    (request(images(1), parameters={"n": 1.5}), "n must be a whole number"),
    (request(images(1), outputs=[{"name": "seed"}]), "outputs may be label"),
    (request(images(65)), "with B from 1 to 64"),
    (request(images(1)[:, :, :7]), "shape of input must be [B, 1, 8, 8]"),
    ({"inputs": [request(images(1))["inputs"][0] | {"data": [1]}]}, "input has 1 numbers, its shape says 64"),
    ({"inputs": [request(images(1))["inputs"][0] | {"data": ["x"] * 64}]}, "must be numbers"),
    ({"inputs": [request(images(1))["inputs"][0] | {"data": [300] * 64}]}, "whole numbers from 0 to 255"),
    ({"inputs": [request(images(1))["inputs"][0] | {"datatype": "FP64"}]}, "must be FP32 or UINT8"),
    ({"inputs": [request(images(1))["inputs"][0] | {"datatype": "FP32", "data": [7.0] * 64}]}, "must lie in [0"),
    ({"inputs": [request(images(1))["inputs"][0] | {"datatype": "FP32", "data": [0.3] * 64}]}, "is no 8-bit image"),
    ({"inputs": [request(images(1))["inputs"][0] | {"datatype": "FP32", "data": [1e99] * 64}]}, "finite"),
]


@pytest.mark.parametrize(("body", "words"), WRONG, ids=[words[:30] for _, words in WRONG])
def test_what_cannot_be_answered_is_one_sentence(served: Served, body: Any, words: str) -> None:
    with served.client() as client:
        found = client.post(INFER, content=body if isinstance(body, bytes) else json.dumps(body))
    assert found.status_code == 400, found.text
    assert words in found.json()["error"]
    assert "\n" not in found.json()["error"]


def test_images_that_do_not_fit_are_refused(served: Served) -> None:
    from io import BytesIO

    def refused(image: Image.Image, kind: str = "PNG") -> str:
        with BytesIO() as file, served.client() as client:
            image.save(file, kind)
            found = client.post("/certify", content=file.getvalue())
        assert found.status_code == 400
        return str(found.json()["error"])

    assert "the model takes 8x8; resize it" in refused(Image.new("L", (9, 8)))
    assert "at most 16777216 are read" in refused(Image.new("1", (6000, 6000)))  # a few kilobytes, if packed
    assert "a colour image" in refused(Image.new("RGB", (8, 8)))
    assert "not an image that can be read" in refused(Image.new("L", (8, 8)), "GIF")


def test_other_paths_models_and_methods(served: Served) -> None:
    with served.client() as client:
        assert client.get("/nowhere").status_code == 404
        assert "called net" in client.post("/v2/models/other/infer", json=request(images(1))).json()["error"]
        assert client.get("/v2/models/net/versions/2").status_code == 404
        assert client.get("/v2/models/net/versions/1/ready").json() == {"name": "net", "ready": True}
        assert client.delete("/certify").status_code == 405
        assert client.get("/docs").text.count("<section>") > 10


def test_headers_keep_a_page_safe_and_other_sites_out(served: Served) -> None:
    with served.client() as client:
        page = client.get("/")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["x-frame-options"] == "DENY"
        assert "server" not in page.headers
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 403
        crossed = client.post("/certify", content=png(images(1)[0]), headers={"Origin": "http://evil.example"})
        assert crossed.status_code == 403


def test_the_log_and_the_numbers_hold_no_input(served: Served) -> None:
    with served.client() as client:
        found = client.post("/certify", content=png(images(1, seed=7)[0])).json()
        numbers = client.get("/metrics").text
    last = next(event for event in reversed(served.log) if event["path"] == "/certify")
    assert set(last) == {"event", "client", "method", "path", "status", "seconds"}
    assert found["input_id"] not in json.dumps(served.log)
    for name in (
        'http_requests_total{method="POST",path="/certify",status="200"}', "http_request_duration_seconds_bucket",
        "http_requests_in_progress", "smoothcert_batch_fill_bucket", "smoothcert_draws_per_answer_bucket",
        "smoothcert_certified_share", "smoothcert_queue_length", "process_resident_memory_bytes",
    ):  # fmt: skip
        assert name in numbers


def test_token_size_rate_and_budget(tmp_path: Path) -> None:
    limits = Limits(body=5_000, rate=0.001, most_answers=1)
    with serving(tmp_path, limits=limits, door=Door(port=0, token="open sesame")) as served, served.client() as client:
        asked = {"content": png(images(1)[0])}
        assert client.post("/certify", **asked).status_code == 401
        client.headers["Authorization"] = "Bearer open sesame"
        assert client.get("/v2/health/live").status_code == 200
        assert client.post("/certify", content=bytes(5_001)).status_code == 413
        assert client.post("/certify", **asked).status_code == 200
        assert client.post("/certify", **asked).status_code == 200  # the same answer costs nothing
        spent = client.post("/certify", content=png(images(1, seed=1)[0]))
        assert (spent.status_code, "ask again tomorrow" in spent.json()["error"]) == (429, True)
        assert int(spent.headers["retry-after"]) > 0
        last = [client.get("/v2").status_code for _ in range(20)]
        assert (last[0], last[-1]) == (200, 429)


def test_a_model_of_the_package_is_called_by_its_name(tmp_path: Path) -> None:
    with serving(tmp_path, model="zoo:mnist-0.50") as served, served.client() as client:
        assert "mnist-0.50 answers at" in served.said[-1]
        assert client.get("/v2/models/mnist-0.50/ready").json()["ready"]


def test_what_cannot_be_served_is_said_at_the_start(tmp_path: Path, served: Served) -> None:
    port = int(served.url.rpartition(":")[2])
    with pytest.raises(InputError, match="give another --port"), serving(tmp_path, door=Door(port=port)):
        pass
    with pytest.raises(InputError, match="go together"):
        Door(tls_cert=tmp_path)
    with pytest.raises(InputError, match="--queue must be above 0"):
        Limits(queue=0)
