"""Without its plug-in, a thing from outside is not there, and one sentence names the way out."""

from collections.abc import Callable
from pathlib import Path

import pytest

from smoothcert import datasets, models
from smoothcert.core.errors import InputError
from smoothcert.core.plugins import load_plugin
from smoothcert.engine.sigma import optimize_sigma
from smoothcert.models import Architecture
from smoothcert.models.ensembles import save
from smoothcert.noise import Noise
from smoothcert.present.figures import draw
from smoothcert.procedures import Procedure
from smoothcert.stats import Bound
from smoothcert.training import Schedule
from smoothcert.training.objectives import Attack, Objective
from smoothcert.training.recipes import find
from smoothcert.training.recipes.build import change

pytestmark = pytest.mark.usefixtures("forgotten")


@pytest.mark.parametrize(
    ("what", "ask"),
    [
        ("noise 'logistic'", lambda: Noise.from_description({"name": "logistic", "spread": 1.0})),
        ("procedure 'either'", lambda: Procedure.from_description({"name": "either"})),
        ("bound 'hoeffding-votes'", lambda: Bound.from_description({"name": "hoeffding-votes"})),
        ("objective 'smoothed-labels'", lambda: Objective.from_description({"name": "smoothed-labels"})),
        ("objective 'mine'", lambda: change(find("mnist-lenet-gaussian-0.25"), ["objective=mine"])),
        ("attack 'mine'", lambda: Attack.from_description({"name": "mine"})),
        ("schedule 'mine'", lambda: Schedule.from_description({"name": "mine"})),
        ("architecture 'perceptron'", lambda: models.build(Architecture("perceptron", 2, (1, 6, 6)))),
        ("figure 'answers'", lambda: draw("answers", [], "answers.png")),
        ("recipe 'mine'", lambda: find("mine")),
        ("search for sigma 'mine'", lambda: optimize_sigma(abs, None, sigma0=1.0, method="mine")),  # type: ignore
    ],
)
def test_the_sentence_names_the_way_out(what: str, ask: Callable[[], object]) -> None:
    with pytest.raises(InputError) as refusal:
        ask()
    assert f"there is no {what}: " in str(refusal.value)
    assert str(refusal.value).endswith("; one from outside the package is loaded with --plugin FILE")


def test_an_aggregation_and_a_data_set(tmp_path: Path) -> None:
    net = Architecture("lenet", 2, (1, 6, 6))
    models.save(tmp_path / "net.safetensors", models.build(net), net, {})
    with pytest.raises(InputError, match=r"there is no aggregation 'median-voting': .* with --plugin FILE"):
        save(tmp_path / "vote.json", "median-voting", [tmp_path / "net.safetensors"])
    assert not (tmp_path / "vote.json").exists()
    with pytest.raises(InputError, match="source 'stripes' is neither a data set"):
        datasets.load("stripes")
    load_plugin(Path(__file__).with_name("my_dataset.py"))
    assert len(datasets.load("stripes")) == 60
