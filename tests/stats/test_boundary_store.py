import json
from pathlib import Path

import pytest

from smoothcert.stats import boundary_store
from smoothcert.stats.boundary_store import stored_boundaries
from smoothcert.stats.group_sequential import boundaries

ARGUMENTS = ((0.84,), 5_000, 0.001, 0.001)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path))
    stored_boundaries.cache_clear()
    return tmp_path / "boundaries"


def test_a_second_call_reads_what_the_first_wrote(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = stored_boundaries(*ARGUMENTS)
    assert first == boundaries(*ARGUMENTS)
    assert len(list(files.iterdir())) == 1
    stored_boundaries.cache_clear()
    monkeypatch.setattr(boundary_store, "boundaries", None)
    assert stored_boundaries(*ARGUMENTS) == first


def test_a_changed_or_torn_file_is_computed_again(files: Path) -> None:
    """A boundary raised by hand would make false certificates: the digest does not match."""
    first = stored_boundaries(*ARGUMENTS)
    (path,) = files.iterdir()
    whole = path.read_text()
    raised = whole.replace(f'"certify": [{first[0].certify[0]},', f'"certify": [{first[0].certify[0] + 5},')
    assert raised != whole
    for damaged in (raised, whole[: len(whole) // 2], "", "[]", '{"digest": 1, "content": {}}'):
        path.write_text(damaged)
        stored_boundaries.cache_clear()
        assert stored_boundaries(*ARGUMENTS) == first
        assert path.read_text() == whole


def test_a_forged_file_is_not_believed(files: Path) -> None:
    """Boundaries that certify anything, with a digest that fits: the exact check finds that they do not keep alpha."""
    first = stored_boundaries(*ARGUMENTS)
    (path,) = files.iterdir()
    content = json.loads(path.read_text())["content"]
    forgeries = [
        {"certify": list(first[0].looks)},
        {"certify": [a + 20 for a in first[0].certify]},
        {"certify": first[0].certify[:-1]},
        {"p0": 0.5},
        {"looks": list(reversed(first[0].looks))},
        {"certify": [float(a) for a in first[0].certify]},
    ]
    for forged in [*forgeries, None]:
        tables = [] if forged is None else [{**content["tables"][0], **forged}]
        false = {**content, "tables": tables}
        path.write_text(json.dumps({"digest": boundary_store._digest(false), "content": false}))
        stored_boundaries.cache_clear()
        assert stored_boundaries(*ARGUMENTS) == first


def test_a_folder_that_cannot_be_written_only_costs_time(files: Path) -> None:
    files.parent.joinpath("boundaries").write_text("a file in the way")
    assert stored_boundaries(*ARGUMENTS) == boundaries(*ARGUMENTS)
