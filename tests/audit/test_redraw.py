"""Runs of a real model, changed by hand in every way we could think of: each change is found by its name."""

import copy
import dataclasses
import hashlib
import math
import re
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from simulated_runs import Lines, read_run, write_run

from smoothcert.audit import audit_run
from smoothcert.audit.fresh import _unlike, draw_fresh
from smoothcert.audit.rebuild import check_model, other_circumstances, rebuild, refuse_other_model
from smoothcert.audit.redraw import redraw, sample_records
from smoothcert.core.errors import InputError
from smoothcert.datasets import Subset, load
from smoothcert.engine import Smoothed
from smoothcert.models import Architecture, build
from smoothcert.noise import Gaussian, Noise
from smoothcert.procedures import Ask, Budgeted, Certificate, Evaluate, Fixed, Procedure, Sequential, Staged, converse
from smoothcert.runs import Run
from smoothcert.runs.chain import TAIL
from smoothcert.stats import EmpiricalBernstein, Tally
from smoothcert.workflows.recording import certify_into, run_config

PROCEDURES: dict[str, Procedure] = {
    "fixed": Fixed(n=500),
    "staged": Staged(radius=0.1, stages=(100, 400)),
    "sequential": Sequential(radius=[0.05, 0.1], n=1_000),
    "budgeted": Budgeted(most=1_000, pilot=100, price=0.2),
}
OTHERS = {
    "runner-up": Fixed(n=500, runner_up=True),
    "soft": Fixed(n=500, bound=EmpiricalBernstein(4.0)),
    "evaluate": Evaluate(n=500),
}
DATA, INPUTS, SEED = load("digits"), 6, 3


def network(seed: int = 0) -> Any:
    return build(Architecture("lenet", 10, (1, 8, 8)), seed=seed)


def smoothed(seed: int = SEED) -> Smoothed:
    return Smoothed(network(), 10, Gaussian(0.25), seed=seed, workers=1)


@pytest.fixture(scope="module", params=PROCEDURES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of an honest run, made once per procedure."""
    folder = tmp_path_factory.mktemp("honest")

    def make(kind: str) -> Path:
        if not (folder / kind).exists():
            procedure = (PROCEDURES | OTHERS)[kind]
            config = run_config(smoothed(), procedure, DATA, Subset(every=7, limit=INPUTS))
            certify_into(Run.start(folder / kind, config), smoothed(), procedure, DATA)
        return folder / kind

    return make


def read(path: Path) -> tuple[dict[str, Any], Lines]:
    return read_run(path)


def write(path: Path, config: dict[str, Any], lines: Lines, versions: dict[str, str] | None = None) -> Run:
    """The run as a careful forger leaves it, who makes every digest again."""
    here = {name: version(name) for name in ("numpy", "scipy")}
    return Run.open(write_run(path, config, lines, versions=here if versions is None else versions))


def found(run: Run) -> set[tuple[str, int | None]]:
    return {(finding.check, finding.index) for finding in audit_run(run).findings}


def votes(line: dict[str, Any]) -> dict[str, int]:
    """Of the last answer."""
    return line["certificate"]["answers"][-1]["votes"]  # type: ignore[no-any-return]


def set_(name: str, value: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def change(line: dict[str, Any]) -> None:
        line["certificate"][name] = value(line["certificate"][name])

    return change


def raise_votes(line: dict[str, Any]) -> None:
    top = max(votes(line), key=votes(line).__getitem__)
    votes(line)[top] += 1


def move_vote(line: dict[str, Any]) -> None:
    top = max(votes(line), key=votes(line).__getitem__)
    votes(line)[top] -= 1
    other = str((int(top) + 1) % 10)
    votes(line)[other] = votes(line).get(other, 0) + 1
    line["certificate"]["answers"][-1]["votes"] = dict(sorted(votes(line).items()))


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "votes raised by one": (raise_votes, "draws"),
    "a vote moved": (move_vote, "reason"),
    "radius raised in the last digit": (set_("radius", lambda r: math.nextafter(r, 9)), "radius"),
    "radius lowered in the last digit": (set_("radius", lambda r: math.nextafter(r, 0)), "radius"),
    "p_lower in the last digit": (set_("p_lower", lambda p: math.nextafter(p, 1)), "p_lower"),
    "p_upper invented": (set_("p_upper", lambda _: 0.01), "p_upper"),
    "another alpha": (set_("alpha", lambda _: 0.01), "alpha"),
    "another alpha of the procedure": (set_("procedure", lambda p: p | {"alpha": 0.01}), "procedure"),
    "another class": (set_("label", lambda c: (c + 1) % 10), "label"),
    "another norm": (set_("norm", lambda _: "linf"), "norm"),
    "another reason": (set_("reason", lambda r: r + "!"), "reason"),
    "another model": (set_("classifier", lambda c: c | {"fingerprint": "0" * 64}), "classifier"),
    "another sigma": (set_("noise", lambda n: n | {"sigma": 0.5}), "noise"),
    "another seed": (set_("seed", lambda s: s + 1), "seed"),
    "another scope": (set_("scope", lambda _: "this input's own classifier"), "scope"),
    "an answer dropped": (lambda line: line["certificate"]["answers"].pop(), "draws"),
    "an answer doubled": (set_("answers", lambda a: [*a, a[-1]]), "draws"),
    "another purpose": (lambda line: line["certificate"]["answers"][-1].update(purpose="choose"), "draws"),
    "more classes": (
        lambda line: [answer.update(classes=11) for answer in line["certificate"]["answers"]],
        "num_classes",
    ),
    "a decision invented": (
        set_("decisions", lambda d: [*d, {"radius": 9.0, "certified": True, "step": 1, "steps": 1}]),
        "decisions",
    ),
    "another truth": (lambda line: line.update(label=(line["label"] + 1) % 10), "truth"),
    "a truth that cannot be": (lambda line: line.update(label=10), "truth"),
    "a time that cannot be": (lambda line: line.update(seconds=-1.0), "seconds"),
    "something added": (lambda line: line.update(note="checked"), "form"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_record_changed_by_hand_is_found_by_name(
    made: Callable[[str], Path], kind: str, tmp_path: Path, change: str
) -> None:
    config, lines = read(made(kind))
    edit, check = CHANGES[change]
    row = next(i for i, line in enumerate(lines) if line["certificate"]["radius"] > 0)
    before = copy.deepcopy(lines[row])
    edit(lines[row])
    assert lines[row] != before
    got = found(write(tmp_path / "run", config, lines))
    index = lines[row]["index"]
    # One vote fewer at the look that decided: the procedure would have gone on, and asked for draws that are not there.
    assert (check, index) in got or (change == "a vote moved" and kind == "sequential" and ("draws", index) in got)
    assert {index for _, index in got} == {lines[row]["index"]}, "the others hold"


def test_honest_runs_hold_at_all_levels(made: Callable[[str], Path]) -> None:
    for kind in PROCEDURES | OTHERS:
        run = Run.open(made(kind))
        audit = audit_run(run)
        assert (audit.findings, audit.exact, len(audit.records), audit.holding()) == ((), True, INPUTS, INPUTS)
        again = redraw(run, audit.records, rebuild(run, network(), 10), DATA)
        assert (again.findings, again.otherwise, again.moved) == ((), (), 0)
        assert again.draws == sum(record.draws or 0 for record in audit.records)
        assert draw_fresh(run, audit.records, rebuild(run, network(), 10, seed=99), DATA, 150) == ()


def test_lines_doubled_missing_torn_damaged_and_foreign(made: Callable[[str], Path], kind: str, tmp_path: Path) -> None:
    config, lines = read(made(kind))
    first, second = lines[0]["index"], lines[1]["index"]
    assert found(write(tmp_path / "doubled", config, [*lines, lines[0]])) == {("repeated", first)}
    assert found(write(tmp_path / "missing", config, lines[1:])) == {("missing", first)}
    foreign = {**lines[0], "index": 1}
    assert found(write(tmp_path / "foreign", config, [foreign, *lines[1:]])) == {
        ("not planned", 1), ("missing", first)
    }  # fmt: skip
    copied = {**lines[0], "index": second, "label": lines[1]["label"]}
    got = found(write(tmp_path / "copied", config, [lines[0], copied, *lines[2:]]))
    assert len(got) == 1
    assert got <= {("input_id", first), ("input_id", second)}
    run = write(tmp_path / "torn", config, lines)
    whole = (run.path / "records.jsonl").read_bytes()
    (run.path / "records.jsonl").write_bytes(whole[:-10])
    assert found(run) == {("torn", None), ("missing", lines[-1]["index"])}
    (run.path / "records.jsonl").write_bytes(b"{]\n" + whole)
    got_lines = [(finding.check, finding.where) for finding in audit_run(run).findings]
    assert got_lines == [("chain", "line 1"), ("damaged", "line 1"), ("chain", f"input {first}")]


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"num_classes": 11}, "num_classes"),
        ({"seed": 4}, "seed"),
        ({"noise": {"name": "gaussian"}}, "noise"),
        ({"classifier": {}}, "classifier"),
        ({"procedure": Fixed(n=501).describe()}, "draws"),
        ({"procedure": {"name": "magic"}}, "procedure"),
        ({"procedure": Fixed().describe() | {"n": 10**12}}, "procedure"),
        ({"indices": list(range(0, 49, 7)), "labels": [0] * 7}, "missing"),
        ({"indices": list(range(0, 49, 7)), "labels": [0] * 7}, "subset"),
        ({"indices": list(range(0, 35, 7)), "labels": [0] * 5}, "not planned"),
        ({"noise": {"name": "pink"}}, "noise"),
    ],
)
def test_another_configuration_is_found(
    made: Callable[[str], Path], tmp_path: Path, change: dict[str, Any], check: str
) -> None:
    config, lines = read(made("fixed"))
    got = {name for name, _ in found(write(tmp_path / "run", config | change, lines))}
    assert check in got


def test_what_the_configuration_leaves_out_is_named(made: Callable[[str], Path], tmp_path: Path) -> None:
    config, lines = read(made("fixed"))
    optional = {"model", "class_names", "sigma_search", "memory", "plugins", "key"}
    for name in set(config) - optional:
        cut = {key: value for key, value in config.items() if key != name}
        with pytest.raises(InputError, match=f"run.json was damaged or changed: .* does not name {name}"):
            write(tmp_path / f"without {name}", cut, lines)


@pytest.mark.parametrize(
    "change",
    [{"procedure": "fixed"}, {"data": None}, {"labels": [0, 1]}, {"indices": []}, {"seed": "0"}, {"fixed_draws": 600}],
    ids=str,
)
def test_a_configuration_that_cannot_be_is_refused(
    made: Callable[[str], Path], tmp_path: Path, change: dict[str, Any]
) -> None:
    config, lines = read(made("fixed"))
    with pytest.raises(InputError, match=r"run.json was damaged or changed"):
        write(tmp_path / "run", config | change, lines)


def test_another_alpha_everywhere_is_found(made: Callable[[str], Path], tmp_path: Path) -> None:
    config, lines = read(made("fixed"))
    config["procedure"]["alpha"] = 0.01
    for line in lines:
        line["certificate"]["alpha"] = line["certificate"]["procedure"]["alpha"] = 0.01
    got = found(write(tmp_path / "run", config, lines))
    assert {("p_lower", line["index"]) for line in lines} <= got


def test_other_versions_allow_the_last_digits_and_no_more(made: Callable[[str], Path], tmp_path: Path) -> None:
    config, lines = read(made("fixed"))
    versions = {"numpy": version("numpy"), "scipy": "1.0.0"}
    line = next(line for line in lines if line["certificate"]["radius"] > 0)
    radius = line["certificate"]["radius"]
    line["certificate"]["radius"] = math.nextafter(radius, 9)
    audit = audit_run(write(tmp_path / "close", config, lines, versions))
    assert (audit.findings, audit.exact) == ((), False)
    line["certificate"]["radius"] = radius * (1 + 1e-11)
    assert found(write(tmp_path / "far", config, lines, versions)) == {("radius", line["index"])}


def test_a_faked_version_does_not_switch_off_the_check_of_reasons(made: Callable[[str], Path], tmp_path: Path) -> None:
    """Of the numbers in a reason the last digit may differ then; its words and its counts may not."""
    faked = {"numpy": "1.0.0", "scipy": "1.0.0"}
    config, lines = read(made("fixed"))
    row = next(i for i, line in enumerate(lines) if line["certificate"]["radius"] > 0)
    index, reason = lines[row]["index"], str(lines[row]["certificate"]["reason"])
    bound = reason.rsplit(" ", 1)[1]
    changes = {
        "words": (reason.replace("votes", "voices"), True),
        "counts": (reason.replace(" of 500", " of 501"), True),
        "digits": (reason.replace(bound, f"{float(bound) + 1e-4:.6f}"), True),
        "last": (reason.replace(bound, f"{float(bound) + 1e-6:.6f}"), False),
    }
    for name, (changed, caught) in changes.items():
        assert changed != reason
        lines[row]["certificate"]["reason"] = changed
        assert found(write(tmp_path / name, config, lines, faked)) == ({("reason", index)} if caught else set())


def test_what_the_run_says_of_its_model_is_checked(made: Callable[[str], Path], tmp_path: Path) -> None:
    config, lines = read(made("fixed"))
    described = config["classifier"]["fingerprint"]
    assert described is not None
    run = write(tmp_path / "named", config | {"model": {"fingerprint": described}}, lines)
    assert found(run) == set()
    other = write(tmp_path / "other", config | {"model": {"fingerprint": "0" * 64}}, lines)
    assert found(other) == {("model", None)}
    architecture = Architecture("lenet", 10, (1, 8, 8)).to_json()
    honest = write(tmp_path / "honest", config | {"model": {"architecture": architecture}}, lines)
    assert check_model(honest.config.model, architecture=architecture, ensemble=None) == ()
    lie = {"architecture": architecture | {"name": "resnet50"}, "ensemble": {"members": 9}}
    faked = write(tmp_path / "faked", config | {"model": lie}, lines)
    assert [f.check for f in check_model(faked.config.model, architecture=architecture, ensemble=None)] == [
        "model",
        "model",
    ]
    with pytest.raises(InputError, match=r"the model is not the one that .* certified: its fingerprint is 0000"):
        refuse_other_model(run, "0" * 64)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "mnist"}, r"calls the data mnist \(test\), they are digits \(test\)"),
        ({"split": "train"}, r"calls the data digits \(train\), they are digits \(test\)"),
        ({"size": 10**6}, "says that there are 1000000 inputs"),
        ({"distinct": 5}, "says that 5 of the planned inputs are different, the data have 6"),
    ],
)
def test_what_the_run_says_of_its_data_is_checked(
    made: Callable[[str], Path], tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    config, lines = read(made("fixed"))
    run = write(tmp_path / "run", config | {"data": config["data"] | change}, lines)
    assert not audit_run(run).findings or "distinct" in change
    sentences = [f.sentence for f in redraw(run, run.records(), rebuild(run, network(), 10), DATA).findings]
    assert len(sentences) == 1
    assert re.search(words, sentences[0])


@pytest.mark.parametrize("distinct", [0, 4, 7])
def test_how_many_inputs_are_different_is_known_from_their_names(
    made: Callable[[str], Path], tmp_path: Path, distinct: int
) -> None:
    config, lines = read(made("fixed"))
    config["data"]["distinct"] = distinct
    assert ("distinct", None) in found(write(tmp_path / "run", config, lines))


def test_a_key_that_stands_twice_is_refused(made: Callable[[str], Path], tmp_path: Path) -> None:
    """One reader would see the first of two seeds, another the second."""
    config, lines = read(made("fixed"))
    run = write(tmp_path / "run", config, lines)
    text = (run.path / "run.json").read_text()
    (run.path / "run.json").write_text(text.replace('"seed": 3', '"seed": 99, "seed": 3'))
    with pytest.raises(InputError, match="'seed' stands twice in one object"):
        Run.open(run.path)
    (run.path / "run.json").write_text(text)
    file = run.path / "records.jsonl"
    first, rest = file.read_bytes().split(b"\n", 1)
    body = first[: first.rindex(TAIL)].replace(b'"label":', b'"label":9,"label":', 1)
    digest = hashlib.blake2b(body, digest_size=16).hexdigest().encode()
    file.write_bytes(body + TAIL + digest + b'"}\n' + rest)  # the line is as its digest says
    assert ("form", lines[0]["index"]) in found(run)


def forged(line: dict[str, Any], procedure: Procedure, answer: Callable[[Ask, Tally], Tally]) -> dict[str, Any]:
    """The record with the answers changed and everything else computed from them, as a careful forger would."""
    old = Certificate.from_json(line["certificate"])
    answers = iter(old.answers)

    def draw(ask: Ask) -> Tally:
        return answer(ask, next(answers, ("", Tally.empty(10)))[1])

    made = converse(procedure.certify(Noise.from_description(old.noise)), draw)
    kept = {name: getattr(old, name) for name in ("noise", "classifier", "seed", "stream", "input_id")}
    return {**line, "seconds": 0.5, "certificate": dataclasses.replace(made, **kept).to_json()}


def with_top(tally: Tally, label: int, count: int) -> Tally:
    """The same number of draws, `count` of them for `label`, the rest for the next class."""
    changed = [0] * tally.num_classes
    changed[label], changed[(label + 1) % tally.num_classes] = count, tally.draws - count
    return Tally(tuple(changed))


def test_a_careful_forger_passes_level_1_and_is_caught_by_drawing_again(
    made: Callable[[str], Path], kind: str, tmp_path: Path
) -> None:
    """One vote of the draws that choose goes to another class: no claim changes."""
    config, lines = read(made(kind))

    def shifted(ask: Ask, tally: Tally) -> Tally:
        if ask.purpose != "choose":
            return tally
        changed, others = list(tally.votes), [c for c in range(10) if c != tally.top]
        giver = next(c for c in others if changed[c])
        taker = next(c for c in others if c != giver)
        changed[giver], changed[taker] = changed[giver] - 1, changed[taker] + 1
        return Tally(tuple(changed))

    row = next(i for i, line in enumerate(lines) if len(line["certificate"]["answers"][0]["votes"]) > 1)
    lines[row] = forged(lines[row], PROCEDURES[kind], shifted)
    run = write(tmp_path / "run", config, lines)
    audit = audit_run(run)
    assert audit.findings == ()
    again = redraw(run, audit.records, rebuild(run, network(), 10), DATA)
    assert [(finding.check, finding.index) for finding in again.findings] == [("votes", lines[row]["index"])]
    assert "drawing again gives" in again.findings[0].sentence


def test_truth_and_input_are_those_of_the_data(made: Callable[[str], Path], tmp_path: Path) -> None:
    config, lines = read(made("fixed"))
    lines[0]["label"] = (lines[0]["label"] + 1) % 10
    config["labels"][config["indices"].index(lines[0]["index"])] = lines[0]["label"]
    lines[1]["certificate"]["input_id"] = "f" * 32
    run = write(tmp_path / "run", config, lines)
    audit = audit_run(run)
    assert audit.findings == ()
    got = redraw(run, audit.records, rebuild(run, network(), 10), DATA).findings
    assert {(f.check, f.index) for f in got} == {("truth", lines[0]["index"]), ("input_id", lines[1]["index"])}


def test_invented_votes_are_caught_by_fresh_draws(made: Callable[[str], Path], tmp_path: Path) -> None:
    """Five standard deviations more in each of six inputs: all six pass with probability below 0.001."""
    config, lines = read(made("fixed"))

    def raised(ask: Ask, tally: Tally) -> Tally:
        if ask.purpose == "choose":
            return tally
        p = max(tally.votes) / tally.draws
        more = round(5 * math.sqrt(tally.draws * p * (1 - p)))
        return with_top(tally, tally.top, min(tally.draws, max(tally.votes) + more))

    run = write(tmp_path / "run", config, [forged(line, PROCEDURES["fixed"], raised) for line in lines])
    audit = audit_run(run)
    assert audit.findings == ()
    got = draw_fresh(run, audit.records, rebuild(run, network(), 10, seed=99), DATA, 3_000)
    assert got
    assert {finding.check for finding in got} == {"fresh draws"}


@pytest.mark.parametrize("kind", ["staged", "sequential"])
def test_claims_of_stopped_runs_are_caught_by_fresh_draws(
    made: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    config, lines = read(made(kind))
    abstained = {line["index"] for line in lines if line["certificate"]["label"] < 0}
    assert abstained

    def unanimous(ask: Ask, tally: Tally) -> Tally:
        return with_top(Tally((ask.n, *[0] * 9)), 0, ask.n)

    made_up = [forged(line, PROCEDURES[kind], unanimous) if line["index"] in abstained else line for line in lines]
    run = write(tmp_path / "run", config, made_up)
    audit = audit_run(run)
    assert audit.findings == ()
    got = draw_fresh(run, audit.records, rebuild(run, network(), 10, seed=99), DATA, 1_000)
    assert {finding.index for finding in got} == abstained
    assert "p_A is claimed to be at least" in got[0].sentence


def test_the_two_sample_test_keeps_its_level() -> None:
    """By enumeration of all recorded and fresh counts of 30 and 20 draws: rejected no more often than the level."""

    def answered(successes: int, n: int) -> Certificate:
        tally = Tally((successes, n - successes))
        made = converse(Fixed(n0=1, n=n).certify(Gaussian(1.0)), lambda ask: tally if ask.n > 1 else Tally((1, 0)))
        return made

    recorded, fresh = [answered(k, 30) for k in range(31)], [answered(k, 20) for k in range(21)]
    rejected = [(i, j) for i in range(31) for j in range(21) if _unlike(recorded[i], fresh[j], 0.05)]
    assert (0, 20) in rejected
    for p in (0.1, 0.3, 0.5, 0.9):
        mass = sum(stats.binom.pmf(i, 30, p) * stats.binom.pmf(j, 20, p) for i, j in rejected)
        assert mass <= 0.05


def test_what_cannot_be_compared_is_refused(made: Callable[[str], Path], tmp_path: Path) -> None:
    run = Run.open(made("fixed"))
    with pytest.raises(InputError, match=r"the model is not the one that .* certified: its fingerprint is"):
        rebuild(run, network(1), 10)
    with pytest.raises(InputError, match="its dtype is float64, certified was float32"):
        rebuild(write(tmp_path / "double", *_with_fingerprint(run, network().double())), network().double(), 10)
    config, lines = read(run.path)
    config["classifier"]["backend"]["precision"] = "bfloat16"
    with pytest.raises(InputError, match=r"its backend\.precision is float32, certified was bfloat16"):
        rebuild(write(tmp_path / "precision", config, lines), network(), 10)
    records = audit_run(run).records
    with pytest.raises(InputError, match=r"data digits \(train\) are not those"):
        redraw(run, records, rebuild(run, network(), 10), load("digits", "train"))
    with pytest.raises(InputError, match="seed of fresh draws must not be the run's, 3"):
        draw_fresh(run, records, rebuild(run, network(), 10), DATA, 300)
    config, lines = read(run.path)
    for noise, words in [
        ({"name": "pink"}, "no noise 'pink'.*--plugin"),
        (config["noise"] | {"sigma": -1}, "describes no noise: sigma must be"),
        (config["noise"] | {"arithmetic": "grid"}, "describes no noise: arithmetic is 'grid', not 'float32'"),
    ]:
        broken = write(tmp_path / f"broken {noise}", config | {"noise": noise}, lines)
        with pytest.raises(InputError, match=words):
            rebuild(broken, network(), 10)
    broken = write(tmp_path / "no classifier", config | {"classifier": {}}, lines)
    with pytest.raises(InputError, match="does not say which classifier"):
        rebuild(broken, network(), 10)


def _with_fingerprint(run: Run, model: Any) -> tuple[dict[str, Any], Lines]:
    config, lines = read(run.path)
    config["classifier"]["fingerprint"] = Smoothed(model, 10, Gaussian(0.25)).describe()["fingerprint"]
    return config, lines


def test_another_machine_may_round_otherwise_but_not_invent(made: Callable[[str], Path], tmp_path: Path) -> None:
    config, lines = read(made("fixed"))
    config["classifier"]["torch"] = "1.0.0"
    for line in lines:
        line["certificate"]["classifier"]["torch"] = "1.0.0"

    def moved(count: int) -> Callable[[Ask, Tally], Tally]:
        def answer(ask: Ask, tally: Tally) -> Tally:
            if ask.purpose == "choose":
                return tally
            changed, low = list(tally.votes), min(range(10), key=tally.votes.__getitem__)
            changed[tally.top], changed[low] = changed[tally.top] - count, changed[low] + count
            return Tally(tuple(changed))

        return answer

    for count, caught in [(0, False), (1, False), (2, True)]:
        changed = [forged(lines[0], PROCEDURES["fixed"], moved(count)), *lines[1:]]
        run = write(tmp_path / str(count), config, changed)
        model = rebuild(run, network(), 10)
        assert other_circumstances(run, model) == [f"torch is {model.describe()['torch']}, was 1.0.0"]
        audit = audit_run(run)
        assert audit.findings == ()
        again = redraw(run, audit.records, model, DATA)
        assert ([f.check for f in again.findings], again.moved) == ((["votes"], 0) if caught else ([], count))


def test_a_share_is_chosen_by_its_seed(made: Callable[[str], Path]) -> None:
    records = audit_run(Run.open(made("fixed"))).records
    assert sample_records(records, 1, 0) == list(records)
    half = [[record.index for record in sample_records(records, 0.5, seed)] for seed in range(5)]
    assert all(len(chosen) == 3 for chosen in half)
    assert half[0] == [record.index for record in sample_records(records, 0.5, 0)]
    assert len({tuple(chosen) for chosen in half}) > 1
    assert len(sample_records(records, 1e-9, 0)) == 1
    for share in (0, -1, 1.5, math.nan):
        with pytest.raises(InputError, match="share must be above 0"):
            sample_records(records, share, 0)


def test_a_run_that_was_stopped_and_resumed_holds(made: Callable[[str], Path], kind: str, tmp_path: Path) -> None:
    config, lines = read(made(kind))
    run = write(tmp_path / "run", config, lines)
    file = run.path / "records.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[: whole.index(b"\n") + 300])
    assert {name for name, _ in found(run)} == {"torn", "missing"}
    certify_into(run, smoothed(), PROCEDURES[kind], DATA)
    audit = audit_run(run)
    assert (audit.findings, audit.holding()) == ((), INPUTS)
    assert redraw(run, audit.records, rebuild(run, network(), 10), DATA).findings == ()


def test_an_input_nearer_to_the_grid_than_it_is_is_found_with_the_data(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=np.random.default_rng(0).normal(size=(2, 3)), y=np.arange(2))
    data, procedure, model = load(tmp_path / "own.npz"), Fixed(n=100), torch.nn.Linear(3, 2)
    beside = Smoothed(model, 2, Gaussian(0.25, grid=1 / 16), workers=1)
    run = Run.start(tmp_path / "run", run_config(beside, procedure, data, Subset()))
    certify_into(run, beside, procedure, data)
    assert audit_run(run).findings == ()
    config, lines = read(run.path)
    assert lines[0]["certificate"]["noise"].pop("offset") > 0
    lines[0] = forged(lines[0], procedure, lambda _, tally: tally)
    changed = write(tmp_path / "changed", config, lines)
    audit = audit_run(changed)
    assert audit.findings == ()
    got = redraw(changed, audit.records, rebuild(changed, model, 2), data).findings
    assert [(finding.check, finding.index) for finding in got] == [("noise", lines[0]["index"])]


def test_equal_inputs_are_known_from_the_data(tmp_path: Path) -> None:
    """A data set may hold an input twice; then their votes are the same, and the run says how often it happens."""
    images = np.repeat(DATA.inputs[:2], [2, 1], axis=0)
    np.savez(tmp_path / "twice.npz", x=images, y=np.arange(3))
    data, procedure = load(tmp_path / "twice.npz"), Fixed(n=100)
    run = Run.start(tmp_path / "run", run_config(smoothed(), procedure, data, Subset()))
    certify_into(run, smoothed(), procedure, data)
    assert run.config.data.distinct == 2
    assert audit_run(run).findings == ()
    config, lines = read(run.path)
    row = next(i for i, line in enumerate(lines) if line["index"] == 1)
    lines[row] = forged(
        lines[row], procedure, lambda ask, t: t if ask.purpose == "choose" else with_top(t, t.top, max(t.votes) - 1)
    )
    shutil.rmtree(run.path)
    assert found(write(tmp_path / "run", config, lines)) == {("input_id", 1)}


def test_votes_that_all_move_upwards_are_no_rounding(made: Callable[[str], Path], tmp_path: Path) -> None:
    config, lines = read(made("fixed"))
    config["classifier"]["torch"] = "1.0.0"
    for line in lines:
        line["certificate"]["classifier"]["torch"] = "1.0.0"

    def raised(ask: Ask, tally: Tally) -> Tally:
        changed, given = list(tally.votes), next((c for c in range(10) if c != tally.top and tally.votes[c]), None)
        if ask.purpose != "choose" and given is not None:
            changed[tally.top], changed[given] = changed[tally.top] + 1, changed[given] - 1
        return Tally(tuple(changed))

    run = write(tmp_path / "run", config, [forged(line, PROCEDURES["fixed"], raised) for line in lines])
    audit = audit_run(run)
    assert audit.findings == ()
    again = redraw(run, audit.records, rebuild(run, network(), 10), DATA)
    raised_ones = {f.index for f in again.findings if f.check == "votes" and "are drawn here give" in f.sentence}
    claimed = {
        r.index for r, line in zip(audit.records, lines, strict=True) if r.radius > line["certificate"]["radius"]
    }
    assert claimed
    assert claimed <= raised_ones


def test_looks_that_were_never_drawn_are_drawn_and_found(made: Callable[[str], Path], tmp_path: Path) -> None:
    """A forger goes on where the honest conversation stopped, under the cover of another version of torch."""
    config, lines = read(made("sequential"))
    config["classifier"]["torch"] = "1.0.0"
    for line in lines:
        line["certificate"]["classifier"]["torch"] = "1.0.0"
    longer = dict(lines[0])
    last = longer["certificate"]["answers"][-1]
    top = max(last["votes"], key=last["votes"].__getitem__)
    more = {**last, "votes": {str((int(top) + 1) % 10): sum(last["votes"].values())}}
    longer["certificate"] = {**longer["certificate"], "answers": [*longer["certificate"]["answers"], more]}
    run = write(tmp_path / "run", config, [longer, *lines[1:]])
    again = redraw(run, run.records(), rebuild(run, network(), 10), DATA)
    assert "votes" in {f.check for f in again.findings if f.index == longer["index"]}
