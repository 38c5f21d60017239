"""`sc.certify` with whatever people bring, and all that a `Run` does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from simulated_runs import made_of, read_run, write_run

import smoothcert as sc
from smoothcert.models import Architecture, build

FEW = {"noise": sc.Gaussian(sigma=0.25, grid=1 / 255), "procedure": sc.Fixed(n0=20, n=200), "workers": 1}
SUBSET = sc.datasets.Subset(limit=3)
SPEC = Architecture("lenet", 10, (1, 8, 8))


def certificates(run: sc.Run) -> list[dict[str, Any]]:
    return [certificate.to_json() for certificate in run.certificates()]


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return build(SPEC, seed=0)


@pytest.fixture(scope="module")
def run(model: torch.nn.Module, tmp_path_factory: pytest.TempPathFactory) -> sc.Run:
    return sc.certify(model, "digits", out=tmp_path_factory.mktemp("runs") / "run", subset=SUBSET, **FEW)


def test_a_module_its_file_and_its_arrays_have_the_same_certificates(
    run: sc.Run, model: torch.nn.Module, tmp_path: Path
) -> None:
    data, wanted = sc.datasets.load("digits"), certificates(run)
    assert len(wanted) == 3
    sc.save_model(tmp_path / "net.safetensors", model, SPEC, details={"by": "me"})
    loaded = sc.load_model(tmp_path / "net.safetensors")
    sc.save_model(tmp_path / "again.safetensors", loaded)
    again = sc.load_model(tmp_path / "again.safetensors")
    assert (again.fingerprint, again.details) == (loaded.fingerprint, {"by": "me"})
    x, y = data.inputs[:3], data.labels[:3]
    np.savez(tmp_path / "mine.npz", x=x, y=y)
    given: dict[str, tuple[Any, Any]] = {
        "file": (tmp_path / "net.safetensors", "digits"),
        "loaded": (loaded, data),
        "arrays": (model, (x, y)),
        "floats": (model, (torch.from_numpy(x / np.float32(255)), list(y))),
        "npz": (str(tmp_path / "again.safetensors"), str(tmp_path / "mine.npz")),
    }
    for name, (one, of) in given.items():
        made = sc.certify(one, of, out=tmp_path / name, subset=SUBSET, **FEW)
        assert certificates(made) == wanted, name


def test_the_same_call_again_goes_on_and_another_is_refused(
    run: sc.Run, model: torch.nn.Module, tmp_path: Path
) -> None:
    made = sc.certify(model, "digits", out=tmp_path / "run", subset=SUBSET, **FEW)
    file = made.path / "records.jsonl"
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
    again = sc.certify(model, "digits", out=tmp_path / "run", subset=SUBSET, **FEW)
    assert certificates(again) == certificates(run)
    assert (tmp_path / "run" / "progress.log").read_text().count("certify: started") == 2
    with pytest.raises(sc.InputError, match="Give another --out, or the old --seed"):
        sc.certify(model, "digits", out=tmp_path / "run", subset=SUBSET, seed=1, **FEW)


def test_a_function_without_a_fingerprint_is_certified_but_not_resumed(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)[:, :5]

    data = sc.datasets.load("digits").inputs[:2], np.array([0, 1])
    made = sc.certify(function, data, out=tmp_path / "run", **FEW)
    assert made.config.num_classes == 5, "it was asked"
    assert len(made.certificates()) == 2
    with pytest.raises(sc.InputError, match="without a fingerprint"):
        sc.certify(function, data, out=tmp_path / "run", **FEW)


def test_a_model_that_does_not_classify_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sc.InputError, match=r"must answer a score per class, \(B, C\), got \(1, 1, 8, 8\)"):
        sc.certify(torch.nn.Identity(), "digits", out=tmp_path / "run", **FEW)
    with pytest.raises(sc.InputError, match=r"--data must be \(inputs, labels\), got 3 values"):
        sc.certify(torch.nn.Flatten(), ([0], [0], [0]), out=tmp_path / "run", **FEW)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_asking_for_the_number_of_classes_leaves_a_module_as_it_was(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 10)).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    sc.certify(net, "digits", out=tmp_path / "run", subset=SUBSET, **FEW)
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_what_a_run_tells(run: sc.Run, tmp_path: Path) -> None:
    opened = sc.Run.open(str(run.path))
    assert certificates(opened) == certificates(run)
    assert opened.summary([0, 0.1]).radii == (0, 0.1)
    assert "ACR" in opened.table()
    assert opened.table(form="csv").startswith("name,")
    with pytest.raises(sc.InputError, match="form must be terminal, markdown, latex, csv, got 'word'"):
        opened.table(form="word")
    assert opened.outcome.inputs == 3
    assert "inputs planned" in repr(opened)
    page = opened.report(tmp_path / "page.html")
    assert "data:image/png" in page.read_text()
    assert sc.compare(run, opened.results()).acr_difference == 0


def test_it_is_audited_with_what_it_was_made_of(run: sc.Run, model: torch.nn.Module) -> None:
    checked = run.verify(model, fresh=100, pick=5)
    assert (checked.holds, checked.status, checked.holding, checked.pick) == (True, 0, 3, 5)
    assert [level[:7] for level in checked.levels] == ["level 1", "level 2", "level 3"]
    assert "3 of 3 records hold" in str(checked)
    assert "--pick 5" in checked.notes[-1]
    assert sc.Run.open(run.path).verify().holds
    with pytest.raises(sc.InputError, match="is not the one that"):
        run.verify(build(SPEC, seed=1))


def test_a_forged_record_is_found(run: sc.Run, model: torch.nn.Module, tmp_path: Path) -> None:
    config, lines = read_run(run.path)
    lines[0]["certificate"]["alpha"] = 0.5
    checked = sc.Run.open(write_run(tmp_path / "forged", config, lines, **made_of(run.path))).verify(model)
    assert (checked.holds, checked.status, checked.holding) == (False, 1, 2)
    assert "alpha is recorded as 0.5" in str(checked)
    assert checked.to_json()["findings"][0]["check"] == "alpha"


def test_it_is_attacked(run: sc.Run, model: torch.nn.Module, tmp_path: Path) -> None:
    found = run.attack(model, steps=2, draws=4, votes=50, radii=[0.5], out=tmp_path / "attack")
    assert (found.status, found.false, found.refuted) == (0, (), [])
    assert len(found.inputs) == 3
    assert [row.radius for row in found.rows] == [0, 0.5]
    assert "no attack succeeded" in found.sentence


def test_inputs_that_made_an_ensemble_are_not_certified(model: torch.nn.Module, tmp_path: Path) -> None:
    """The leak check is no affair of the command line."""
    details = {"noise": sc.Gaussian(0.25).describe()}
    for seed in (0, 1):
        sc.save_model(tmp_path / f"{seed}.safetensors", build(SPEC, seed=seed), SPEC, details=details)
    from smoothcert.workflows.ensemble import HoldOut, rank

    members = [tmp_path / f"{seed}.safetensors" for seed in (0, 1)]
    found = rank(members, HoldOut("digits"), draws=1, out=tmp_path / "both.json")
    assert sorted(found.order) == [0, 1]
    with pytest.raises(sc.InputError, match="were held out to make the ensemble"):
        sc.certify(
            tmp_path / "both.json", "digits", out=tmp_path / "run", subset=sc.datasets.Subset(start=21, limit=2), **FEW
        )


def test_a_cut_that_leaves_few_classes_is_a_warning(tmp_path: Path) -> None:
    x, y = np.zeros((40, 1, 8, 8), np.uint8), np.repeat(np.arange(10), 4)
    with pytest.warns(UserWarning, match="of 1 of the 10 classes of arrays"):
        sc.certify(
            torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)),
            (np.concatenate([x[:20], x]), np.concatenate([np.zeros(20, int), y])),
            out=tmp_path / "run",
            subset=sc.datasets.Subset(limit=20),
            **FEW,
        )
