"""What every command does with plug-ins, closed pipes, Ctrl-C, odd names, and output that is no terminal."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from smoothcert import __version__
from smoothcert.cli import app, repeat_options
from smoothcert.cli.examples import EXAMPLES
from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
GROUPS = ("ensemble", "figure", "memory", "model", "serve")
LEAVES = [[name] for name in COMMANDS if name not in GROUPS or name == "serve"]
LEAVES += [[group, name] for group in GROUPS for name in COMMANDS[group].commands]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def net(folder: Path, name: str = "net.safetensors") -> Path:
    spec = Architecture("lenet", 10, (1, 8, 8))
    save(folder / name, build(spec, seed=0), spec, {"noise": Gaussian(0.25).describe()})
    return folder / name


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_loads_plugins_before_anything_else(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("raise ValueError('loaded first')")
    needed = []
    command = COMMANDS[words[0]] if len(words) == 1 else COMMANDS[words[0]].commands[words[1]]
    for parameter in command.params:
        if parameter.required:
            flags = [flag for flag in parameter.opts[:1] if flag.startswith("-")]
            needed += [*flags, str(tmp_path / "nowhere")]
    done = call(*words, *needed, "--plugin", tmp_path / "mine.py")
    assert (done.exit_code, "loaded first" in done.stderr) == (2, True), done.output
    assert done.stderr.count("\n") == 1


def test_help_and_version() -> None:
    for words in ([], *LEAVES):
        assert call(*words, "-h").exit_code == 0
    done = call("--version")
    assert (done.exit_code, done.stdout) == (0, f"smoothcert {__version__}\n")


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_the_help_of_every_command_ends_with_two_examples_that_parse(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of commands that have any here; each example is taken apart as if it were typed."""
    found = EXAMPLES[" ".join(words)]
    assert len(found) == 2
    monkeypatch.setenv("COLUMNS", "80")
    shown = call(*words, "-h").stdout
    assert max(map(len, shown.splitlines())) <= 80
    command = COMMANDS[words[0]] if len(words) == 1 else COMMANDS[words[0]].commands[words[1]]
    for example in found:
        assert f"smoothcert {example}" in " ".join(shown.split())
        typed = repeat_options(shlex.split(example))
        assert typed[: len(words)] == words
        context = command.make_context(words[-1], typed[len(words) :])
        assert context.params


def test_a_shell_completes_commands_and_options() -> None:
    environment = {"_SMOOTHCERT_COMPLETE": "complete_bash", "COMP_WORDS": "smoothcert cert", "COMP_CWORD": "1"}
    done = CliRunner().invoke(app, [], env=environment, prog_name="smoothcert")
    assert done.stdout.split() == ["certify"]


def test_no_function_of_the_command_line_is_long() -> None:
    import ast

    import smoothcert.cli

    files = sorted(Path(smoothcert.cli.__file__).parent.glob("*.py"))
    assert max(len(file.read_text().splitlines()) for file in files) <= 160  # a file per command, and no room in it
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, f"{file.name}: {node.name}"


@pytest.mark.parametrize("arguments", [["recipes"], ["recipes", "--json"], ["--help"]], ids=" ".join)
def test_a_closed_pipe_ends_silently(arguments: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "smoothcert", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()  # before a line was written
    said = process.stderr.read()
    process.wait()
    assert said == b""


def test_a_pipe_that_closes_while_something_is_printed_ends_silently() -> None:
    """Nothing may be left to flush then: it depends on where in a line its reader went away."""
    code = "import smoothcert.__main__ as m\nwith m._streams():\n    raise BrokenPipeError"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def _certifying(folder: Path, *more: str) -> "subprocess.Popen[str]":
    options = ["--data", "digits", "--n", "20000", "--workers", "1"]
    return subprocess.Popen(
        [sys.executable, "-m", "smoothcert", "certify", "--model", str(net(folder)), "--out", str(folder / "run"),
         *options, *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip


def _until(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    while process.poll() is None and not condition():
        time.sleep(0.01)


@pytest.mark.slow
def test_ctrl_c_again_and_again_ends_without_a_traceback(tmp_path: Path) -> None:
    process = _certifying(tmp_path)
    file = tmp_path / "run" / "records.jsonl"
    _until(lambda: file.exists() and file.stat().st_size > 0, process)
    for _ in range(20):
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    _, errors = process.communicate()
    # Python puts the system's own handler back in its last moments: a shell says 130 of both.
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in errors
    assert "Exception" not in errors


@pytest.mark.slow
def test_where_the_output_is_no_terminal_progress_is_in_the_log(tmp_path: Path) -> None:
    process = _certifying(tmp_path, "--limit", "2")
    log = tmp_path / "run" / "progress.log"
    _until(log.exists, process)
    assert "certify: started" in log.read_text(), "at once"
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert errors.startswith("certify: started\n")
    assert "certify: done in" in log.read_text().splitlines()[-1]


def test_escape_sequences_in_names_are_shown_not_obeyed(tmp_path: Path) -> None:
    evil = tmp_path / "run\x1b[31m\x07"
    model = net(tmp_path, "net\x1b]0;owned\x07.safetensors")
    done = call("certify", "--model", model, "--data", "digits", "--n", 100, "--limit", 2, "--out", evil)
    assert done.exit_code == 0, done.output
    outputs = [done, call("analyze", evil), call("analyze", evil, "--markdown"), call("verify", evil)]
    outputs += [call("report", evil, "--out", tmp_path / "r.html"), call("compare", evil, evil), call("analyze", model)]
    outputs.append(call("ensemble", "rank", "--model", model, "--data", "digits", "--draws", 1))
    for one in outputs:
        assert not set(one.output) & {"\x1b", "\x07"}
    assert "run\\x1b[31m" in outputs[1].stdout
    assert "net\\x1b]0;owned" in "".join(outputs[-1].stdout.split())


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are UTF-8 there")
def test_paths_that_are_not_utf_8_work(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(bytes(tmp_path) + b"/run\xff\xfe"))
    model = net(tmp_path)

    def run(*arguments: object) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [sys.executable, "-m", "smoothcert", *(os.fsencode(str(a)) for a in arguments)],
            capture_output=True, check=False,
        )  # fmt: skip

    made = run("certify", "--model", model, "--data", "digits", "--n", 100, "--limit", 2, "--workers", 1, "--out", odd)
    assert made.returncode == 0, made.stderr
    assert b"see: smoothcert analyze" in made.stdout
    for arguments in (["analyze", odd], ["analyze", odd, "--csv"], ["report", odd, "--out", odd / "page.html"]):
        done = run(*arguments)
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    missing = run("verify", odd / "none")
    assert (missing.returncode, missing.stderr.count(b"\n")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["certify", "--data", "minst", "--out", "run"], "--data 'minst' is neither a data set"),
        (["certify", "--data", "bad.npz", "--out", "run"], "--data bad.npz cannot be read as a data set"),
        (["certify", "--data", "digits", "--out", "file/run"], "--out file/run cannot be used (Not a directory)"),
        (["certify", "--data", "digits", "--out", "file"], "file exists and is not a run; give another --out"),
        (
            ["predict", "--input", "file"],
            "--input file cannot be read as an image, a folder of images or an .npy array",
        ),
        (["ensemble", "rank", "--data", "nowhere"], "--data 'nowhere' is neither a data set"),
    ],
)
def test_the_option_is_named(arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    net(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "bad.npz").write_bytes(b"PK")
    done = call(*arguments, "--model", "net.safetensors")
    assert (done.exit_code, words in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.output
    assert not (tmp_path / "run").exists()


def test_what_was_certified_is_counted(tmp_path: Path) -> None:
    """Soft scores of a model that learnt nothing: after 20 draws nobody can tell a class."""
    out = tmp_path / "run"
    done = call("certify", "--model", net(tmp_path), "--data", "digits", "--n", 20, "--bound", "hoeffding",
                "--limit", 1, "--out", out)  # fmt: skip
    assert done.stdout == f"0 of 1 input certified, 1 abstained; see: smoothcert analyze {out}\n"
