"""Whatever stands on the command line: an answer, findings or one sentence; status 0, 1 or 2; nothing is written."""

import os
from pathlib import Path

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_runs import simulated_config
from typer.testing import CliRunner

from smoothcert.cli import app, repeat_options
from smoothcert.noise import Gaussian, Noise
from smoothcert.procedures import Fixed, converse
from smoothcert.runs import Record, Run
from smoothcert.stats import Tally

PROCEDURE = Fixed(n0=5, n=50)
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
# `demo` certifies for a minute if it can: it only gets arguments that no command knows.
CALLED = sorted(set(COMMANDS) - {"demo"})
JUNK = [
    "", "-", "--", "0", "-1", "1", "nan", "inf", "1e400", "9" * 30, "0.5", "x", "junk.bin", "junk.npy", "nowhere",
    "run", ".", "..", "/", "é\u202e", "a,b", "0,0.25", "[bold]", "%s", "--help", "-h", "--no-such-option", "cpu",
    "abacus", "fixed", "x" * 300,
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run: two files of junk and a small run."""
    path = tmp_path_factory.mktemp("fuzz")
    (path / "junk.bin").write_bytes(bytes(range(256)))
    (path / "junk.npy").write_bytes(b"\x93NUMPY\x01\x00junk")
    noise = Gaussian(0.25).describe()
    run = Run.start(path / "run", simulated_config([0, 1], noise=noise, classifier={}, procedure=PROCEDURE.describe()))
    with run.writing() as writer:
        made = converse(PROCEDURE.certify(Noise.from_description(noise)), lambda ask: Tally((ask.n - 1, 1)))
        writer.append(Record.of(0, 0, made, 0.5))
    return path


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def options(name: str) -> list[str]:
    """What a command knows, but for what would write a file if all else is right."""
    flags = [flag for parameter in COMMANDS[name].params for flag in parameter.opts if flag.startswith("-")]
    return [flag for flag in flags if flag not in ("--out", "--figure")]


@settings(max_examples=150, derandomize=True)
@given(st.data())
def test_arguments_of_any_kind(folder: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(CALLED))
    words = st.sampled_from([*options(name), *JUNK]) | st.text(max_size=8).filter(lambda text: "\0" not in text)
    needed: list[str] = []
    for parameter in COMMANDS[name].params if data.draw(st.booleans()) else []:
        if parameter.required:
            flags = [flag for flag in parameter.opts[:1] if flag.startswith("-")]
            needed += [*flags, "out/x.html" if flags == ["--out"] else data.draw(st.sampled_from(JUNK))]
    check(folder, [name, *needed, *data.draw(st.lists(words, max_size=6))])


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_an_option_that_nobody_knows(folder: Path, name: str) -> None:
    assert check(folder, [name, "--no-such-option"]) == 2
    assert check(folder, [name, "--help"]) == 0


def check(folder: Path, arguments: list[str]) -> int:
    before, home = content(folder), Path.cwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(app, repeat_options(arguments))
    finally:
        os.chdir(home)
    assert done.exit_code in (0, 1, 2), (arguments, done.output)
    assert done.exception is None or isinstance(done.exception, SystemExit), (arguments, done.exception)
    assert "Traceback" not in done.output
    after = content(folder)
    written = {path for path in after if path not in before}
    assert {path: after[path] for path in before} == before, arguments
    # A report of a run that can be read is what `report --out` is for.
    assert not written or (arguments[0] == "report" and done.exit_code == 0), (arguments, written)
    for path in written:
        Path(path).unlink()
    return done.exit_code
