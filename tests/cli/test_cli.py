"""The command line as a newcomer meets it: what works, and one sentence with status 2 for what cannot."""

import builtins
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner, Result

from smoothcert import __main__ as entry
from smoothcert.cli import app, repeat_options
from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian
from smoothcert.runs import Run


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "net.safetensors"
    spec = Architecture("lenet", 10, (1, 8, 8))
    save(path, build(spec, seed=0), spec, {"noise": Gaussian(0.5).describe()})
    return path


def certify(model: Path, out: Path, *more: object) -> Result:
    base = ["certify", "--model", model, "--data", "digits", "--out", out, "--n", 200, "--limit", 4, "--workers", 1]
    return call(*base, *more)


def test_ctrl_c_while_loading_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    load = builtins.__import__

    def interrupted(name: str, *rest: Any) -> Any:
        if name == "smoothcert.cli":
            raise KeyboardInterrupt
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert (end.value.code, capsys.readouterr().err) == (130, "\nsmoothcert: interrupted; run the same command again\n")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"smoothcert": "smoothcert.__main__:main"}, "the command goes the same way"


def test_a_cut_that_leaves_few_classes_is_said(tmp_path: Path) -> None:
    """mnist5k goes 0, 1, ..., 9, 0, 1, ...: every 10th image is a zero."""
    spec = Architecture("lenet", 10, (1, 28, 28))
    save(tmp_path / "net.safetensors", build(spec, seed=0), spec, {"noise": Gaussian(0.5).describe()})
    options = ["--data", "mnist5k", "--n", 128, "--limit", 20, "--workers", 1]
    for every, words in ((10, "the 20 chosen inputs are of 1 of the 10 classes of mnist5k"), (11, None)):
        out = tmp_path / str(every)
        done = call("certify", "--model", tmp_path / "net.safetensors", *options, "--every", every, "--out", out)
        assert done.exit_code == 0, done.output
        assert (words or "") in done.stderr
        assert ("warning" in done.stderr) == (words is not None)


def test_certify_then_analyze(model: Path, tmp_path: Path) -> None:
    done = certify(model, tmp_path / "run", "--every", 10)
    assert done.exit_code == 0, done.output
    assert re.search(r"^\d of 4 inputs certified.*, \d abstained; see: smoothcert analyze ", done.stdout)
    config = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert config["indices"] == [0, 10, 20, 30]
    noise = {"name": "gaussian", "sigma": 0.5, "norm": "l2", "dim": 64, "grid": 1 / 255, "arithmetic": "grid"}
    assert config["noise"] == noise, "sigma of training, and the grid of 8-bit images"
    assert config["data"]["subset"] == {"start": 0, "every": 10, "limit": 4}
    assert str(tmp_path) not in json.dumps(config), "a run can be moved: it names no folder"
    table = call("analyze", tmp_path / "run", "--figure", tmp_path / "curve.png")
    assert table.exit_code == 0, table.output
    assert "4 inputs: 0-30, every 10th" in table.stdout
    with Image.open(tmp_path / "curve.png") as image:
        assert image.size[0] > 500
    numbers = json.loads(call("analyze", tmp_path / "run", "--json", "--radii", "0,0.1").stdout)
    assert numbers["radii"] == [0, 0.1]
    assert numbers["rows"][0]["inputs"] == 4
    assert "| name |" in call("analyze", tmp_path / "run", "--markdown").stdout


def test_certify_again_resumes_and_another_setting_is_refused(model: Path, tmp_path: Path) -> None:
    assert certify(model, tmp_path / "run").exit_code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    assert certify(model, tmp_path / "run").exit_code == 0
    other = certify(model, tmp_path / "run", "--sigma", 0.25)
    assert (other.exit_code, "was started with sigma 0.5; this command asks for 0.25" in other.stderr) == (2, True)
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


@pytest.mark.parametrize(
    ("options", "norm"),
    [
        (["--noise", "uniform", "--sigma", 0.5], "l1"),
        (["--noise", "laplace", "--strength", 0.5], "l1"),
        (["--noise", "gaussian", "--norm", "linf"], "linf"),
        (["--bound", "bernstein", "--inverse-temperature", 4], "l2"),
        (["--runner-up"], "l2"),
        (["--procedure", "staged", "--radius", 0.1], "l2"),
        (["--procedure", "sequential", "--radius", 0.1, "--radius", 0.2], "l2"),
        (["--procedure", "budgeted", "--price", 0.1], "l2"),
        (["--batch-size", 50], "l2"),
    ],
)
def test_every_noise_and_procedure_has_its_option(
    model: Path, tmp_path: Path, options: list[object], norm: str
) -> None:
    done = certify(model, tmp_path / "run", *options)
    assert done.exit_code == 0, done.output
    assert [certificate.norm for certificate in Run.open(tmp_path / "run").certificates()] == [norm] * 4


@pytest.mark.parametrize(
    ("options", "grid"),
    [
        ([], 1 / 255),
        (["--noise", "uniform", "--sigma", 0.5], 1 / 255),
        (["--noise", "laplace", "--sigma", 0.5], None),
        (["--grid", "off"], None),
        (["--grid", "100"], 1 / 100),
    ],
)
def test_8_bit_images_are_sampled_on_their_grid(
    model: Path, tmp_path: Path, options: list[object], grid: float | None
) -> None:
    assert certify(model, tmp_path / "run", *options).exit_code == 0
    noise = json.loads((tmp_path / "run" / "run.json").read_text())["config"]["noise"]
    assert (noise.get("grid"), noise["arithmetic"]) == (grid, "grid" if grid else "float32")
    offsets = [certificate.noise.get("offset") for certificate in Run.open(tmp_path / "run").certificates()]
    assert all(offsets) if grid == 1 / 100 else not any(offsets), "255 levels fit; 100 do not"
    assert call("analyze", tmp_path / "run").exit_code == 0


def test_stages_stand_instead_of_n(model: Path, tmp_path: Path) -> None:
    base = ["certify", "--model", model, "--data", "digits", "--limit", 2, "--workers", 1, "--out", tmp_path / "run"]
    staged = [*base, "--procedure", "staged", "--radius", 0.1, "--stages"]
    done = call(*staged, "10,x")
    assert (done.exit_code, "--stages must be whole numbers with commas" in done.stderr) == (2, True), done.output
    assert call(*staged, "50,200").exit_code == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["config"]["procedure"]["stages"] == [50, 200]


def test_ablation_of_binary_images(tmp_path: Path) -> None:
    images = (np.random.default_rng(0).random((6, 8, 8)) > 0.5).astype(np.uint8) * 255
    np.savez(tmp_path / "binary.npz", x=images, y=np.arange(6) % 2)
    spec = Architecture("lenet", 2, (1, 8, 8))
    save(tmp_path / "net.safetensors", build(spec, seed=0), spec, {})
    done = call(
        "certify", "--model", tmp_path / "net.safetensors", "--out", tmp_path / "run",
        "--data", tmp_path / "binary.npz",
        "--noise", "ablation", "--strength", 0.8, "--values", 2, "--n", 100,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "of 6 inputs certified" in done.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sigma", 0], "sigma must be a positive finite number, got 0.0"),
        (["--sigma", "nan"], "sigma must be a positive finite number, got nan"),
        (["--alpha", 1.5], "alpha must lie strictly between 0 and 1, got 1.5"),
        (["--n", 9], "n must be at least 10, got 9"),
        (["--n0", 0], "n0 must be at least 1"),
        (["--noise", "pink"], "there is no noise 'pink': the names are ablation, gaussian, laplace, uniform;"),
        (["--noise", "uniform"], "give --noise gaussian, or --sigma, the half_width of uniform noise"),
        (["--noise", "uniform", "--sigma", 1, "--norm", "linf"], "--norm does not go with --noise uniform"),
        (["--norm", "l7"], "must be 'l2' or 'linf'"),
        (["--grid", "fine"], "--grid must be auto, off, or a whole number from 1 to 65535 such as 255, got 'fine'"),
        (["--grid", 65536], "--grid must be auto, off, or a whole number"),
        (["--noise", "laplace", "--sigma", 1, "--grid", 255], "--grid does not go with --noise laplace"),
        (["--sigma", 2000], "sigma must be smaller for a grid of 1/255, got 2000; take a coarser grid"),
        (
            ["--procedure", "magic"],
            "--procedure must be one of budgeted, fixed, evaluate, sequential, staged, got 'magic'",
        ),
        (["--procedure", "sequential"], "give --radius 0.5, or several"),
        (["--procedure", "sequential", "--radius", 9], "radius 9 can never be shown"),
        (["--procedure", "sequential", "--radius", -1], "radius must be one positive number or several"),
        (["--procedure", "staged", "--radius", 0.1, "--radius", 0.2], "certifies one radius"),
        (["--procedure", "budgeted", "--price", -1], "price must be non-negative"),
        (["--procedure", "budgeted", "--n0", 50], "--n0 does not go with --procedure budgeted"),
        (["--beta", 0], "--beta does not go with --procedure fixed"),
        (["--price", 0], "--price does not go with --procedure fixed"),
        (["--procedure", "staged", "--radius", 0.1, "--inverse-temperature", 0], "--inverse-temperature does not go"),
        (["--procedure", "staged", "--radius", 0.1, "--stages", "50,200"], "--n does not go with --stages"),
        (["--radius", 0.5], "--radius does not go with --procedure fixed"),
        (["--procedure", "budgeted", "--runner-up"], "--runner-up does not go with --procedure budgeted"),
        (["--inverse-temperature", 2], "goes with --bound hoeffding or bernstein"),
        (["--bound", "guess"], "--bound must be one of clopper-pearson, hoeffding, bernstein"),
        (["--data", "mnist5k"], "has inputs of shape (1, 28, 28) but the model lenet takes (1, 8, 8)"),
        (["--data", "minst"], "did you mean"),
        (["--data", "nowhere.npz"], "nowhere.npz"),
        (["--split", "both"], "split must be"),
        (["--every", 0], "every must be"),
        (["--start", 10_000], "10000"),
        (["--device", "abacus"], "--device 'abacus' cannot be used here"),
        (["--batch-size", 0], "batch_size must be at least 1"),
        (["--model", "missing.safetensors"], "missing.safetensors"),
        (["--model", __file__], "test_cli.py"),
    ],
)
def test_what_cannot_work_is_one_sentence_and_nothing_is_written(
    model: Path, tmp_path: Path, options: list[object], words: str
) -> None:
    done = certify(model, tmp_path / "run", *options)
    assert done.exit_code == 2, done.output
    assert words in done.stderr
    assert done.stderr.count("\n") == 1, "one sentence"
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_analyze_refuses_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("what is this")
    for arguments, words in [
        ([tmp_path / "none"], "does not exist"),
        ([tmp_path], "not a run"),
        ([tmp_path / "bad.tsv"], "bad.tsv"),
        ([tmp_path / "bad.tsv", "--radii", "a,b"], "--radii must be numbers"),
    ]:
        done = call("analyze", *arguments)
        assert (done.exit_code, words in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.output


def test_analyze_reads_logs_and_warns(tmp_path: Path) -> None:
    header = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n"
    rows = [f"{20 * i}\t{i % 10}\t{i % 10 if i % 3 else -1}\t{0.25 * (i % 4)}\t0\t0:00:13.7\n" for i in range(500)]
    (tmp_path / "whole.tsv").write_text(header + "".join(rows))
    (tmp_path / "cut.tsv").write_text(header + "".join(rows[:427]))
    done = call("analyze", tmp_path / "whole.tsv", tmp_path / "cut.tsv")
    assert done.exit_code == 0, done.output
    assert "truncated" in done.stderr
    assert "cover different inputs" in done.stderr
    assert "correct" in done.stderr, "the column is recomputed, and it says that it was wrong"
    assert (
        "cover different inputs" not in call("analyze", "--shared", tmp_path / "whole.tsv", tmp_path / "cut.tsv").stderr
    )


def test_predict_images_and_arrays(model: Path, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 1, 8, 8), dtype=np.uint8)
    Image.fromarray(pixels[0, 0]).save(tmp_path / "one.png")
    np.save(tmp_path / "three.npy", pixels)
    text = call("predict", "--model", model, "--input", tmp_path / "one.png", "--n", 200)
    assert text.exit_code == 0, text.output
    assert "votes" in text.stdout
    done = call("predict", "--model", model, "--input", tmp_path / "three.npy", "--n", 200, "--json")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == 3
    assert sum(answers[0]["answers"][0]["votes"].values()) == 200
    assert answers[0]["noise"]["grid"] == 1 / 255
    np.save(tmp_path / "floats.npy", pixels.astype(np.float64) / 256)
    for options, grid in [([], None), (["--grid", 255], 1 / 255)]:
        done = call("predict", "--model", model, "--input", tmp_path / "floats.npy", "--n", 200, "--json", *options)
        assert json.loads(done.stdout.splitlines()[0])["noise"].get("grid") == grid


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"not an image", "cannot be read"),
        (None, "cannot be read"),
        (np.zeros((5, 5), np.uint8), "must hold inputs of shape"),
    ],
    ids=["garbage", "missing", "shape"],
)
def test_predict_refuses(model: Path, tmp_path: Path, content: object, words: str) -> None:
    path = tmp_path / "x.png"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        Image.fromarray(content).save(path)  # type: ignore[arg-type]
    done = call("predict", "--model", model, "--input", path)
    assert (done.exit_code, words in done.stderr) == (2, True), done.output


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["--limit", 0], "limit must be"),
        (["--n", 0], "n must be at least"),
        (["--n", 10**9], "n must be at most 100000000"),
    ],
)
def test_the_demo_refuses_before_it_begins(wrong: list[object], words: str, tmp_path: Path) -> None:
    done = call("demo", "--out", tmp_path / "demo", *wrong)
    assert (done.exit_code, words in done.stderr) == (2, True), done.output
    assert not (tmp_path / "demo").exists()


def test_the_demo_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ["demo", "--out", tmp_path / "demo", "--limit", 5, "--n", 100]
    monkeypatch.setattr("sys.argv", ["smoothcert", *map(str, small)])
    done = call(*small)
    assert done.exit_code == 0, done.output
    assert "Next:" in done.stdout
    names = {path.name for path in (tmp_path / "demo").iterdir()}
    assert {"radius-accuracy.png", "digit.png", "report.html", "fixed-n100-5images"} <= names
    made = json.loads((tmp_path / "demo" / "fixed-n100-5images" / "run.json").read_text())["made"]
    assert made["command"] == "smoothcert demo --out demo --limit 5 --n 100", "the head of the report names it"
    written = {path: path.read_bytes() for path in (tmp_path / "demo").rglob("records.jsonl")}
    assert call(*small).exit_code == 0
    assert {path: path.read_bytes() for path in written} == written, "what is there is not made again"
    # The commands that it ends with are commands.
    lines = [line.split("    #")[0].split("smoothcert ", 1)[1] for line in done.stdout.splitlines() if "    #" in line]
    predict = next(line for line in lines if line.startswith("predict"))
    assert call(*predict.split()).exit_code == 0
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert all(line.split()[0] in known for line in lines)


def test_the_packaged_models(tmp_path: Path) -> None:
    from smoothcert import load_model
    from smoothcert.models.zoo import zoo
    from smoothcert.runs import Run

    listed = json.loads(call("zoo", "--json").stdout)
    assert [model["name"] for model in listed] == list(zoo())
    assert call("zoo", "zoo:mnist-0.5").stdout == call("zoo", "zoo:mnist-0.50").stdout
    assert (
        sum(path.stat().st_size for model in zoo().values() for path in model.folder.rglob("*") if path.is_file())
        < 15e6
    )
    for name, model in zoo().items():
        about = json.loads(call("zoo", f"zoo:{name}").stdout)
        assert load_model(f"zoo:{name}").fingerprint == Run.open(model.run).config.model.fingerprint
        done = call("verify", model.run)
        assert (done.exit_code, f"{about['inputs']} of {about['inputs']} records hold" in done.stdout) == (0, True)
    done = call("verify", zoo()["mnist-1.00"].run, "--model", "zoo:mnist-1.00", "--share", 0.004)
    assert done.exit_code == 0, done.output
    done = call("certify", "--model", "zoo:none", "--data", "mnist500", "--out", tmp_path / "run")
    assert (done.exit_code, f"there is no packaged model 'none'; there are {', '.join(zoo())}" in done.stderr) == (
        2,
        True,
    )


def test_radii_in_a_row() -> None:
    words = ["certify", "--radius", "0.25", "0.5", "1", "--n", "5", "--out", "x"]
    wanted = ["certify", "--radius", "0.25", "--radius", "0.5", "--radius", "1", "--n", "5", "--out", "x"]
    assert repeat_options(words) == wanted
    assert repeat_options(wanted) == wanted
    assert repeat_options(["analyze", "0.5", "0.6", "--radius"]) == ["analyze", "0.5", "0.6", "--radius"]
    assert repeat_options([]) == []
