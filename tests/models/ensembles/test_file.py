"""The ensemble file: what was written is what is loaded, and what was changed is refused by name."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from smoothcert.core.errors import InputError
from smoothcert.core.sealed import BLANK, seal
from smoothcert.models import Architecture, Checkpoint, Signature, build, fingerprint, load
from smoothcert.models import save as save_checkpoint
from smoothcert.models.ensembles import AGGREGATIONS, SoftVoting, load_model, save
from smoothcert.models.ensembles.file import together
from smoothcert.noise import Gaussian

OPTIONS: dict[str, dict[str, Any]] = {
    "soft-voting": {"weights": [1, 2, 3]},
    "softmax-voting": {"weights": [0.2, 0.3, 0.5]},
    "hard-voting": {},
    "consensus": {"k": 3},
    "early-exit": {"weights": [3, 2, 1], "threshold": 0.9, "a": 0.1},
    "max-margin": {},
}


@pytest.mark.parametrize("name", [name for name in AGGREGATIONS if name not in ("denoised", "mirrored")])
def test_round_trip(name: str, checkpoints: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "ensemble.json"
    made = save(path, name, checkpoints, OPTIONS[name], {"seed": 7})
    found = load_model(path)
    assert found.fingerprint == made.fingerprint == fingerprint(found.model)
    assert type(found.model) is AGGREGATIONS[name]
    assert found.architecture == Architecture(f"{name} of lenet x3", 10, (1, 8, 8))
    assert found.details["seed"] == 7
    assert found.details["noise"]["sigma"] == 0.5
    assert found.details["ensemble"]["mixture"] == "gaussian x1 + macer x2"
    assert not any(module.training for module in found.model.modules())
    members = [load(one).model for one in checkpoints]
    x = torch.rand(20, 1, 8, 8)
    with torch.no_grad():
        assert torch.equal(found.model(x), AGGREGATIONS[name].of(members, **OPTIONS[name])(x))


def test_it_can_be_moved_with_its_members(checkpoints: list[Path], tmp_path: Path) -> None:
    (tmp_path / "a" / "nets").mkdir(parents=True)
    moved = [Path(shutil.copy(one, tmp_path / "a" / "nets")) for one in checkpoints]
    path = tmp_path / "a" / "ensemble.json"
    before = save(path, "soft-voting", moved).fingerprint
    assert [member["path"] for member in json.loads(path.read_text())["members"]] == [f"nets/{m.name}" for m in moved]
    (tmp_path / "a").rename(tmp_path / "b")
    assert load_model(tmp_path / "b" / "ensemble.json").fingerprint == before


def test_packaged_models_are_members_by_name(tmp_path: Path) -> None:
    """Wherever the package lies: no path into it is written."""
    names, path = [f"zoo:mnist-{sigma}" for sigma in ("0.25", "0.50")], tmp_path / "ensemble.json"
    made = save(path, "softmax-voting", names)
    assert [member["path"] for member in json.loads(path.read_text())["members"]] == names
    assert load_model(path).fingerprint == made.fingerprint
    save(tmp_path / "outer.json", "soft-voting", [path, "zoo:mnist-1.00"])
    assert len(load_model(tmp_path / "outer.json").model.members) == 2
    with pytest.raises(InputError, match=r"there is no packaged model 'nobody'"):
        save(tmp_path / "other.json", "soft-voting", ["zoo:nobody", "zoo:mnist-0.25"])


def test_several_models_vote_softly(checkpoints: list[Path], tmp_path: Path) -> None:
    save(tmp_path / "e.json", "soft-voting", checkpoints)
    together = load_model(checkpoints)
    assert isinstance(together.model, SoftVoting)
    assert together.fingerprint == load_model(tmp_path / "e.json").fingerprint
    assert (
        load_model(checkpoints[:1]).fingerprint
        == load(checkpoints[0]).fingerprint
        == load_model(str(checkpoints[0])).fingerprint
    )
    assert load_model(checkpoints[::-1]).fingerprint != together.fingerprint


def test_mirrored_is_a_member_beside_the_network_itself(checkpoints: list[Path], tmp_path: Path) -> None:
    mirrored = tmp_path / "mirrored.json"
    assert save(mirrored, "mirrored", checkpoints[:1]).details["noise"]["sigma"] == 0.5
    both = save(tmp_path / "both.json", "soft-voting", [checkpoints[0], mirrored])
    found, x = load_model(tmp_path / "both.json"), torch.rand(3, 1, 8, 8)
    assert found.fingerprint == both.fingerprint
    with torch.no_grad():
        assert torch.allclose(
            found.model(x), (load(checkpoints[0]).model(x) + found.model.members[1](x)) / 2, atol=1e-6
        )
        assert torch.equal(found.model.members[1](x), load(checkpoints[0]).model(x.flip(-1)))


def test_a_table_has_no_mirror_image() -> None:
    table = Checkpoint(nn.Linear(5, 2), Signature("flat", 2, (5,)), {}, "0" * 64)
    with pytest.raises(InputError, match=r"only images have a mirror image, but a takes inputs of shape \(5,\)"):
        together([table], [Path("a")], "mirrored", {})


def test_denoised_and_nested(checkpoints: list[Path], tmp_path: Path) -> None:
    """One classifier, two denoisers: denoised ensembles are members of a voting one."""
    nets = []
    for seed in range(2):
        spec = Architecture("dncnn", 0, (1, 8, 8))
        denoiser = tmp_path / f"denoiser{seed}.safetensors"
        save_checkpoint(denoiser, build(spec, seed=seed), spec, {"noise": Gaussian(0.25).describe()})
        nets.append(tmp_path / f"denoised{seed}.json")
        made = save(nets[-1], "denoised", [denoiser, checkpoints[0]], details={"held_out": [f"id{seed}"]})
        assert made.architecture.num_classes == 10
        assert made.details["noise"]["sigma"] == 0.25, "of the denoiser: the classifier may know nothing of noise"
    whole = save(tmp_path / "both.json", "soft-voting", nets)
    found = load_model(tmp_path / "both.json")
    assert found.fingerprint == whole.fingerprint
    assert found.details["held_out"] == ["id0", "id1"], "what members were chosen on counts for the whole"
    own = tmp_path / "own.json"
    assert save(own, "soft-voting", nets, details={"held_out": ["id2"]}).details["held_out"] == ["id0", "id1", "id2"]
    assert load_model(own).details["held_out"] == ["id0", "id1", "id2"], "beside its own"
    with torch.no_grad():
        x, (first, second) = torch.rand(3, 1, 8, 8), found.model.members
        classifier = load(checkpoints[0]).model
        mean = (classifier(first.members[0](x)) + classifier(second.members[0](x))) / 2
        assert torch.allclose(found.model(x), mean, atol=1e-6)


def test_a_changed_member_is_refused_by_name(checkpoints: list[Path], tmp_path: Path) -> None:
    copies = [Path(shutil.copy(one, tmp_path)) for one in checkpoints]
    path = tmp_path / "ensemble.json"
    save(path, "soft-voting", copies)
    shutil.copy(checkpoints[0], copies[1])
    with pytest.raises(InputError, match=r"net1.safetensors was changed since .*ensemble.json was written"):
        load_model(path)
    copies[1].unlink()
    with pytest.raises(InputError, match=r"net1.safetensors does not exist"):
        load_model(path)


def test_any_changed_byte_is_refused(checkpoints: list[Path], tmp_path: Path) -> None:
    """A weight of .5 made .6 would be another classifier under the same name."""
    path = tmp_path / "ensemble.json"
    save(path, "soft-voting", checkpoints, {"weights": [0.5, 0.25, 0.25]}, {"note": "Größe", "digest": "0" * 64})
    whole = path.read_bytes()
    load_model(path)
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(InputError):
            load_model(path)
    path.write_bytes(whole.replace(b"0.25", b"0.35", 1))
    with pytest.raises(InputError, match="is damaged or was edited: it is not as it was written; make the ensemble"):
        load_model(path)


def sealed(content: dict[str, Any]) -> str:
    """As if all were well."""
    return seal(json.dumps(content | {"digest": BLANK}, indent=2).encode(), b'{\n  "digest": "').decode()


def test_refusals_leave_nothing(checkpoints: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    small = Architecture("lenet", 4, (1, 8, 8))
    save_checkpoint(other, build(small, seed=0), small, {})
    large = Architecture("lenet", 10, (1, 12, 12))
    big = tmp_path / "big.safetensors"
    save_checkpoint(big, build(large, seed=0), large, {})
    path = tmp_path / "new.json"
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((path, "soft-voting", [*checkpoints, other]), "members must answer for the same classes, but .*net0"),
        ((path, "soft-voting", [*checkpoints, big]), "members must take the same inputs"),
        ((path, "boosting", checkpoints), "there is no aggregation 'boosting': the names are consensus, .*"),
        ((path, "consensus", checkpoints, {"k": 9}), "k must be a whole number"),
        ((path, "hard-voting", checkpoints, {"weights": [1, 1, 1]}), "hard-voting cannot be made with the options"),
        ((path, "soft-voting", []), "members of soft-voting must be at least 1"),
        ((path, "denoised", checkpoints), "the denoiser and the classifier, got 3"),
        ((tmp_path / "new.safetensors", "soft-voting", checkpoints), "must end in .json"),
        ((tmp_path / "no" / "new.json", "soft-voting", checkpoints), "does not exist; create it"),
    ]
    for arguments, words in cases:
        with pytest.raises(InputError, match=words):
            save(*arguments)
    assert not path.exists()
    save(path, "soft-voting", checkpoints)
    with pytest.raises(InputError, match="cannot be a member of itself"):
        save(path, "soft-voting", [*checkpoints, path])
    good = json.loads(path.read_text())
    for content, words in [
        ("{", "is not an ensemble file: it is no JSON"),
        ("[]", "has ensemble format None"),
        (sealed(good | {"format": 99}), "has ensemble format 99, but this version reads 2"),
        (sealed(good | {"format": 1}), "has ensemble format 1, but this version reads 2"),
        (sealed({k: v for k, v in good.items() if k != "members"}), "is not a whole ensemble file"),
        (sealed(good | {"members": [{"path": path.name, "fingerprint": ""}]}), "is a member of itself"),
        (sealed(good | {"members": [3]}), "is not a whole ensemble file"),
        (sealed(good | {"options": {"weights": [1]}}), "weights must be one per member, got 1"),
        (sealed(good | {"options": {"weights": "abc"}}), "weights|options"),
        (json.dumps(good, indent=2) + " ", "is damaged or was edited"),
    ]:
        path.write_text(content)
        with pytest.raises(InputError, match=words):
            load_model(path)
    with pytest.raises(InputError, match=r"the ensemble .* does not exist"):
        load_model(tmp_path / "none.json")
    with pytest.raises(InputError, match="at least one --model"):
        load_model([])
