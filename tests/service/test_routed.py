"""A server that answers as a routed classifier: the library's answers, verified after the reveal."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from serving import NOISE, SHAPE, SPEC, Served, images, png, serving, tensors

import smoothcert as sc
from smoothcert.core.errors import InputError
from smoothcert.core.secret import SecretKey
from smoothcert.engine.live import Question
from smoothcert.engine.live_routed import RoutedEngine
from smoothcert.models import Architecture, build, save
from smoothcert.procedures import Certificate, Procedure
from smoothcert.service.reveal import reveal
from smoothcert.workflows.routing import RoutedModels

STRENGTHS = (0.1, 0.25)
ROUTER = Architecture("lenet", 2, SHAPE)
FIXED = sc.Fixed(n0=50, n=800)


def pictures(count: int) -> np.ndarray[Any, Any]:
    """Bright and dark ones by turns."""
    levels = images(count) // 4
    levels[::2] += 190
    return levels


def networks() -> tuple[torch.nn.Module, dict[float, torch.nn.Module]]:
    """Untrained members, and a router that tells bright pictures from dark ones."""
    router = build(ROUTER, seed=1)
    last = [part for part in router.modules() if isinstance(part, torch.nn.Linear)][-1]
    with torch.no_grad():
        bright, dark = (router.eval()(tensors(pictures(20))[i::2]).diff(dim=1).mean() for i in (0, 1))
        scale = 8 / float(bright - dark)  # either side of their middle
        last.weight[1] = last.weight[0] + scale * (last.weight[1] - last.weight[0])
        last.bias[1] = last.bias[0] + scale * (last.bias[1] - last.bias[0] - (bright + dark) / 2)
    return router, {s: build(SPEC, seed=number) for number, s in enumerate(STRENGTHS)}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> RoutedModels:
    folder = tmp_path_factory.mktemp("models")
    router, members = networks()
    save(folder / "router.safetensors", router, ROUTER, {"noise": NOISE.describe()})
    for s, member in members.items():
        save(folder / f"{s}.safetensors", member, SPEC, {})
    return RoutedModels(folder / "router.safetensors", {s: folder / f"{s}.safetensors" for s in STRENGTHS})


def library(served: Served, x: torch.Tensor, procedure: Procedure, hashed: str) -> list[Certificate]:
    """What the library says with the same seed."""
    router, members = networks()
    seed = served.key(hashed).seed(procedure.describe())
    return list(sc.Routed(router, members, noise=NOISE, num_classes=10, seed=seed).certify(x, procedure))


@pytest.fixture(scope="module")
def served(models: RoutedModels, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """Six answers of two procedures, by a server that has stopped."""
    with serving(tmp_path_factory.mktemp("routed"), model=models, procedure=FIXED) as found, found.client() as client:
        for row, levels in enumerate(pictures(6)):
            said = client.post(f"/certify{'?radius=0.02' if row > 2 else ''}", content=png(levels))
            assert said.status_code == 200, said.text
            found.answers.append(said.json())
    return found


def test_answers_are_those_of_the_library(served: Served) -> None:
    x = tensors(pictures(6))
    for row, said in enumerate(served.answers):
        procedure = Procedure.from_description(said["procedure"])
        (made,) = library(served, x[row : row + 1], procedure, said["seed"]["hash"])
        assert (said["label"], said["radius"], said["reason"]) == (made.label, made.radius, made.reason)
        assert (said["draws"], said["alpha"], said["scope"]) == (made.draws, 0.001, "fixed classifier")
        assert made.route is not None
        assert (said["route"]["label"], said["route"]["radius"]) == (made.route.label, made.route.radius)
        assert said["route"]["votes"] == list(made.route.votes)
        assert said["radius"] <= said["route"]["radius"] or said["abstained"]
    assert {said["noise"]["sigma"] for said in served.answers} == {*STRENGTHS}


def test_verify_accepts_the_runs_to_the_last_draw(served: Served, models: RoutedModels) -> None:
    runs = [sc.Run.open(one.run) for one in reveal(served.out)]
    assert len(runs) == 2
    for run in runs:
        found = run.verify(model=models)
        assert found.holds, str(found)
        assert (found.holding, "level 2" in found.sentence) == (3, True)
        routing = run.config.routing
        assert routing is not None
        assert routing.router_procedure["alpha"] == routing.member_procedure["alpha"] == 0.0005
        assert routing.router.files == ("router.safetensors",)


def test_nothing_that_others_may_read_holds_the_secret(served: Served) -> None:
    (secret,) = (served.out / "secrets").iterdir()
    key = SecretKey.from_hex(secret.read_text().strip())
    (folder,) = (path.parent for path in served.out.glob("*/run.json"))
    public = (folder / "run.json").read_text() + (folder / "records.jsonl").read_text() + json.dumps(served.answers)
    for said in served.answers:
        assert str(key.seed(said["procedure"])) not in public


def test_a_server_answers_as_a_routed_run(models: RoutedModels, tmp_path: Path) -> None:
    data = (pictures(3), [0, 1, 2])
    run = sc.certify(models, data, noise=NOISE, procedure=FIXED, out=tmp_path / "run")
    with serving(tmp_path, model=models, run=run, procedure=None) as found, found.client() as client:
        about = client.get("/v2/models/router").json()["parameters"]
        assert about["fingerprint"] == run.config.fingerprint
        x = tensors(pictures(2))
        tensor = {"name": "input", "datatype": "FP32", "shape": [2, *SHAPE], "data": x.flatten().tolist()}
        said = client.post("/v2/models/router/infer", json={"inputs": [tensor]}).json()
        outputs = {one["name"]: one["data"] for one in said["outputs"]}
        made = library(found, x, FIXED, outputs["key"][0])
        assert outputs["radius"] == [one.radius for one in made]
        assert np.shape(outputs["votes"]) == (20,)
        moved = client.post("/perturb?size=0.5&how=attack", content=png(pictures(1)[0]))
        assert moved.status_code == 200
        assert moved.json()["distance"] > 0
    other = RoutedModels(models.router, dict(zip(STRENGTHS, reversed(list(models.members.values())), strict=True)))
    with (
        pytest.raises(InputError, match=r"the model of 0\.1 is not the one that"),
        serving(tmp_path, model=other, run=run),
    ):
        pass
    with (
        pytest.raises(InputError, match="was certified with a router; give --router"),
        serving(tmp_path, model=models.members[0.1], run=run),
    ):
        pass
    with (
        pytest.raises(InputError, match="a routed classifier answers by itself"),
        serving(tmp_path, model=models, memory=tmp_path / "memory.sqlite"),
    ):
        pass


class Plane(torch.nn.Module):
    """Class 1 where one number is above 0."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([-x[:, self.axis], x[:, self.axis]], dim=1)


def test_no_more_false_certificates_than_alpha_allows() -> None:
    """At the router's plane no radius at all can be certified, nor at the member's: each certificate is false."""
    routed = sc.Routed(Plane(0), {0.5: Plane(1), 1.0: Plane(2)}, noise=sc.Gaussian(0.5), num_classes=2)
    x = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    x[:200, 0] = 0  # the router cannot know
    x[200:, 1:] = 0  # whom it chooses cannot
    answers: list[object] = []
    engine = RoutedEngine(routed, x[:1])
    for one in x:
        engine.add(Question(one, routed.noise, sc.Fixed(n0=10, n=60, alpha=0.05), seed=5, on_end=answers.append))
    engine.close()
    certificates = [one for one in answers if isinstance(one, Certificate)]
    assert len(certificates) == 400
    # 400 times 0.025, of which more than 24 have a probability below 1e-4.
    assert sum(not one.abstained for one in certificates) <= 24
    assert {one.scope for one in certificates} == {sc.Scope.FIXED}


def test_who_is_given_up_is_asked_no_further() -> None:
    routed = sc.Routed(Plane(0), {0.5: Plane(1), 1.0: Plane(2)}, noise=sc.Gaussian(0.5), num_classes=2)
    x, answers = torch.full((3,), 9.0), list[object]()
    engine = RoutedEngine(routed, x[None])
    kept, left = (Question(x, routed.noise, sc.Fixed(n=n), seed=1, on_end=answers.append) for n in (2_000, 10_000_000))
    left.give_up()
    engine.add(kept)
    engine.add(left)
    engine.close()
    assert sorted(str(type(one).__name__) for one in answers) == ["Certificate", "NoneType"]
