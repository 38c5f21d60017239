"""Data of every kind from the command line: folders, images, arrays and tables, labelled or not."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

import smoothcert as sc
from smoothcert.cli import app, repeat_options
from smoothcert.datasets import load
from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, repeat_options([str(a) for a in arguments]))


def good(*arguments: object) -> Result:
    done = call(*arguments)
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grey and a colour network, and a folder of photographs of differing sizes."""
    here = tmp_path_factory.mktemp("data")
    for name, channels in (("grey", 1), ("colour", 3)):
        spec = Architecture("lenet", 3, (channels, 8, 8))
        details = {"noise": Gaussian(0.25).describe(), "class_names": ["bird", "cat", "dog"]}
        save(here / f"{name}.safetensors", build(spec, seed=1), spec, details)
    rng = np.random.default_rng(5)
    for k, name in enumerate(["dog/a.png", "dog/b.png", "cat/c.png", "cat/d.png"]):
        (here / "pets" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (9 + k, 12 - k, 3), dtype=np.uint8)).save(here / "pets" / name)
    return here


CERTIFY = ("--n", 100, "--n0", 16, "--workers", 1)


@pytest.fixture(scope="module")
def folder_run(place: Path) -> Path:
    out = place / "runs" / "folder"
    model = ("--model", place / "colour.safetensors")
    done = good("certify", *model, "--data", place / "pets", "--resize", 10, "--crop", 8, *CERTIFY, "--out", out)
    assert (
        "The certificates are about the pixels after preparing the images (resize 10 (bilinear), crop 8)" in done.stdout
    )
    return out


def test_a_folder_of_differing_sizes_is_certified_resumed_verified_and_shown(place: Path, folder_run: Path) -> None:
    config = sc.Run.open(folder_run).config
    assert config.data.preprocessing == {"resize": "10", "crop": "8", "filter": "bilinear"}
    assert config.class_names == ("bird", "cat", "dog")
    assert config.labels == (1, 1, 2, 2), "folders are numbered as the model numbers them"
    done = good("verify", folder_run, "--model", place / "colour.safetensors", "--data", place / "pets")
    assert "4 of 4 records hold" in done.stdout
    page = place / "pets.html"
    good("report", folder_run, "--data", place / "pets", "--out", page)
    text = page.read_text()
    assert text.count("data:image/png") >= 4, "each of them, and a few with noise and moved"
    assert '"cat"' in text
    assert "pixels after preparing" in text
    assert "--resize 10 --crop 8" in text, "the command that makes it again"


def test_another_preparation_and_changed_pixels_are_refused(place: Path, folder_run: Path) -> None:
    again = ("certify", "--model", place / "colour.safetensors", *CERTIFY, "--out", folder_run)
    other = call(*again, "--data", place / "pets", "--resize", 9, "--crop", 8)
    assert other.exit_code == 2
    assert "on images prepared by resize 10, crop 8; this command asks for resize 9, crop 8" in other.stderr
    moved = place / "moved" / "pets"
    for path in (place / "pets").rglob("*.png"):
        (moved / path.parent.name).mkdir(parents=True, exist_ok=True)
        (moved / path.parent.name / path.name).write_bytes(path.read_bytes())
    good(*again, "--data", moved, "--resize", 10, "--crop", 8)
    victim = moved / "cat" / "c.png"
    raw = bytearray(victim.read_bytes())
    Image.fromarray(np.full((11, 10, 3), 7, np.uint8)).save(victim)
    small = victim.read_bytes()
    assert len(small) < len(raw)
    victim.write_bytes(small + b"\0" * (len(raw) - len(small)))  # a file of the same name and size
    assert load(moved).fingerprint == load(place / "pets").fingerprint
    changed = call(*again, "--data", moved, "--resize", 10, "--crop", 8)
    assert "on other data of the name pets: they have changed since" in changed.stderr
    verified = call("verify", folder_run, "--model", place / "colour.safetensors", "--data", moved)
    assert (verified.exit_code, "but other numbers" in verified.stderr) == (2, True), verified.output
    shown = call("report", folder_run, "--data", moved, "--out", place / "no.html")
    assert "no images of folder: the data set pets at hand is not the one that was certified" in shown.stderr
    assert "data:image/png" not in (place / "no.html").read_text()


@pytest.fixture(scope="module")
def unlabelled_run(place: Path) -> Path:
    out = place / "runs" / "unlabelled"
    inputs = (place / "pets" / "dog" / "a.png", place / "pets" / "cat")
    model = ("--model", place / "colour.safetensors")
    done = good("certify", *model, "--input", *inputs, "--resize", "8x8", *CERTIFY, "--out", out)
    assert done.stdout.splitlines()[1].split() == ["input", "class", "l2", "radius", "p", "at", "least", "draws"]
    assert "a.png" in done.stdout
    assert "of 3 inputs certified" in done.stdout
    return out


def test_inputs_without_labels_are_certified_and_nothing_is_right_or_wrong(place: Path, unlabelled_run: Path) -> None:
    records = sc.Run.open(unlabelled_run).records()
    assert {record.label for record in records} == {-1}
    assert not any(record.correct for record in records)
    done = good("analyze", unlabelled_run)
    assert "3 of 3 inputs have no label" in done.stderr
    assert "inputs certified, right or not" in " ".join(done.stdout.split())
    summary = json.loads(good("analyze", unlabelled_run, "--json").stdout)["rows"][0]
    certified = sum(not record.abstained for record in records)
    assert summary["accuracy"][0]["count"] == certified
    assert summary["unlabelled"]
    good("report", unlabelled_run, "--out", place / "unlabelled.html")
    assert "have no label" in (place / "unlabelled.html").read_text()
    shutil.copytree(unlabelled_run, place / "copy")
    compared = good("compare", unlabelled_run, place / "copy")
    assert "share 3 inputs" in compared.stdout
    inputs = (place / "pets" / "dog" / "a.png", place / "pets" / "cat")
    model = ("--model", place / "colour.safetensors")
    assert "3 of 3 records hold" in good("verify", unlabelled_run, *model, "--input", *inputs).stdout
    good("attack", "--run", unlabelled_run, *model, "--input", *inputs, "--attack", "pgd", "--steps", 2, "--draws", 8,
         "--votes", 64, "--radii", "0.5")  # fmt: skip


def test_predict_takes_many_files_gives_radii_and_writes_them(place: Path) -> None:
    table, content = place / "answers.csv", place / "answers.json"
    model = ("--model", place / "colour.safetensors", "--workers", 1)
    inputs = ("--resize", "8x8", "--input", place / "pets" / "dog", place / "pets" / "cat" / "c.png")
    done = good("predict", *model, *inputs, "--certify", "--n", 200, "--n0", 16, "--out", table)
    rows = list(csv.DictReader(table.open()))
    assert [Path(row["input"]).name for row in rows] == ["a.png", "b.png", "c.png"]
    assert len(done.stdout.splitlines()) == 3
    good("predict", *model, *inputs, "--certify", "--n", 200, "--n0", 16, "--out", content)
    exact = json.loads(content.read_text())
    for row, one, line in zip(rows, exact, done.stdout.splitlines(), strict=True):
        assert row["class"] == (one["class"] or "")
        assert one["class"] in (None, "bird", "cat", "dog")
        assert float(row["radius"]) <= one["radius"] < float(row["radius"]) + 1e-5
        assert ("below l2 radius" in line) == (one["class"] is not None)
    assert {row["norm"] for row in rows} == {"l2"}
    plain = good("predict", *model, *inputs, "--n", 100, "--json")
    assert "radius" not in json.loads(plain.stdout.splitlines()[0])


def test_predict_prepares_images_as_the_run_did(place: Path, folder_run: Path) -> None:
    model = ("--model", place / "colour.safetensors", "--workers", 1)
    done = good("predict", *model, "--run", folder_run, "--certify", *CERTIFY[:4], "--json", "--input",
                place / "pets" / "cat" / "d.png")  # fmt: skip
    (certificate,) = (
        c for c in sc.Run.open(folder_run).certificates() if c.input_id == json.loads(done.stdout)["input_id"]
    )
    assert json.loads(done.stdout)["radius"] == certificate.radius


def test_float_images_are_certified_as_they_are_or_through_the_grid(place: Path) -> None:
    x = np.random.default_rng(0).random((2, 1, 8, 8)).astype(np.float32)
    np.savez(place / "floats.npz", x=x, y=[0, 1])
    runs = {}
    for grid in ("off", "255"):
        out = place / "runs" / f"grid-{grid}"
        model = ("--model", place / "grey.safetensors")
        good("certify", *model, "--data", place / "floats.npz", "--grid", grid, *CERTIFY, "--out", out)
        runs[grid] = sc.Run.open(out).certificates()
    assert all("offset" not in c.noise and c.noise["arithmetic"] == "float32" for c in runs["off"])
    for one, image in zip(runs["255"], x, strict=True):
        exact = np.linalg.norm(image.astype(float) - np.rint(image.astype(float) * 255) / 255)
        assert one.noise["offset"] >= exact > 0


def test_a_table_is_certified(place: Path) -> None:
    spec = Architecture("lenet", 2, (1, 8, 8))
    rows = np.random.default_rng(0).normal(size=(6, 3))
    lines = ["a,b,c,kind", *(",".join(map(str, row)) + f",{'no' if k % 2 else 'yes'}" for k, row in enumerate(rows))]
    (place / "table.csv").write_text("\n".join(lines))
    save(place / "two.safetensors", build(spec, seed=0), spec, {})
    refused = call("certify", "--model", place / "two.safetensors", "--sigma", 0.5, "--data", place / "table.csv",
                   "--label-column", "kind", "--out", place / "x")  # fmt: skip
    assert "has inputs of shape (3,) but the model lenet takes (1, 8, 8)" in refused.stderr
    from sklearn.linear_model import LogisticRegression

    forest = sc.SklearnClassifier(LogisticRegression().fit(rows, [0, 1] * 3))
    read = sc.datasets.ReadOptions(label_column="kind")
    noise, procedure = sc.Gaussian(sigma=0.5), sc.Fixed(n=100, n0=16)
    run = sc.certify(forest, place / "table.csv", noise=noise, procedure=procedure, read=read, out=place / "runs/table")
    assert run.config.class_names == ("no", "yes")
    assert run.config.data.label_column == "kind"
    assert "no" in str(run.certificates()) or "yes" in str(run.certificates()) or "abstains" in str(run.certificates())
    again = sc.Run.open(run.path)
    assert again.verify(model=forest, data=place / "table.csv").status == 0


WRONG = {
    "two sources": (["--data", "pets", "--input", "pets/cat"], "--data and --input both say what the inputs are"),
    "no source": ([], "say what to certify: --data with a data set, file or folder, or --input with images"),
    "no such file": (["--input", "nowhere.png"], "--input nowhere.png cannot be read as an image.*No such file"),
    "no such data": (["--data", "nowhere"], "'nowhere' is neither a data set .* nor an existing file or image folder"),
    "text as image": (["--input", "names.txt"], "--input names.txt cannot be read as an image"),
    "text as data": (["--data", "names.txt"], r"got the file 'names\.txt': convert it"),
    "sizes differ": (["--data", "pets"], "give --resize 8x8, or --resize and --crop as the model was trained with"),
    "one size": (["--input", "pets/cat/c.png"], r"but is an image of 10x11 pixels; give --resize 8x8, or resize it"),
    "crop too large": (["--data", "pets", "--crop", "8", "--limit", "1", "--resize", "7"], "cannot be cropped to 8x8"),
    "resize of nothing": (["--data", "pets", "--resize", "0"], "--resize must be pixels such as 224"),
    "resize words": (["--data", "pets", "--resize", "big"], "--resize must be pixels such as 224.*got 'big'"),
    "crop of three": (["--data", "pets", "--crop", "8x8x3"], "--crop must be pixels such as 224"),
    "resize arrays": (["--data", "digits", "--resize", "8"], "--resize and --crop go with image files, and digits"),
    "column of images": (["--data", "pets", "--label-column", "y"], "--label-column goes with a table"),
    "column of inputs": (["--input", "pets/cat", "--label-column", "y"], "--label-column goes with a table"),
    "names missing": (["--data", "pets", "--class-names", "none.txt"], "none.txt cannot be read as names of classes"),
    "names of others": (["--data", "pets", "--class-names", "names.txt"], "--class-names has no class 'cat'"),
    "one name": (
        ["--data", "pets", "--class-names", "one.txt"],
        "must have at least two different names, one per line",
    ),
    "empty folder": (["--input", "empty"], r"empty holds no images .*; give a folder of images"),
    "empty data": (["--data", "empty"], "has images of 0 classes: put the images of each of at least two classes"),
    "folders as inputs": (["--input", "pets"], "pets holds no images .* or folders of classes as --data"),
    "broken image": (["--input", "broken.png"], "broken.png cannot be read as an image"),
    "transparent": (["--input", "clear.png"], "transparent pixels, whose colour is not defined"),
    "16 bits": (["--input", "deep.png"], "not 8-bit grey or colour"),
    "array of other shape": (["--input", "rows.npy"], r"must hold inputs of shape \(3, 8, 8\), uint8 or float, got"),
    "array of words": (["--input", "words.npy"], "must hold inputs, uint8 or float, got <U1"),
    "array of objects": (["--input", "objects.npy"], "holds Python objects, which are never read"),
    "array of nan": (["--input", "nan.npy"], "inputs must be finite float32 numbers, got another in row 0"),
    "grey for colour": (["--input", "grey.png"], "is a grey image where colour ones are wanted; convert it yourself"),
    "grey folder": (
        ["--data", "greys"],
        "has grey images and the model lenet takes colour ones; convert them yourself",
    ),
    "grid of words": (["--data", "pets", "--resize", "8x8", "--grid", "fine"], "--grid must be auto, off, or a whole"),
    "beyond the end": (["--data", "pets", "--resize", "8x8", "--start", "9"], "start must be below the 4 inputs"),
    "other split": (["--data", "split", "--split", "train"], "has no split 'train': add"),
}


@pytest.fixture(scope="module")
def wrong(place: Path) -> Path:
    (place / "names.txt").write_text("lion\ntiger\n")
    (place / "one.txt").write_text("lion\n")
    (place / "empty").mkdir()
    (place / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    Image.new("RGBA", (8, 8)).save(place / "clear.png")
    Image.fromarray(np.full((8, 8), 60_000, np.uint16)).save(place / "deep.png")
    np.save(place / "rows.npy", np.zeros((2, 5), np.float32))
    np.save(place / "words.npy", np.array(["a"]))
    np.save(place / "objects.npy", np.array([None]), allow_pickle=True)
    np.save(place / "nan.npy", np.full((1, 3, 8, 8), np.nan, np.float32))
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(place / "grey.png")
    for name in ("greys/a/0.png", "greys/b/0.png", "split/test/a/0.png", "split/test/b/0.png"):
        (place / name).parent.mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(place / name)
    return place


@pytest.mark.parametrize(("options", "says"), WRONG.values(), ids=WRONG)
def test_a_wrong_input_is_one_sentence_with_the_way_out(
    wrong: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], says: str
) -> None:
    monkeypatch.chdir(wrong)
    done = call("certify", "--model", "colour.safetensors", *CERTIFY, "--out", "runs/wrong", *options)
    assert done.exit_code == 2, done.output
    assert len(done.stderr.strip().splitlines()) == 1
    import re

    assert re.search(says, done.stderr), done.stderr
    assert not (wrong / "runs" / "wrong").exists(), "nothing is written"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--procedure", "sequential"], "--procedure goes with --certify: give both"),
        (["--out", "answers.txt"], "--out must end in .csv or .json, got 'answers.txt'"),
        (["--out", "nowhere/answers.csv"], "lies in a folder that does not exist; make it, or give another"),
        (["--certify", "--memory", "regions.sqlite"], "--certify does not go with --memory here"),
        (["--certify", "--procedure", "sequential"], "give --radius 0.5, or several"),
    ],
)
def test_a_wrong_prediction_is_one_sentence(
    wrong: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], says: str
) -> None:
    monkeypatch.chdir(wrong)
    done = call("predict", "--model", "colour.safetensors", "--input", "pets/cat", "--resize", "8x8", *options)
    assert (done.exit_code, says in done.stderr) == (2, True), done.output
    assert len(done.stderr.strip().splitlines()) == 1
