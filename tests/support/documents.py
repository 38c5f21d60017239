"""Code blocks of a page of the documentation, and how they are run: in order, in one folder, as a reader would."""

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from smoothcert.cli import app, repeat_options

RUN = ("python", "bash")
SHOWN = ("text", "yaml", "json", "toml")  # for reading: there is nothing to run
BLOCK = re.compile(r"^(?:<!-- not run: (?P<reason>.*?) -->\n)?^```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.S | re.M)


@dataclass(frozen=True)
class Block:
    """One fenced block; `reason` says why it is not run, and stands in the source of the page before it."""

    kind: str
    code: str
    reason: str | None

    @property
    def file(self) -> str | None:
        """The file that a block is the content of, if its first line says so: `# my_net.py`."""
        found = re.match(r"# (\w+\.py)\n", self.code)
        return found[1] if found else None


def blocks_of(text: str) -> list[Block]:
    """All fenced blocks."""
    return [Block(found["kind"], found["code"], found["reason"]) for found in BLOCK.finditer(text)]


def follow(blocks: list[Block], folder: Path) -> None:
    """Run the blocks in `folder`, which must be the current one. Python blocks share their names."""
    names: dict[str, object] = {"__name__": "__main__"}
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        for block in blocks:
            if block.reason is not None or block.kind not in RUN:
                continue
            if block.file is not None:
                (folder / block.file).write_text(block.code)
            elif block.kind == "python":
                exec(compile(block.code, "a page", "exec"), names)
            else:
                _commands(block.code)
    finally:
        sys.path.remove(str(folder))
        written = {path.stem for path in folder.glob("*.py")}
        for name in (set(sys.modules) - before) & written:  # another page may have a file of that name
            del sys.modules[name]


def _commands(code: str) -> None:
    for line in code.replace("\\\n", " ").splitlines():
        program, *words = shlex.split(line, comments=True)
        assert program == "smoothcert", f"only commands of smoothcert are run: {line}"
        if "--plugin" in words:  # a process of its own: the page has loaded the file here
            subprocess.run([sys.executable, "-m", "smoothcert", *words], check=True, capture_output=True)
            continue
        done = CliRunner().invoke(app, repeat_options(words))  # in this process: torch is there already
        assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"
