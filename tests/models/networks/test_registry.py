import subprocess
import sys

import pytest
import torch
from torch import nn

from smoothcert.core.errors import InputError
from smoothcert.models import Architecture, Normalize, build, names, register
from smoothcert.models.networks.lenet import LeNet

DIGITS = Architecture("lenet", 10, (1, 8, 8))


def test_every_promised_name_is_registered():
    """In a process of its own: other tests register networks of theirs."""
    code = "from smoothcert.models import names; print(*names())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == [
        "alexnet",
        "cifar-resnet110",
        "cifar-resnet20",
        "cifar-resnet26",
        "cifar-resnet32",
        "densenet100",
        "dncnn",
        "dncnn-wide",
        "lenet",
        "lenet-small",
        "lenet5",
        "resnet18",
        "resnet34",
        "resnet50",
        "vgg16",
        "vgg19",
    ]


def test_normalisation_is_the_first_layer_exactly_when_given():
    assert isinstance(build(DIGITS), LeNet)
    model = build(Architecture("lenet", 10, (1, 8, 8), (0.5,), (0.25,)), seed=3)
    assert isinstance(model, nn.Sequential)
    assert isinstance(model[0], Normalize)
    x = torch.rand(2, 1, 8, 8)
    assert torch.equal(model(x), build(DIGITS, seed=3)((x - 0.5) / 0.25))


def test_a_seed_decides_the_weights_and_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = build(DIGITS, seed=1), build(DIGITS, seed=1), build(DIGITS, seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(first.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(first.features[0].weight, other.features[0].weight)


def test_copies_are_one_network_of_their_mean_scores():
    three = Architecture("lenet*3", 10, (1, 8, 8), (0.5,), (0.25,))
    model, x = build(three, seed=1).eval(), torch.rand(4, 1, 8, 8)
    members = model[1].members
    alone = torch.stack([member((x - 0.5) / 0.25) for member in members])
    assert len(members) == 3
    assert torch.equal(model(x), alone.mean(dim=0))
    assert all(not torch.equal(alone[0], other) for other in alone[1:])  # each with weights of its own
    assert torch.equal(model(x), build(three, seed=1).eval()(x))


@pytest.mark.parametrize(
    "name", ["lenet*", "lenet*x", "lenet*1", "lenet*03", "lenet*2*2", "lenet*²", "lenet*101", "lenet*9999999"]
)
def test_copies_are_a_whole_number(name):
    with pytest.raises(InputError, match=r"lenet\*K needs a whole number K from 2 to 100, as in lenet\*3, got"):
        build(Architecture(name, 10, (1, 8, 8)))


def test_what_returns_images_is_not_averaged():
    with pytest.raises(InputError, match="dncnn returns images"):
        build(Architecture("dncnn*2", 0, (1, 8, 8)))


def test_without_a_seed_the_global_generator_decides():
    torch.manual_seed(5)
    first, second = build(DIGITS), build(DIGITS)
    torch.manual_seed(5)
    assert torch.equal(build(DIGITS).features[0].weight, first.features[0].weight)
    assert not torch.equal(second.features[0].weight, first.features[0].weight)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("resnet20", "cifar-resnet20"),
        ("cifar_resnet110", "cifar-resnet110"),
        ("ResNet-50", "resnet50"),
        ("lenett", "lenet"),
        ("vgg-16", "vgg16"),
        ("desnet100", "densenet100"),
    ],
)
def test_an_unknown_name_is_answered_with_the_names_and_the_likely_one(asked, meant):
    with pytest.raises(
        InputError, match=f"no architecture '{asked}': did you mean {meant}[?] The names are alexnet.*vgg19"
    ):
        build(Architecture(asked, 10, (3, 32, 32)))


def test_a_name_that_resembles_none_gets_no_guess():
    with pytest.raises(InputError, match=r"no architecture 'zzz': the names are alexnet, .*vgg19; "):
        build(Architecture("zzz", 10, (3, 32, 32)))


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("lenet", 4),
        ("lenet-small", 16),
        ("lenet5", 16),
        ("alexnet", 29),
        ("vgg16", 32),
        ("vgg19", 32),
        ("densenet100", 4),
    ],
)
def test_the_smallest_image_works_and_a_smaller_one_is_refused(name, side):
    with torch.device("meta"):
        net = build(Architecture(name, 10, (3, side, side))).eval()
        assert net(torch.empty(1, 3, side, side)).shape == (1, 10)
    for shape in ((3, side - 1, 64), (3, 64, side - 1)):
        with pytest.raises(InputError, match=f"input_shape of {name} must be at least {side} x {side}, got"):
            build(Architecture(name, 10, shape))


@pytest.mark.parametrize(
    "name", [name for name in names() if name not in ("lenet", "lenet-small", "lenet5", "alexnet", "vgg16", "vgg19")]
)
def test_the_others_have_no_smallest_image_but_their_own(name):
    side = 4 if name == "densenet100" else 1
    with torch.device("meta"):
        net = build(Architecture(name, 10, (3, side, side))).eval()
        assert net(torch.empty(2, 3, side, side)).shape[0] == 2


@pytest.mark.parametrize("num_classes", [0, 1])
def test_a_classifier_needs_two_classes(num_classes):
    with pytest.raises(InputError, match=f"num_classes of the classifier lenet must be at least 2, got {num_classes}"):
        build(Architecture("lenet", num_classes, (1, 28, 28)))


def test_a_denoiser_works_on_raw_pixels():
    with pytest.raises(InputError, match="mean and std of dncnn must be empty"):
        build(Architecture("dncnn", 0, (1, 8, 8), (0.5,), (0.5,)))


def test_a_name_is_registered_once():
    with pytest.raises(InputError, match="'lenet' is taken"):
        register("lenet")(LeNet)
