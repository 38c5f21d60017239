"""What is released: sdist and wheel are built, the wheel is installed into a new environment, and it certifies."""

import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

import smoothcert as sc

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run(*words: object, cwd: Path) -> str:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}  # without PYTHONPATH
    texts = [str(word) for word in words]
    done = subprocess.run(texts, cwd=cwd, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel of the sdist; what smoothcert needs is borrowed from this one. No network."""
    folder = tmp_path_factory.mktemp("release")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    build = "import setuptools.build_meta as b; b.build_sdist('../dist')"
    run(sys.executable, "-c", build, cwd=source)
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    pip = [sys.executable, "-m", "pip"]
    run(*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", "dist", sdist, cwd=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    venv.create(folder / "clean", with_pip=False, symlinks=True)
    python = folder / "clean" / "bin" / "python"
    run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    # Files named *.pth of the borrowed folder are not followed: an editable smoothcert there stays unseen.
    (own,) = (folder / "clean" / "lib").glob("python*/site-packages")
    (own / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


@pytest.mark.slow
def test_the_installed_package_certifies_and_verifies(installed: Path) -> None:
    program = installed / "clean" / "bin" / "smoothcert"
    where = run(program.with_name("python"), "-c", "import smoothcert; print(smoothcert.__file__)", cwd=installed)
    assert Path(where.strip()).is_relative_to(installed / "clean")
    assert run(program, "--version", cwd=installed).strip() == f"smoothcert {PROJECT['version']}"
    options = ("--model", "zoo:mnist-0.50", "--data", "mnist500", "--sigma", "0.5", "--n", "100", "--limit", "2")
    run(program, "certify", *options, "--out", "run", cwd=installed)
    assert "2 of 2 records hold" in run(program, "verify", "run", cwd=installed)
    run(program, "report", "run", "--no-images", "--out", "page.html", cwd=installed)
    assert "Certified robustness" in (installed / "page.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_package_is_typed_and_whole(installed: Path) -> None:
    (package,) = (installed / "clean" / "lib").glob("python*/site-packages/smoothcert")
    here = Path(sc.__file__).parent
    files = {path.relative_to(here) for path in here.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    there = {path.relative_to(package) for path in package.rglob("*") if "__pycache__" not in path.parts}
    assert files <= there, "files that the wheel does not have"
    assert (package / "py.typed").exists()


def test_the_version_stands_in_one_place() -> None:
    assert sc.__version__.split(".")[:2] == PROJECT["version"].split(".")[:2]
    for path in (ROOT / "src").rglob("*.py"):
        assert f'"{PROJECT["version"]}"' not in path.read_text(encoding="utf-8"), path
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert "\nversion:" not in citation, "it would be a second place"
