import json
import re
from pathlib import Path

import pytest
from simulated_runs import read_run, write_run

from smoothcert.analysis import Results, Settings, on_shared_inputs, read, read_all, subset_warnings
from smoothcert.core.errors import InputError
from smoothcert.procedures import Fixed, Scope
from smoothcert.runs import DataConfig, Record

HUGE = [{"purpose": "bound", "classes": 2, "votes": {"1": 10**400}}]


def results(name: str, indices, label: int = 1, **settings) -> Results:
    records = tuple(Record(i, label, label, 0.5) for i in indices)
    return Results(name, records, len(records), Settings(**settings))


def data(name: str, split: str = "test", fingerprint: str = "a" * 64) -> DataConfig:
    return DataConfig(name=name, split=split, size=9, fingerprint=fingerprint, distinct=9)


def test_a_finished_run(make_run) -> None:
    got = read(make_run("mine", [0, 20, 40], [100, 99, 50]))
    assert got.name == "mine"
    assert got.planned == 3
    assert got.warnings == ()
    assert [(r.index, r.label, r.prediction) for r in got.records] == [(0, 1, 1), (20, 1, 1), (40, 1, -1)]
    assert got.records[0].draws == 110
    # 100 of 100 votes at alpha = 0.001: 0.25 Phi^-1(0.001^(1/100)), by mpmath
    assert got.records[0].radius == pytest.approx(0.3751187560301591, rel=1e-12)
    assert got.settings.noise == {"name": "gaussian", "sigma": 0.25, "norm": "l2"}
    assert got.settings.data is not None
    assert (got.settings.data.name, got.settings.data.split) == ("digits", "test")
    assert got.settings.procedure == Fixed(n0=10, n=100).describe()
    assert (got.settings.alpha, got.settings.scope, got.norm) == (0.001, "fixed classifier", "l2")
    assert got.settings.fixed_draws == 110
    assert got.subset == "0-40, every 20th"
    told = json.loads(json.dumps(got.settings.to_json()))
    assert told["procedure"]["n"] == 100
    assert "indices" not in told
    assert "memory" not in told, "what there is not is not told"


def test_an_unfinished_run_says_how_to_finish(make_run) -> None:
    got = read(make_run("half", range(5), [100, 100]))
    assert got.planned == 5
    assert got.warnings == ("2 of 5 inputs are recorded; run the same certify command again to finish",)


def test_a_run_without_records_is_refused(make_run) -> None:
    with pytest.raises(InputError, match="no recorded input yet; run the same certify command"):
        read(make_run("empty", range(5), []))


@pytest.mark.parametrize(
    ("scope", "meaning"),
    [
        (Scope.MEMORY, "do not claim anything about the classifier without that memory"),
        (Scope.OWN, "do not claim that any one classifier is robust"),
    ],
)
def test_a_restricted_scope_is_a_warning(make_run, scope: Scope, meaning: str) -> None:
    got = read(make_run("scoped", range(2), [100, 99], scope=scope))
    assert len(got.warnings) == 1
    assert got.warnings[0].startswith("2 of 2 certificates")
    assert meaning in got.warnings[0]
    assert got.settings.scope == str(scope)


@pytest.mark.parametrize("indices", [None, "0,1", [0, 0], [0, "1"], [0, True], {"a": 1}, []])
def test_a_run_without_a_plan_is_refused(make_run, indices) -> None:
    path = make_run("damaged", range(2), [100, 99])
    config, lines = read_run(path)
    write_run(path, config | {"indices": indices}, lines)
    with pytest.raises(InputError, match=r"run.json was damaged or changed: .*(indices|planned)"):
        read(path)


@pytest.mark.parametrize(
    "edit", [{"radius": "0.5"}, {"radius": -1.0}, {"radius": float("nan")}, {"label": "cat"}, {"answers": HUGE}]
)
def test_a_record_that_cannot_be_is_refused(make_run, edit: dict) -> None:
    path = make_run("odd", range(1), [100])
    config, lines = read_run(path)
    lines[0]["certificate"] |= edit
    write_run(path, config, lines)
    with pytest.raises(InputError, match=r"records\.jsonl.*(input 0|line 1)"):
        read(path)


def test_equal_names_are_told_apart(make_run, tmp_path: Path) -> None:
    header = "idx\tlabel\tpredict\tradius\n"
    paths = []
    for name in ("x/one", "y/one", "y/two"):
        (tmp_path / name).mkdir(parents=True)
        paths.append(tmp_path / name / "log.tsv")
        paths[-1].write_text(header + "0\t1\t1\t0.5\n")
    assert [r.name for r in read_all(paths)] == ["x/one/log", "y/one/log", "two/log"]
    with pytest.raises(InputError, match=f"^{re.escape(str(paths[0]))} was given twice"):
        read_all([paths[0], paths[0]])
    assert [r.name for r in read_all(paths[:1])] == ["log"]


def test_the_same_inputs_need_no_warning() -> None:
    assert subset_warnings([results("a", range(10)), results("b", reversed(range(10)))]) == []
    assert subset_warnings([results("a", range(10))]) == []
    assert subset_warnings([]) == []


def test_other_inputs_are_named() -> None:
    assert subset_warnings([results("a", range(0, 100)), results("b", range(0, 100, 20))]) == [
        "the results cover different inputs (a: 100, b: 5); 5 are shared by all: compare them with --shared"
    ]
    # the MACER paper's table: images 500-999 beside images 0-499
    assert subset_warnings([results("a", range(500, 1000)), results("b", range(500))]) == [
        "the results cover different inputs (a: 500, b: 500); 0 are shared by all: they cannot be compared"
    ]


def test_other_labels_are_named() -> None:
    a, b = results("a", range(10)), results("b", range(10))
    other = Results("b", (*b.records[:8], Record(8, 5, 5, 0.1), Record(9, 6, 6, 0.1)))
    assert subset_warnings([a, other]) == [
        "b has another label than the results before it for 2 of 10 inputs they share (first: input 8); they are not "
        "of the same data"
    ]


def test_other_data_and_norms_are_named() -> None:
    a = results("a", range(3), data=data("mnist"), norm="l2")
    b = results("b", range(3), data=data("mnist", "train", "b" * 64), norm="l1")
    unknown = results("log", range(3))
    assert subset_warnings([a, b, unknown]) == [
        "the results are of different data sets (a: mnist test aaaaaaaa, b: mnist train bbbbbbbb); they cannot be "
        "compared",
        "the results are of different norms (a: l2, b: l1); they cannot be compared",
    ]
    assert subset_warnings([a, unknown]) == []


def test_the_fingerprint_decides_which_data_they_are() -> None:
    a = results("a", range(3), data=data("mnist"))
    b = results("b", range(3), data=data("mnist", fingerprint="b" * 64))
    renamed = results("renamed", range(3), data=data("mine"))
    unknown = results("unknown", range(3))
    assert subset_warnings([a, b]) == [
        "the results are of different data sets (a: mnist test aaaaaaaa, b: mnist test bbbbbbbb); they cannot be "
        "compared"
    ]
    assert subset_warnings([a, renamed]) == []
    assert subset_warnings([a, unknown]) == []
    assert len(subset_warnings([unknown, a, b])) == 1
    assert subset_warnings([unknown, renamed]) == []


def test_shared_keeps_the_common_inputs_in_one_order() -> None:
    a, b = on_shared_inputs([results("a", [5, 3, 1, 9]), results("b", [9, 1, 5])])
    assert [r.index for r in a.records] == [r.index for r in b.records] == [1, 5, 9]
    assert a.settings.restricted == "3 shared inputs of 4"
    assert a.planned is None
    assert b.settings.restricted is None
    assert b.planned == 3
    assert subset_warnings([a, b]) == []
    assert on_shared_inputs([]) == []


def test_sharing_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="share no input"):
        on_shared_inputs([results("a", [0]), results("b", [1])])


@pytest.mark.parametrize(
    ("indices", "words"),
    [
        ([7], "7"),
        (range(500, 1000), "500-999"),
        (range(0, 10000, 20), "0-9980, every 20th"),
        (range(1, 10, 2), "1-9, every 2nd"),
        (range(0, 100, 11), "0-99, every 11th"),
        ([0, 1, 5], "0-5, irregular"),
    ],
)
def test_the_subset_in_words(indices, words: str) -> None:
    assert results("a", indices).subset == words
