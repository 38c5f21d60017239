"""Nothing but things from outside, from the training to the page: what is made with a plug-in is a full citizen."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from smoothcert import datasets
from smoothcert.analysis import Settings, read, reanalyse, summarise
from smoothcert.audit import audit_run
from smoothcert.audit.fresh import draw_fresh
from smoothcert.audit.rebuild import rebuild
from smoothcert.audit.redraw import redraw
from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset, Subset
from smoothcert.engine import Smoothed
from smoothcert.models import Checkpoint
from smoothcert.models.ensembles import load_model, save
from smoothcert.noise import NOISES
from smoothcert.present import markdown
from smoothcert.present.figures import draw
from smoothcert.present.report import write_report
from smoothcert.present.report.reproduce import certify_command
from smoothcert.procedures import PROCEDURES, Procedure
from smoothcert.runs import ModelConfig, Run
from smoothcert.stats import BOUNDS
from smoothcert.training.recipes import find
from smoothcert.training.recipes.build import change
from smoothcert.workflows.recording import certify_into, run_config
from smoothcert.workflows.train import train_recipe

pytestmark = pytest.mark.usefixtures("my_things")

SEED, INPUTS, SHAPE = 4, 12, (1, 6, 6)
MODELS: list[Path] = []  # the folder of what was trained
CHANGES = ["objective=smoothed-labels", "objective.smoothing=0.05", "architecture=perceptron", "epochs=6", "lr=0.02"]


@pytest.fixture(scope="module")
def ensemble(my_things: object, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Networks from outside, trained on data from outside by an objective from outside; their vote is from outside."""
    folder = tmp_path_factory.mktemp("models")
    MODELS.append(folder)
    recipe, data = change(find("mnist-lenet-gaussian-0.25-fast"), CHANGES), datasets.load("stripes", "train")
    for seed in range(3):
        assert train_recipe(recipe, data, seed=seed, out=folder / str(seed), device="cpu", save_every=1e9)
    made = save(folder / "vote.json", "median-voting", [folder / str(seed) / "model.safetensors" for seed in range(3)])
    found = load_model(folder / "vote.json")
    assert found.fingerprint == made.fingerprint
    assert type(found.model).__name__ == "MedianVoting"
    assert found.details["ensemble"]["mixture"] == "smoothed-labels x3"
    return found


@pytest.fixture(scope="module")
def data(my_things: object) -> Dataset:
    return datasets.load("stripes", "test")


def procedure(**options: Any) -> Procedure:
    return PROCEDURES["either"](n0=50, n=1000, bound=BOUNDS["hoeffding-votes"](), **options)


@pytest.fixture(scope="module")
def run(ensemble: Checkpoint, data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with a noise, a procedure and a bound from outside."""
    smoothed = Smoothed(ensemble.model, 2, NOISES["logistic"](0.08), seed=SEED, workers=1)
    config = run_config(smoothed, procedure(), data, Subset(limit=INPUTS), ModelConfig(files=("vote.json",)))
    made = Run.start(tmp_path_factory.mktemp("runs") / "run", config)
    certify_into(made, smoothed, procedure(), data)
    return Run.open(made.path)


def test_the_records_claim_something(run: Run) -> None:
    records = run.records()
    assert len(records) == INPUTS
    assert sum(record.prediction == record.label and record.radius > 0 for record in records) >= INPUTS - 2
    certificate = records[0].certificate
    assert certificate is not None
    assert certificate.norm == "l1"
    assert Procedure.from_description(dict(certificate.procedure)) == procedure()


def test_it_goes_on_where_it_stopped(run: Run, ensemble: Checkpoint, data: Dataset, tmp_path: Path) -> None:
    lines = (run.path / "records.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run.json").write_bytes((run.path / "run.json").read_bytes())
    (tmp_path / "records.jsonl").write_text("".join(lines[:5]))
    resumed = Run.open(tmp_path)
    smoothed = rebuild(resumed, ensemble.model, 2, input_shape=SHAPE, workers=1)
    certify_into(resumed, smoothed, procedure(), data)
    assert [r.certificate for r in resumed.records()] == [r.certificate for r in run.records()]


def test_it_is_verified_at_all_levels(run: Run, ensemble: Checkpoint, data: Dataset) -> None:
    audit = audit_run(run)
    assert (audit.findings, audit.holding()) == ((), INPUTS)
    again = redraw(run, audit.records, rebuild(run, ensemble.model, 2, input_shape=SHAPE, workers=1), data)
    assert (again.findings, again.moved, again.otherwise) == ((), 0, ())
    fresh = rebuild(run, ensemble.model, 2, input_shape=SHAPE, seed=SEED + 1, workers=1)
    assert draw_fresh(run, audit.records, fresh, data, 500) == ()


def test_another_model_is_refused(run: Run, ensemble: Checkpoint) -> None:
    other = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 2))
    with pytest.raises(InputError, match="is not the one that"):
        rebuild(run, other, 2, input_shape=SHAPE, workers=1)


def test_a_claim_that_the_votes_do_not_carry_is_found(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes((run.path / "run.json").read_bytes())
    records = (run.path / "records.jsonl").read_text()
    radius = run.records()[0].radius
    (tmp_path / "records.jsonl").write_text(records.replace(f'"radius":{radius!r}', f'"radius":{2 * radius!r}', 1))
    assert audit_run(Run.open(tmp_path)).findings


def test_it_is_analysed_at_another_alpha(run: Run) -> None:
    result = read(run.path)
    assert reanalyse(result).records == result.records
    safer, fewer = reanalyse(result, alpha=1e-6), reanalyse(result, n=500)
    assert safer.settings.procedure == procedure(alpha=1e-6).describe()
    for other in (safer, fewer):
        assert sum(r.radius for r in other.records) < sum(r.radius for r in result.records)
    (row,) = summarise([result]).rows
    assert (row.noise, row.norm) == ("logistic spread=0.08", "l1")
    assert "logistic" in markdown(summarise([result, safer]))


def test_it_is_drawn_and_reported(run: Run, data: Dataset, tmp_path: Path) -> None:
    result = read(run.path)
    for kind in ("answers", "curves", "sigma", "draws"):
        assert draw(kind, [result], tmp_path / f"{kind}.svg").stat().st_size > 0
    page = tmp_path / "page.html"
    pictures = {index: data.inputs[index] for index in result.indices}
    write_report([result], page, images={result.name: pictures}, class_names={result.name: data.class_names})
    text = page.read_text()
    assert "logistic" in text
    assert "standing" in text
    command = certify_command("run", Settings.of(run.config))
    assert "--noise logistic" in command
    assert "--plugin my_noise.py" in command


def test_without_the_plugins_the_audit_names_the_way_out(run: Run) -> None:
    code = "import sys; from pathlib import Path; from smoothcert import audit, runs; "
    code += "audit.audit_run(runs.Run.open(Path(sys.argv[1])))"
    command = [sys.executable, "-c", code, str(run.path)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode != 0
    assert re.search(
        r"was made with the plug-in .*my_noise\.py.*, which is not loaded; give it with --plugin", said.stderr
    )


def test_the_command_line_takes_things_from_outside(ensemble: Checkpoint, tmp_path: Path) -> None:
    """Each command starts from nothing, and is told of the files; the run is certified, audited, analysed and shown."""
    here = Path(__file__).parent
    plugins = [word for file in sorted(here.glob("my_*.py")) for word in ("--plugin", str(file))]
    model = MODELS[0] / "vote.json"

    def call(*words: object) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "smoothcert", *map(str, words), *plugins],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = call(
        "certify", "--model", model, "--data", "stripes", "--limit", 4, "--noise", "logistic", "--strength", 0.08,
        "--procedure", "either", "--set", "procedure.n0=50", "--set", "procedure.n=500", "--out", tmp_path / "run",
    )  # fmt: skip
    assert "4 inputs" in said
    assert "4 of 4 records hold" in call("verify", tmp_path / "run", "--model", model, "--fresh", 200)
    assert "ACR" in call("analyze", tmp_path / "run", "--alpha", 0.01)
    call("report", tmp_path / "run", "--out", tmp_path / "page.html")
    assert "logistic" in (tmp_path / "page.html").read_text()
