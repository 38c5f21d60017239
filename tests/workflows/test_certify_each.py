"""`certify --each`: what every classifier gets is what it gets alone, to the last vote."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import smoothcert as sc
from smoothcert.models import Architecture, build, ensembles
from smoothcert.workflows.observer import Observer

SPEC = Architecture("lenet", 10, (1, 8, 8))
NOISE = sc.Gaussian(sigma=0.25, grid=1 / 255)
FEW: dict[str, Any] = {"noise": NOISE, "procedure": sc.Fixed(n0=20, n=200), "workers": 1}
SUBSET = sc.datasets.Subset(limit=3)
AGGREGATIONS = ("soft-voting", "hard-voting", "max-margin", "consensus:k=2", "early-exit")


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("members")
    paths = [folder / f"{seed}.safetensors" for seed in range(3)]
    for seed, path in enumerate(paths):
        net = build(SPEC, seed=seed)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.mul_(1.5)  # so that they disagree
        sc.save_model(path, net, SPEC, details={"noise": sc.Gaussian(0.25).describe()})
    return paths


@pytest.fixture(scope="module")
def each(members: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, sc.Run]:
    out = tmp_path_factory.mktemp("each")
    return sc.certify_each(members, "digits", out=out, subset=SUBSET, aggregations=AGGREGATIONS, **FEW)


def model_of(run: sc.Run, members: list[Path]) -> Path:
    name = run.path.name
    kind, _, number = name.rpartition("-")
    return members[int(number) - 1] if kind == "member" else run.path.parent / "ensembles" / f"{name}.json"


def votes(run: sc.Run) -> list[Any]:
    return [certificate.answers for certificate in run.certificates()]


def test_every_classifier_has_the_votes_that_it_has_alone(
    each: dict[str, sc.Run], members: list[Path], tmp_path: Path
) -> None:
    names = [f"member-{n}" for n in (1, 2, 3)]
    names += [f"{kind.replace(':k=', '-k')}-{size}" for kind in AGGREGATIONS for size in (2, 3)]
    assert list(each) == names
    for name, run in each.items():
        alone = sc.certify(
            model_of(run, members),
            "digits",
            out=tmp_path / name,
            subset=SUBSET,
            batch_size=run.config.batch_size,
            **FEW,
        )
        assert [c.to_json() for c in run.certificates()] == [c.to_json() for c in alone.certificates()], name
        assert run.config == alone.config, name
    assert len({str(votes(run)) for run in each.values()}) > 6, "they are different classifiers"


def test_every_run_is_one_that_an_audit_accepts(each: dict[str, sc.Run], members: list[Path]) -> None:
    for name in ("member-2", "soft-voting-3", "consensus-k2-3"):
        checked = each[name].verify(model_of(each[name], members))
        assert (checked.holds, checked.status) == (True, 0), name


def test_what_adaptive_classifiers_would_ask_alone_is_counted(each: dict[str, sc.Run]) -> None:
    asked = sc.analysis.read(each["consensus-k2-3"].path).settings.cost
    assert asked is not None
    assert "the first 2 agreed on" in asked
    assert "3.00 of 3 members" in str(sc.analysis.read(each["soft-voting-3"].path).settings.cost)


class Stopper(Observer):
    """Ends the process's work, as a kill would, after some draws."""

    def advanced(self, task: str, *, done: int, total: int | None, note: str) -> None:
        if total is not None and done > total / 2:
            raise KeyboardInterrupt


def test_it_goes_on_where_it_stopped_also_between_two_records_of_one_input(
    each: dict[str, sc.Run], members: list[Path], tmp_path: Path
) -> None:
    options = {"out": tmp_path / "each", "subset": SUBSET, "aggregations": AGGREGATIONS, **FEW}
    with pytest.raises(KeyboardInterrupt):
        sc.certify_each(members, "digits", observer=Stopper(), **options)
    torn = tmp_path / "each" / "hard-voting-3" / "records.jsonl"
    torn.write_bytes(b"".join(torn.read_bytes().splitlines(keepends=True)[:-1]))
    found = sc.certify_each(members, "digits", **options)
    assert {name: votes(run) for name, run in found.items()} == {name: votes(run) for name, run in each.items()}
    again = {name: (run.path / "records.jsonl").stat().st_mtime_ns for name, run in found.items()}
    sc.certify_each(members, "digits", **options)
    assert {name: (run.path / "records.jsonl").stat().st_mtime_ns for name, run in found.items()} == again


def test_every_member_is_asked_once_about_every_draw(members: list[Path]) -> None:
    models = [ensembles.load_model(path).model for path in members]
    calls = [0] * len(models)

    def counting(number: int) -> Any:
        def ask(x: torch.Tensor) -> torch.Tensor:
            calls[number] += len(x)
            return models[number](x)

        return ask

    from smoothcert.engine.backends.ensemble import SideBySideRunner

    several = ensembles.SideBySide(
        [*models, ensembles.SoftVoting(models), ensembles.HardVoting(models[:2]), ensembles.Consensus(models, 2)]
    )
    assert [len(places) for places in several.places] == [1, 1, 1, 3, 2, 3]
    runner = SideBySideRunner(several, [counting(number) for number in range(3)])
    x = torch.rand(16, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(runner(x), several(x))
    assert calls == [16, 16, 16]
    asked = runner.member_calls
    assert asked[:10] == [16] * 10
    assert asked[10] <= 16, "the last of consensus is asked where the first two disagree"


def test_an_aggregation_that_asks_about_other_rows_is_answered_by_the_member() -> None:
    from smoothcert.engine.backends.ensemble import SideBySideRunner

    class Mirrored(ensembles.Ensemble):
        name = "mirrored"

        def aggregate(self, members: Any, x: torch.Tensor) -> torch.Tensor:
            return members[0](x) + members[0](x.flip(-1))

    net = build(SPEC, seed=0)
    several = ensembles.SideBySide([net, Mirrored([net])])
    x = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(SideBySideRunner(several, [net])(x), several(x))


def test_soft_bounds_have_the_scores_of_each(members: list[Path], tmp_path: Path) -> None:
    soft = {**FEW, "procedure": sc.Fixed(n0=20, n=200, bound=sc.Hoeffding(1.0))}
    found = sc.certify_each(members[:2], "digits", out=tmp_path / "each", subset=SUBSET, **soft)
    batch = found["member-2"].config.batch_size
    alone = sc.certify(members[1], "digits", out=tmp_path / "alone", subset=SUBSET, batch_size=batch, **soft)
    assert votes(found["member-2"]) == votes(alone)
    assert votes(alone)[0][0][1].score_sums is not None


def test_a_pool_of_processes_gives_the_same(each: dict[str, sc.Run], members: list[Path], tmp_path: Path) -> None:
    few = {name: value for name, value in FEW.items() if name != "workers"}
    found = sc.certify_each(members, "digits", out=tmp_path, subset=SUBSET, pool=sc.Processes(1), **few)
    for name, run in found.items():
        assert votes(run) == votes(each[name]), name


def test_another_backend_gives_the_same_too(members: list[Path], tmp_path: Path) -> None:
    found = sc.certify_each(members[:2], "digits", out=tmp_path / "each", subset=SUBSET, backend="onnxruntime", **FEW)
    run = found["soft-voting-2"]
    batch, file = run.config.batch_size, model_of(run, members)
    alone = sc.certify(
        file, "digits", out=tmp_path / "alone", subset=SUBSET, backend="onnxruntime", batch_size=batch, **FEW
    )
    assert votes(run) == votes(alone)
    assert run.config == alone.config


def test_a_backend_that_builds_something_else_each_time_is_refused(members: list[Path]) -> None:
    from smoothcert.workflows.certify_each import refuse_other_artifacts

    class Built:
        def __init__(self, _: Any) -> None: ...

        def describe(self) -> dict[str, Any]:
            return {"backend": {"name": "openvino-int8", "digest": "another"}}

    several = ensembles.SideBySide([ensembles.load_model(path).model for path in members])
    described = {"backend": {"name": "openvino-int8", "digest": "one"}}
    with pytest.raises(sc.InputError, match="openvino-int8 builds the members anew each time"):
        refuse_other_artifacts(several, described, Built)  # type: ignore[arg-type]
    refuse_other_artifacts(several, {"backend": {"name": "eager"}}, Built)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"procedure": sc.Sequential(radius=0.1, n=1000)}, "takes the same draws for all classifiers"),
        ({"backend": "auto"}, "does not go with --backend auto"),
        ({"aggregations": ["median"]}, "median"),
        ({"aggregations": ["consensus:2"]}, "as in consensus:k=3"),
        ({"aggregations": ["hard-voting", "hard-voting"]}, "given twice"),
        ({"sizes": [4]}, "between 1 and the 3 members"),
    ],
)
def test_what_cannot_work_is_one_sentence(
    members: list[Path], tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(sc.InputError, match=sentence):
        sc.certify_each(members, "digits", out=tmp_path / "each", subset=SUBSET, **FEW | options)
    assert not (tmp_path / "each").exists()


def test_one_model_is_no_ensemble(members: list[Path], tmp_path: Path) -> None:
    with pytest.raises(sc.InputError, match="give several --model, or one ensemble file"):
        sc.certify_each(members[:1], "digits", out=tmp_path, **FEW)


def test_an_ensemble_file_brings_its_own_aggregation_and_what_was_held_out(members: list[Path], tmp_path: Path) -> None:
    from smoothcert.workflows.ensemble import HoldOut, weights

    apart = sc.datasets.Subset(start=2, limit=3)
    weights(members[:2], HoldOut("digits"), out=tmp_path / "two.json")
    found = sc.certify_each(tmp_path / "two.json", "digits", out=tmp_path / "each", subset=apart, **FEW)
    assert list(found) == ["member-1", "member-2", "softmax-voting-2"]
    alone = sc.certify(
        tmp_path / "two.json",
        "digits",
        out=tmp_path / "alone",
        subset=apart,
        batch_size=found["member-1"].config.batch_size,
        **FEW,
    )
    assert votes(found["softmax-voting-2"]) == votes(alone)
    held = sc.datasets.Subset(start=21, limit=2)
    with pytest.raises(sc.InputError, match="were held out to make the ensemble"):
        sc.certify_each(tmp_path / "two.json", "digits", out=tmp_path / "held", subset=held, **FEW)


def test_members_made_by_a_file_of_your_own_need_not_say_how_many_classes_they_have(tmp_path: Path) -> None:
    code = "import torch\n\ndef net():\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))\n"
    files = [tmp_path / name for name in ("one.py", "other.py")]
    for seed, file in enumerate(files):
        file.write_text(code.replace("    return", f"    torch.manual_seed({seed})\n    return"))
    models = [f"{file}:net" for file in files]
    found = sc.certify_each(models, "digits", out=tmp_path / "each", subset=SUBSET, **FEW)
    alone = sc.certify(models[1], "digits", out=tmp_path / "alone", subset=SUBSET, batch_size=128, **FEW)
    assert list(found) == ["member-1", "member-2", "soft-voting-2"]
    assert votes(found["member-2"]) == votes(alone)


def test_a_member_that_is_an_ensemble_is_asked_as_one(members: list[Path], tmp_path: Path) -> None:
    ensembles.save(tmp_path / "mirrored.json", "mirrored", members[:1])
    ensembles.save(tmp_path / "voting.json", "soft-voting", members[1:])
    models = [members[0], tmp_path / "mirrored.json", tmp_path / "voting.json"]
    found = sc.certify_each(models, "digits", out=tmp_path / "each", subset=SUBSET, **FEW)
    for name, several in {"member-2": models[1], "soft-voting-3": models}.items():
        size = found[name].config.batch_size
        alone = sc.certify(several, "digits", out=tmp_path / name, subset=SUBSET, batch_size=size, **FEW)
        assert votes(found[name]) == votes(alone)
    together = json.loads((found["soft-voting-3"].path / "asked.json").read_text())
    assert together == json.loads((tmp_path / "soft-voting-3" / "asked.json").read_text())
    assert together["cost"].startswith("3.00 of 3 members")
