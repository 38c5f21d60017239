import json
import os
import pickle
import stat
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

from smoothcert.core.errors import InputError
from smoothcert.models import Architecture, build, fingerprint, formats, load, names, save
from smoothcert.models.formats.safetensors import rounded
from smoothcert.models.formats.sealed_tensors import MOST_HEADER, pack

SPEC = Architecture("lenet", 10, (1, 8, 8), (0.5,), (0.25,))
DETAILS = {"recipe": "gaussian", "seed": 3, "epoch": 8, "noise": {"sigma": 0.25}, "note": "Größe"}


@pytest.fixture
def model() -> nn.Module:
    return build(SPEC, seed=0)


@pytest.fixture
def path(tmp_path: Path, model: nn.Module) -> Path:
    save(tmp_path / "model.safetensors", model, SPEC, DETAILS)
    return tmp_path / "model.safetensors"


def parts(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
    with safetensors.safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["smoothcert"])
    return safetensors.torch.load(path.read_bytes()), header


def rewrite(path: Path, tensors: dict[str, torch.Tensor], header: object) -> None:
    """Sealed as if all were well."""
    if isinstance(header, dict):
        path.write_bytes(pack(tensors, "smoothcert", {name: header[name] for name in header if name != "digest"}))
    else:
        path.write_bytes(safetensors.torch.save(tensors, metadata={"smoothcert": json.dumps(header)}))


def test_round_trip_gives_the_same_scores_bit_for_bit(path, model):
    loaded = load(path)
    x = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.equal(loaded.model(x), model.eval()(x))
    assert (loaded.architecture, loaded.details) == (SPEC, DETAILS)
    assert loaded.fingerprint == fingerprint(model) == fingerprint(loaded.model)
    assert not any(module.training for module in loaded.model.modules())
    assert all(p.requires_grad for p in loaded.model.parameters())


@pytest.mark.parametrize("name", [name for name in names() if name not in ("vgg16", "vgg19", "resnet34", "resnet50")])
def test_every_family_comes_back_whole(name, tmp_path):
    """Including the running statistics of batch-norm; nothing is left on the meta device it was checked on."""
    spec = Architecture(name, 10, (3, 32, 32))
    model = build(spec, seed=1)
    generator = torch.Generator().manual_seed(2)
    for buffer_name, buffer in model.named_buffers():
        if "running" in buffer_name:
            buffer.uniform_(0.5, 1.5, generator=generator)
    save(tmp_path / "m.safetensors", model, spec, {})
    loaded = load(tmp_path / "m.safetensors", expect=name)
    assert loaded.fingerprint == fingerprint(model)
    assert not any(t.is_meta for t in [*loaded.model.parameters(), *loaded.model.buffers()])
    if name in ("cifar-resnet20", "dncnn"):
        x = torch.rand(2, 3, 32, 32, generator=generator)
        with torch.no_grad():
            assert torch.equal(loaded.model(x), model.eval()(x))


def test_weights_that_are_numbers_of_16_bits_take_half_the_file_and_are_float32_again(tmp_path, path, model):
    """Without a loss: what the file gives back is the rounded model, bit for bit."""
    short = rounded(model)
    assert fingerprint(short) != fingerprint(model), "rounding makes another classifier"
    save(tmp_path / "short.safetensors", short, SPEC, DETAILS)
    assert (tmp_path / "short.safetensors").stat().st_size < 0.6 * path.stat().st_size
    loaded = load(tmp_path / "short.safetensors")
    assert loaded.fingerprint == fingerprint(short)
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}
    x = torch.rand(5, 1, 8, 8)
    with torch.no_grad():
        assert torch.equal(loaded.model(x), short.eval()(x))
    save(tmp_path / "again.safetensors", loaded.model, SPEC, DETAILS)
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "short.safetensors").read_bytes()


def test_one_weight_of_more_bits_keeps_all_in_full(tmp_path, path, model):
    short = rounded(model)
    next(short.parameters()).data.view(-1)[0] = 1 / 3
    save(tmp_path / "m.safetensors", short, SPEC, DETAILS)
    assert (tmp_path / "m.safetensors").stat().st_size == path.stat().st_size
    assert load(tmp_path / "m.safetensors").fingerprint == fingerprint(short)


def test_a_model_of_two_precisions_keeps_both(tmp_path):
    """Though all of its float32 numbers, biases of 0, are numbers of 16 bits."""
    model = build(SPEC, seed=0).half()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data = torch.zeros_like(parameter, dtype=torch.float32)
    save(tmp_path / "m.safetensors", model, SPEC, {})
    assert load(tmp_path / "m.safetensors").fingerprint == fingerprint(model)


def test_a_weight_beyond_16_bits_is_not_rounded(model):
    next(model.parameters()).data.view(-1)[0] = 1e6
    with pytest.raises(InputError, match="beyond those of 16 bits; keep the weights as they are"):
        rounded(model)


def test_half_precision_and_channels_last_models_come_back_as_the_same_function(tmp_path):
    model = build(SPEC, seed=0).to(torch.bfloat16).to(memory_format=torch.channels_last)
    save(tmp_path / "m.safetensors", model, SPEC, {})
    loaded = load(tmp_path / "m.safetensors")
    assert next(loaded.model.parameters()).dtype == torch.bfloat16
    assert loaded.fingerprint == fingerprint(model)


def test_a_loaded_model_owns_its_weights_and_can_be_trained_on(path):
    loaded = load(path)
    path.unlink()
    before = loaded.fingerprint
    loaded.model(torch.rand(2, 1, 8, 8)).sum().backward()
    torch.optim.SGD(loaded.model.parameters(), lr=0.1).step()
    assert fingerprint(loaded.model) != before


def test_loading_leaves_the_random_generator_alone(path):
    before = torch.get_rng_state()
    load(path)
    assert torch.equal(torch.get_rng_state(), before)


def test_equal_checkpoints_are_equal_files(path, model):
    first = path.read_bytes()
    save(path, model, SPEC, DETAILS)
    assert path.read_bytes() == first


def test_saving_replaces_at_once_and_leaves_nothing_beside(path):
    other = build(SPEC, seed=1)
    save(str(path), other, SPEC, {})
    assert load(str(path)).fingerprint == fingerprint(other)
    assert os.listdir(path.parent) == [path.name]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask  # as any other file of this user


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_crash_while_saving_leaves_the_old_checkpoint(path, monkeypatch, step):
    def crash(*_: object) -> None:
        raise OSError("No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr(os, step, crash)
    with pytest.raises(OSError, match="No space left"):
        save(path, build(SPEC, seed=1), SPEC, {})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_truncated_anywhere_it_is_refused(path):
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    positions = {*range(header + 1), *range(header, len(whole), 9973), len(whole) - 1, len(whole) - 4}
    assert len(positions) > 500
    for position in sorted(positions):
        path.write_bytes(whole[:position])
        with pytest.raises(InputError, match="not a whole safetensors file"):
            load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(InputError, match="not a whole safetensors file"):
        load(path)


def test_any_flipped_bit_is_refused(path):
    """In the weights and in the header: details included."""
    whole = path.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    for position in [*range(start), *range(start, len(whole), 30011)]:
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(InputError):
            load(path)


def test_another_sigma_in_the_header_is_refused(path):
    """The noise that a model was trained with decides what it is certified with."""
    whole = path.read_bytes()
    changed = whole.replace(b'sigma\\": 0.25', b'sigma\\": 0.75')
    assert changed != whole
    path.write_bytes(changed)
    with pytest.raises(InputError, match="is damaged: it is not as it was saved; copy or save it again"):
        load(path)


@pytest.mark.parametrize("size", [0, 1, MOST_HEADER + 1, 2**40, 2**63, 2**64 - 1])
def test_a_header_of_another_length_is_refused_before_it_is_read(path, size):
    path.write_bytes(size.to_bytes(8, "little") + path.read_bytes()[8:])
    with pytest.raises(InputError, match="not a whole safetensors file"):
        load(path)


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.safetensors")
    (tmp_path / "zero.safetensors").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(InputError, match=f"{name}.safetensors cannot be read: Not a regular file"):
            load(tmp_path / f"{name}.safetensors")


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"the checkpoint .*none.safetensors does not exist"):
        load(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_a_pickle_is_refused_and_not_run(tmp_path):
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (os.mkdir, (str(tmp_path / "ran"),))

    (tmp_path / "m.pth").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(InputError, match="cannot be read as weights alone"):
        formats.load(tmp_path / "m.pth")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("metadata", [None, {}, {"other": "x"}, {"smoothcert": "{"}, {"smoothcert": "[" * 100_000}])
def test_a_foreign_safetensors_file_is_refused(path, metadata):
    path.write_bytes(safetensors.torch.save({"w": torch.zeros(2)}, metadata=metadata))
    with pytest.raises(InputError, match="not a checkpoint that smoothcert saved"):
        load(path)


def test_a_number_type_that_torch_lacks_is_refused(path):
    header = json.dumps({"w": {"dtype": "F99", "shape": [1], "data_offsets": [0, 1]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0")
    with pytest.raises(InputError, match="not a whole safetensors file"):
        load(path)


@pytest.mark.parametrize("header", [[], 3, None, "x"])
def test_metadata_that_is_no_object_is_refused(path, header):
    rewrite(path, parts(path)[0], header)
    with pytest.raises(InputError, match="not a checkpoint that smoothcert saved"):
        load(path)


@pytest.mark.parametrize("version", [0, 1, 3, "2", None])
def test_another_format_version_is_refused(path, version):
    tensors, header = parts(path)
    rewrite(path, tensors, header | {"format": version})
    with pytest.raises(InputError, match=f"format {version!r}, but this version reads 2; save it again"):
        load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architecture": {}}, "cannot be built: an architecture needs the key 'name'"),
        ({"architecture": None}, "cannot be built: an architecture must be a JSON object"),
        ({"architecture": {"name": "lenet", "num_classes": 1e30, "input_shape": [1, 8, 8]}}, "num_classes must be"),
        ({"architecture": {"name": "lenett", "num_classes": 9, "input_shape": [1, 8, 8]}}, "did you mean lenet"),
        ({"architecture": {"name": "lenet", "num_classes": 10, "input_shape": [1, 65536, 65536]}}, "is missing"),
        ({"details": None}, "no details"),
    ],
)
def test_a_damaged_header_is_refused(path, change, message):
    tensors, header = parts(path)
    rewrite(path, tensors, header | change)
    with pytest.raises(InputError, match=message):
        load(path)


def test_the_weights_of_another_architecture_are_refused_by_name(path):
    tensors, header = parts(path)
    other = Architecture("alexnet", 10, (1, 32, 32), (0.5,), (0.25,))
    rewrite(path, tensors, header | {"architecture": other.to_json()})
    with pytest.raises(
        InputError, match=r"not fit the architecture alexnet: the tensor '1.features.6.weight' is missing"
    ):
        load(path)


def test_missing_unexpected_misshaped_and_mistyped_tensors_are_named(path):
    tensors, header = parts(path)
    name = "1.features.0.bias"
    without = {key: value for key, value in tensors.items() if key != name}
    for changed, message in [
        (without, f"the tensor '{name}' is missing"),
        (tensors | {"extra": torch.zeros(1)}, "the tensor 'extra' is unexpected"),
        (tensors | {name: torch.zeros(31)}, rf"the tensor '{name}' must have shape \(32,\), got \(31,\)"),
        (tensors | {name: torch.zeros(32, dtype=torch.int32)}, f"the tensor '{name}' must be one of .*got torch.int32"),
        (tensors | {name: torch.zeros(32).to(torch.float8_e5m2)}, "got torch.float8_e5m2"),
    ]:
        rewrite(path, changed, header)
        with pytest.raises(InputError, match=message):
            load(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused_on_both_sides(path, model, value):
    before = path.read_bytes()
    tensors, header = parts(path)
    tensors["1.classifier.1.weight"][3, 4] = value
    rewrite(path, tensors, header)
    with pytest.raises(InputError, match=r"not finite, in '1.classifier.1.weight'"):
        load(path)
    path.write_bytes(before)
    with torch.no_grad():
        model[1].classifier[1].weight[3, 4] = value
    with pytest.raises(InputError, match="the model has weights that are not finite"):
        save(path, model, SPEC, {})
    assert path.read_bytes() == before


def test_changed_weights_are_refused(path):
    tensors, header = parts(path)
    tensors["1.features.0.bias"][0] += 1e-3
    path.write_bytes(safetensors.torch.save(tensors, metadata={"smoothcert": json.dumps(header)}))
    with pytest.raises(InputError, match="is damaged: it is not as it was saved"):
        load(path)


def test_another_architecture_than_the_expected_one_is_refused(path):
    assert load(path, expect="lenet").architecture == SPEC
    with pytest.raises(InputError, match="holds the architecture lenet, but vgg16 is expected"):
        load(path, expect="vgg16")


@pytest.mark.parametrize("device", ["abacus", "cpu:x"])
def test_a_device_that_is_not_there_is_refused(path, device):
    with pytest.raises(InputError, match=f"device must be one that this machine has.*got '{device}'"):
        load(path, device)


@pytest.mark.parametrize(
    "details",
    [{"model": object()}, {"loss": float("nan")}, {"when": {1, 2}}, 3],
    ids=["object", "nan", "set", "number"],
)
def test_details_that_are_not_json_are_refused(path, model, details):
    before = path.read_bytes()
    with pytest.raises(InputError, match="details must be JSON"):
        save(path, model, SPEC, details)
    assert path.read_bytes() == before


def test_saving_refuses_what_could_not_be_loaded(tmp_path, model):
    with pytest.raises(InputError, match=r"must end in .safetensors, got .*m.pt"):
        save(tmp_path / "m.pt", model, SPEC, {})
    with pytest.raises(InputError, match=r"the folder .*nowhere does not exist; create it"):
        save(tmp_path / "nowhere" / "m.safetensors", model, SPEC, {})
    with pytest.raises(
        InputError, match=r"the model does not fit the architecture lenet: the tensor '0.mean' is missing"
    ):
        save(tmp_path / "m.safetensors", model[1], SPEC, {})
    with pytest.raises(InputError, match=r"must have shape \(11, 1024\), got \(10, 1024\)"):
        save(tmp_path / "m.safetensors", model, Architecture("lenet", 11, (1, 8, 8), (0.5,), (0.25,)), {})
    assert os.listdir(tmp_path) == []
