import hashlib
import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from smoothcert.core.described import fields_of
from smoothcert.core.errors import InputError
from smoothcert.core.plugins import Plugin, load_again, load_plugin, loaded_plugins
from smoothcert.training.schedules import SCHEDULES, Schedule

pytestmark = pytest.mark.usefixtures("forgotten")

SOURCE = '''
from dataclasses import dataclass
from typing import ClassVar
import smoothcert as sc
from smoothcert.training import Schedule

@sc.register
@dataclass(frozen=True)
class Late(Schedule):
    """The full rate from `start` on."""
    name: ClassVar[str] = "NAME"
    start: float = 2.0

    def factor(self, epoch: float, epochs: int) -> float:
        return float(epoch >= self.start)
'''


def written(folder: Path, name: str, source: str | None = None, file: str = "late.py") -> Path:
    path = folder / file
    path.write_text(SOURCE.replace("NAME", name) if source is None else source)
    return path


def test_a_plugin_is_loaded_once_and_its_things_are_like_any_other(tmp_path: Path) -> None:
    path = written(tmp_path, "late-1")
    plugin = load_plugin(path)
    late = SCHEDULES["late-1"]
    assert fields_of(plugin) == {"file": "late.py", "digest": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert load_plugin(str(path)) is plugin
    assert load_plugin(written(tmp_path, "late-1", file="copy.py")) is plugin, "the same content is the same plug-in"
    assert SCHEDULES["late-1"] is late
    assert loaded_plugins().count(plugin) == 1
    made = Schedule.from_description({"name": "late-1", "start": 3.5})
    assert isinstance(made, late)
    assert made.factor(3, 9) == 0.0
    assert pickle.loads(pickle.dumps(made)) == made
    assert not list(tmp_path.glob("__pycache__")), "nothing is left beside the file"


def test_a_plugin_that_was_changed_is_not_what_was_loaded(tmp_path: Path) -> None:
    path = written(tmp_path, "late-2")
    plugin = load_plugin(path)
    path.write_text(path.read_text() + "\n# better\n")
    with pytest.raises(InputError, match=r"late\.py was changed after it was loaded; start Python again"):
        load_plugin(path)
    with pytest.raises(InputError, match="was changed"):
        load_again([plugin])


def test_what_runs_is_what_was_hashed(tmp_path: Path) -> None:
    """A compiled copy of an older file of the same size and second would be taken by an import."""
    old, new = written(tmp_path, "late-a", file="p.py"), "late-b"
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(old)], check=True)
    stamp = old.stat()
    written(tmp_path, new, file="p.py")
    os.utime(old, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    load_plugin(old)
    assert "late-b" in SCHEDULES
    assert "late-a" not in SCHEDULES


REGISTERS_FIRST = SOURCE.replace("NAME", "late-3")


@pytest.mark.parametrize(
    ("file", "source", "words"),
    [
        (
            "missing.py",
            None,
            r"the plug-in .*missing\.py cannot be read: No such file or directory; give a Python file",
        ),
        ("folder.py", None, r"folder\.py cannot be read: Is a directory"),
        ("late.txt", REGISTERS_FIRST, r"late\.txt is not a Python file; give one that ends in \.py"),
        ("p.py", "def (", r"p\.py cannot be loaded \(SyntaxError: "),
        ("p.py", "\0", r"p\.py cannot be loaded \((SyntaxError|ValueError): source code"),
        ("p.py", "import no_such_package", r"\(ModuleNotFoundError: No module named 'no_such_package'\)"),
        ("p.py", "raise RuntimeError('not today')", r"\(RuntimeError: not today\)"),
        ("p.py", "import sys; sys.exit(3)", r"\(SystemExit: 3\)"),
        ("p.py", SOURCE.replace("NAME", "cosine"), r"\(the schedule name 'cosine' is taken; register under another"),
        ("p.py", REGISTERS_FIRST + "1 / 0", r"\(ZeroDivisionError: division by zero\)"),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, file: str, source: str | None, words: str
) -> None:
    if file.startswith("folder"):
        (tmp_path / file).mkdir()
    elif source is not None:
        written(tmp_path, "", source, file)
    before, modules = loaded_plugins(), {name for name in sys.modules if name.startswith("smoothcert_plugin")}
    with pytest.raises(InputError, match=words) as refusal:
        load_plugin(tmp_path / file)
    assert "\n" not in str(refusal.value)
    assert loaded_plugins() == before
    assert "late-3" not in SCHEDULES
    assert {name for name in sys.modules if name.startswith("smoothcert_plugin")} == modules


def test_after_a_mistake_the_corrected_file_can_be_loaded(tmp_path: Path) -> None:
    path = written(tmp_path, "", SOURCE.replace("NAME", "late-4") + "1 / 0")
    with pytest.raises(InputError, match="division by zero"):
        load_plugin(path)
    written(tmp_path, "late-4")
    load_plugin(path)
    assert "late-4" in SCHEDULES


def test_another_process_loads_the_same_again(tmp_path: Path) -> None:
    loaded, spawn = (load_plugin(written(tmp_path, "late-5")),), multiprocessing.get_context("spawn")
    description = {"name": "late-5", "start": 1.0}
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=load_again, initargs=(loaded,)) as pool:
        made = pool.submit(Schedule.from_description, description).result()
    assert made == Schedule.from_description(description), "things go from process to process"
    with ProcessPoolExecutor(1, mp_context=spawn) as pool, pytest.raises(InputError, match="no schedule 'late-5'"):
        pool.submit(Schedule.from_description, description).result()


def test_another_process_refuses_what_is_not_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, "late-6")
    with pytest.raises(InputError, match=r"late\.py was changed while it was in use; run the command again"):
        load_again([Plugin("late.py", "0" * 64, path)])


def distribution(folder: Path, name: str, source: str) -> None:
    """An installed package, as pip would leave it."""
    (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[smoothcert]\n{name} = {name}\n")


def test_an_installed_package_is_found_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(tmp_path, "outside_late", SOURCE.replace("NAME", "late-7"))
    monkeypatch.syspath_prepend(tmp_path)
    assert "outside_late" not in sys.modules
    assert Schedule.from_description({"name": "late-7", "start": 1.0}).factor(2, 3) == 1.0
    kind = SCHEDULES["late-7"]
    with pytest.raises(InputError, match=r"no schedule 'other'.* late-7"):
        SCHEDULES.find("other")
    assert SCHEDULES["late-7"] is kind, "it was loaded once"


def test_an_installed_package_that_cannot_be_loaded_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution(tmp_path, "outside_broken", SOURCE.replace("NAME", "late-8") + "1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):
        with pytest.raises(InputError, match=r"the plug-in 'outside_broken' of an installed package cannot be loaded "):
            SCHEDULES.find("late-8")
    assert SCHEDULES.find("cosine"), "what is there is found without it"


def test_a_package_may_look_something_up_while_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = "from smoothcert.training import SCHEDULES\nTHERE = 'nothing-like-it' in SCHEDULES\n"
    distribution(tmp_path, "outside_curious", looks + SOURCE.replace("NAME", "late-9"))
    monkeypatch.syspath_prepend(tmp_path)
    assert SCHEDULES.find("late-9")
