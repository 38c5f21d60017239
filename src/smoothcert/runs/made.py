"""When, where and by which command a run was made: for readers, beside what decides its records. Not trusted."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from smoothcert.core.described import from_json
from smoothcert.core.errors import InputError

PACKAGES = ("smoothcert", "numpy", "scipy", "torch")
PRIVATE = ("--memory",)  # an address may hold a password


@dataclass(frozen=True, kw_only=True)
class Made:
    """The circumstances of a run's start; what resumes it does not change them."""

    when: str = ""
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def here(cls, command: str = "") -> Made:
        """Now, on this machine."""
        return cls(
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            command=command,
            versions={"python": platform.python_version(), **_versions()},
            machine={"platform": platform.platform(), "cpu": _cpu()},
        )

    @classmethod
    def read(cls, content: object) -> Made:
        """As it was written down; nothing is known where that cannot be read, and nothing depends on it."""
        try:
            return from_json(cls, content, "made")
        except InputError:
            return cls()


def command_line(words: Sequence[str]) -> str:
    """A command as it was typed, without folders (a run may be given away) and without the address of a memory."""
    shown: list[str] = []
    hide = False
    for word in words:
        option, given, _ = word.partition("=")
        if hide:
            shown.append("...")
        elif option in PRIVATE and given:
            shown.append(f"{option}=...")
        else:
            shown.append(word if "://" in word else Path(word).name if "/" in word else word)
        hide = not hide and word in PRIVATE
    return shlex.join("..." if "://" in word else word for word in shown)


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from its source
            continue
    return found


def _cpu() -> str:
    """The name of the processor; the platform module knows none on Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
