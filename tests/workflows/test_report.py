"""A report with what is known beside the records: how a run was made, its audit, inputs under noise and moved."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smoothcert as sc
from smoothcert.models.zoo import zoo_model
from smoothcert.stats.rounding import down
from smoothcert.workflows.report import report
from smoothcert.workflows.report_examples import move


def page(path: Path) -> dict[str, Any]:
    found = re.search(r'id="model">(.*?)</script>', path.read_text(encoding="utf-8"), re.S)
    assert found
    model: dict[str, Any] = json.loads(found[1])
    return model


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> sc.Run:
    return sc.certify(
        "zoo:mnist-0.50",
        "mnist500",
        noise=sc.Gaussian(sigma=0.5, grid=1 / 255),
        procedure=sc.Fixed(n=100),
        subset=sc.datasets.Subset(limit=3),
        out=tmp_path_factory.mktemp("runs") / "run",
        command=("smoothcert", "certify", "--limit", "3"),
    )


def test_the_page_says_when_by_which_command_and_what_the_audit_found(run: sc.Run, tmp_path: Path) -> None:
    (made,) = page(run.report(tmp_path / "r.html", audit=run.verify()))["runs"]
    assert made["model"] == "zoo:mnist-0.50"
    assert made["data"] == "mnist500 test"
    assert made["when"] == run.made.when
    assert made["typed"] == "smoothcert certify --limit 3"
    assert made["audit"]["holds"] is True
    assert made["audit"]["sentence"].startswith("3 of 3 records hold")
    assert made["verify"] == "smoothcert verify run --model zoo:mnist-0.50"


def test_examples_are_the_input_its_noise_and_a_change_below_the_radius(run: sc.Run, tmp_path: Path) -> None:
    model = page(run.report(tmp_path / "r.html"))
    (made,) = model["runs"]
    radii = dict(zip(made["records"]["index"], made["records"]["radius"], strict=True))
    assert made["audit"] is None
    assert made["examples"]
    for example in made["examples"]:
        place = made["records"]["index"].index(example["index"])
        assert example["clean"] == made["records"]["picture"][place], "the same picture once"
        assert len({model["pictures"][example[kind]] for kind in ("clean", "noisy", "moved")}) == 3
        assert 0 < float(example["distance"]) < float(down(radii[example["index"]], 4)), "in print, too"
    assert page(run.report(tmp_path / "again.html"))["pictures"] == model["pictures"], "equal runs, equal pages"


@pytest.mark.parametrize(("norm", "order"), [("l1", 1), ("l2", 2), ("linf", np.inf)])
def test_a_moved_image_is_nearer_than_the_radius_and_nearly_as_far(norm: str, order: float) -> None:
    image = np.random.default_rng(0).integers(256, size=(3, 16, 16), dtype=np.uint8)
    radius = {"l1": 30.0, "l2": 1.5, "linf": 0.2}[norm]
    moved, distance = move(image, radius, norm, seed=1)
    exact = np.linalg.norm((moved.astype(float) - image.astype(float)).ravel() / 255, order)
    assert distance == pytest.approx(exact, rel=1e-12)
    assert 0.9 * radius < exact < radius
    assert (move(image, radius, norm, seed=1)[0] == moved).all()
    assert (move(image, 1e-9, norm, seed=1)[0] == image).all(), "no 8-bit image is that near"
    with pytest.raises(sc.InputError, match="norm must be one of"):
        move(image, 1.0, "l0", seed=0)


def test_an_audit_of_another_run_or_of_an_earlier_state_is_refused(run: sc.Run, tmp_path: Path) -> None:
    other = shutil.copytree(zoo_model("mnist-0.50").run, tmp_path / "other")
    written = tmp_path / "audit.json"
    written.write_text(json.dumps(run.verify().to_json()))
    report([run.path, other], tmp_path / "both.html", images=False, audits=[written])
    first, second = page(tmp_path / "both.html")["runs"]
    assert first["audit"]["holds"]
    assert second["audit"] is None
    assert f"--audit {written}" in page(tmp_path / "both.html")["command"]
    with pytest.raises(sc.InputError, match="is not of these runs as they are now"):
        report([other], tmp_path / "r.html", images=False, audits=[written])
    shorter = Path(shutil.copytree(run.path, tmp_path / "shorter"))
    lines = (shorter / "records.jsonl").read_text().splitlines(keepends=True)
    (shorter / "records.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(sc.InputError, match="is not of these runs as they are now"):
        report([shorter], tmp_path / "r.html", images=False, audits=[written])
    for text in ("[]", "{", '{"run": "x"}'):
        written.write_text(text)
        with pytest.raises(sc.InputError, match="is not what smoothcert verify --json prints"):
            report([run.path], tmp_path / "r.html", images=False, audits=[written])
    assert not (tmp_path / "r.html").exists()
