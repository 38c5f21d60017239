"""The families: parameter counts against published ones, shapes layer by layer, initialisation, traceability."""

import math

import pytest
import torch
from torch import nn

from smoothcert.core.errors import InputError
from smoothcert.models import Architecture, build, names
from smoothcert.models.networks.cifar_resnet import CifarResNet
from smoothcert.models.networks.densenet import DenseLayer, DenseNet
from smoothcert.models.networks.dncnn import DnCNN
from smoothcert.models.networks.residual import BasicBlock, Bottleneck

CIFAR = (3, 32, 32)
# name, classes, input shape, parameters
PUBLISHED = [
    # By hand, layer by layer: (25*32 + 32) + (25*32*64 + 64) + (3136*1024 + 1024) + (1024*10 + 10).
    ("lenet", 10, (1, 28, 28), 3_274_634),
    # Likewise: (25*20 + 20) + (25*20*50 + 50) + (800*500 + 500) + (500*10 + 10).
    ("lenet-small", 10, (1, 28, 28), 431_080),
    # LeCun et al. 1998, with colours: (75*6 + 6) + (150*16 + 16) + (400*120 + 120) + (120*84 + 84) + (84*10 + 10).
    ("lenet5", 10, CIFAR, 62_006),
    # Wei Yang's CIFAR zoo (bearpaw/pytorch-classification, README): 2.47 M.
    ("alexnet", 10, CIFAR, 2_472_266),
    # Sun et al. 2024, "NeuralFuse", table 7 (VGG-19: 20.04 M in Yang's README, too).
    ("vgg16", 10, CIFAR, 14_728_266),
    ("vgg19", 10, CIFAR, 20_040_522),
    # He et al. 2016, table 6, have 0.27 M, 0.46 M and 1.7 M with shortcuts without parameters; a projection with
    # batch-norm adds (16*32 + 64) + (32*64 + 128) = 2752 to 269_722, 464_154 and 1_727_962.
    ("cifar-resnet20", 10, CIFAR, 269_722 + 2752),
    ("cifar-resnet32", 10, CIFAR, 464_154 + 2752),
    ("cifar-resnet110", 10, CIFAR, 1_727_962 + 2752),
    # torchvision documentation, `num_params` of the IMAGENET1K_V1 weights.
    ("resnet18", 1000, (3, 224, 224), 11_689_512),
    ("resnet34", 1000, (3, 224, 224), 21_797_672),
    ("resnet50", 1000, (3, 224, 224), 25_557_032),
    # Huang et al. 2017, table 2: 0.8 M; Yang's README: 0.77 M.
    ("densenet100", 10, CIFAR, 769_162),
    # Zhang et al. 2017, grey images: (9*64 + 64) + 15*(9*64*64 + 2*64) + 9*64.
    ("dncnn", 0, (1, 40, 40), 556_096),
    # Twice as wide: (9*128 + 128) + 15*(9*128*128 + 2*128) + 9*128.
    ("dncnn-wide", 0, (1, 40, 40), 2_218_112),
]


def on_meta(name: str, num_classes: int, shape: tuple[int, int, int]) -> nn.Module:
    with torch.device("meta"):
        return build(Architecture(name, num_classes, shape))


@pytest.mark.parametrize(("name", "num_classes", "shape", "count"), PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_parameter_count_is_the_published_one(name, num_classes, shape, count):
    assert sum(p.numel() for p in on_meta(name, num_classes, shape).parameters()) == count


def test_resnet26_adds_one_block_per_stage_to_resnet20():
    block = {width: 2 * 9 * width * width + 4 * width for width in (16, 32, 64)}
    count = sum(p.numel() for p in on_meta("cifar-resnet26", 10, CIFAR).parameters())
    assert count == 272_474 + sum(block.values())


@pytest.mark.parametrize(
    "name", [name for name in names() if name not in ("dncnn", "dncnn-wide", "resnet50", "cifar-resnet110")]
)
def test_scores_have_one_row_per_image_whatever_the_batch(name):
    net = build(Architecture(name, 7, CIFAR), seed=0).eval()
    x = torch.rand(3, *CIFAR, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        scores, first = net(x), net(x[:1])
    assert scores.shape == (3, 7)
    assert torch.isfinite(scores).all()
    # A batch size may change the order of summation, so equal up to float32 rounding through some 100 layers.
    torch.testing.assert_close(first, scores[:1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", names())
def test_any_batch_size_gives_that_many_outputs(name):
    net = on_meta(name, 10, CIFAR).eval()
    for batch in (1, 2, 5, 17):
        expected = (batch, *CIFAR) if name.startswith("dncnn") else (batch, 10)
        assert net(torch.empty(batch, *CIFAR, device="meta")).shape == expected


@pytest.mark.parametrize("name", ["alexnet", "vgg16", "resnet18", "densenet100", "cifar-resnet20", "lenet"])
def test_other_image_sizes_and_channels_work(name):
    shape = (1, 70, 45)
    assert on_meta(name, 4, shape).eval()(torch.empty(3, *shape, device="meta")).shape == (3, 4)


def layer_shapes(net: nn.Module, shape: tuple[int, int, int]) -> list[tuple[str, tuple[int, ...]]]:
    seen: list[tuple[str, tuple[int, ...]]] = []
    for layer in net.modules():
        if not list(layer.children()):
            layer.register_forward_hook(lambda m, _, out: seen.append((type(m).__name__, tuple(out.shape[1:]))))
    net.eval()(torch.empty(2, *shape, device="meta"))
    return seen


def test_lenet_has_the_layers_it_promises():
    net = on_meta("lenet", 10, (1, 28, 28))
    assert layer_shapes(net, (1, 28, 28)) == [
        ("Conv2d", (32, 28, 28)),
        ("ReLU", (32, 28, 28)),
        ("MaxPool2d", (32, 14, 14)),
        ("Conv2d", (64, 14, 14)),
        ("ReLU", (64, 14, 14)),
        ("MaxPool2d", (64, 7, 7)),
        ("Flatten", (3136,)),
        ("Linear", (1024,)),
        ("ReLU", (1024,)),
        ("Linear", (10,)),
    ]
    convolutions = [layer for layer in net.modules() if isinstance(layer, nn.Conv2d)]
    assert [(c.kernel_size, c.stride, c.padding) for c in convolutions] == [((5, 5), (1, 1), (2, 2))] * 2


def test_alexnet_ends_in_one_pixel_on_cifar():
    shapes = layer_shapes(on_meta("alexnet", 10, CIFAR), CIFAR)
    assert [shape for kind, shape in shapes if kind == "Conv2d"] == [
        (64, 8, 8),
        (192, 4, 4),
        (384, 2, 2),
        (256, 2, 2),
        (256, 2, 2),
    ]
    assert [shape for kind, shape in shapes if kind == "MaxPool2d"] == [(64, 4, 4), (192, 2, 2), (256, 1, 1)]


# VGG counts three linear layers, of which CIFAR needs one.
@pytest.mark.parametrize(
    ("name", "depth"),
    [
        ("vgg16", 16 - 2),
        ("vgg19", 19 - 2),
        ("cifar-resnet26", 26),
        ("resnet34", 34),
        ("resnet50", 50),
        ("densenet100", 100),
    ],
)
def test_depth_counts_the_layers_with_weights(name, depth):
    net = on_meta(name, 10, CIFAR)
    weights = [m for n, m in net.named_modules() if isinstance(m, nn.Conv2d | nn.Linear) and "shortcut" not in n]
    assert len(weights) == depth


@pytest.mark.parametrize("block", [BasicBlock, Bottleneck])
@pytest.mark.parametrize("stride", [1, 2])
def test_residual_block_is_relu_of_branch_plus_shortcut(block, stride):
    torch.manual_seed(0)
    layer = block(8, 8 // block.expansion, stride).eval()
    x = torch.randn(2, 8, 6, 6)
    last = layer.bn3 if block is Bottleneck else layer.bn2
    nn.init.zeros_(last.weight)  # the branch is silent: what remains is the shortcut
    assert torch.equal(layer(x), torch.relu(layer.shortcut(x)))
    assert isinstance(layer.shortcut, nn.Identity) == (stride == 1)
    assert layer(x).shape == (2, 8, 6 // stride, 6 // stride)


@pytest.mark.parametrize("name", names())
def test_no_module_is_called_twice_and_none_drops_out(name):
    net = on_meta(name, 10, CIFAR).eval()
    calls: dict[str, int] = {}
    for path, layer in net.named_modules():
        assert not isinstance(layer, nn.Dropout)
        if isinstance(layer, nn.ReLU):
            layer.register_forward_hook(lambda *_, path=path: calls.update({path: calls.get(path, 0) + 1}))
    net(torch.empty(1, *CIFAR, device="meta"))
    assert set(calls.values()) == {1}


def test_dense_layer_keeps_its_input_in_front():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 4, 4)
    out = DenseLayer(5, growth=3).eval()(x)
    assert out.shape == (2, 8, 4, 4)
    assert torch.equal(out[:, :5], x)


def test_dncnn_returns_the_image_minus_the_predicted_noise():
    net = build(Architecture("dncnn", 0, (3, 9, 7)), seed=0).eval()
    x = torch.rand(5, 3, 9, 7, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        denoised = net(x)
        assert denoised.shape == x.shape
        assert torch.equal(denoised, x - net.residual(x))
        assert not torch.equal(denoised, x)
        nn.init.zeros_(net.residual[-1].weight)  # no noise predicted: the identity
        assert torch.equal(net(x), x)


def test_dncnn_has_17_convolutions_and_batch_norm_in_the_15_between():
    net = DnCNN(1)
    assert sum(isinstance(layer, nn.Conv2d) for layer in net.modules()) == 17
    assert sum(isinstance(layer, nn.BatchNorm2d) for layer in net.modules()) == 15


def test_he_initialisation_has_its_standard_deviation():
    net = build(Architecture("cifar-resnet20", 10, CIFAR), seed=0)
    weight = net.stages[2][2].conv2.weight  # 64 x 64 x 3 x 3
    std = math.sqrt(2 / (9 * 64))
    # The sample deviation of m normals has relative standard error 1 / sqrt(2 m) = 0.0037 here: 5 of them.
    assert weight.std().item() == pytest.approx(std, rel=5 / math.sqrt(2 * weight.numel()))
    assert abs(weight.mean().item()) < 5 * std / math.sqrt(weight.numel())


@pytest.mark.parametrize("name", ["vgg16", "cifar-resnet110", "densenet100"])
def test_the_signal_survives_the_depth_at_initialisation(name):
    """In training mode, neither vanishing nor exploding: scores of order one, gradients at the first layer."""
    net = build(Architecture(name, 10, CIFAR), seed=0).train()
    x = torch.rand(2, *CIFAR, generator=torch.Generator().manual_seed(0))
    scores = net(x)
    scores.logsumexp(1).sum().backward()
    first = next(net.parameters()).grad
    assert 1e-3 < scores.abs().max().item() < 1e3
    assert first is not None
    assert 1e-6 < first.norm().item() < 1e6


@pytest.mark.parametrize("name", names())
def test_torch_fx_can_trace_it(name):
    """Folding batch-norm into convolutions goes through torch.fx."""
    shape = CIFAR
    spec = (0.5,) * 3
    net = build(Architecture(name, 10, shape, *(() if name.startswith("dncnn") else (spec, spec))), seed=0).eval()
    traced = torch.fx.symbolic_trace(net)
    if name in ("lenet", "cifar-resnet20", "densenet100", "dncnn"):
        x = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            assert torch.equal(traced(x), net(x))


def test_impossible_depths_are_refused():
    with pytest.raises(InputError, match=r"6n \+ 2.*got 21"):
        CifarResNet(21, num_classes=10, input_shape=CIFAR)
    with pytest.raises(InputError, match=r"6n \+ 4.*got 101"):
        DenseNet(num_classes=10, input_shape=CIFAR, depth=101)
