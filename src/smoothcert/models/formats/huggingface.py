"""Image classifiers of Hugging Face transformers: a folder with config.json and model.safetensors."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.models.fingerprint import fingerprint
from smoothcert.models.foreign import Foreign
from smoothcert.models.formats.checkpoint import Checkpoint, Signature
from smoothcert.models.formats.reading import check_device
from smoothcert.models.formats.registry import FORMATS, Format

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_PASSING = {"_name_or_path", "transformers_version", "_attn_implementation", "_commit_hash", "torch_dtype", "dtype"}


class ImageClassifier(Foreign):
    """The logits of a transformers model: its configuration and weights. Their code counts by name, like torch's."""

    def __init__(self, network: nn.Module, configuration: str, *, takes: torch.dtype) -> None:
        super().__init__(takes=takes)
        self.network, self.configuration = network, configuration

    def identity(self) -> Any:
        """Class and configuration."""
        return type(self.network).__module__, type(self.network).__qualname__, self.configuration

    def scores(self, x: Tensor) -> Tensor:
        """The logits."""
        answer = self.network(pixel_values=x)
        logits: Tensor = answer.logits
        return logits


def load(path: Path, device: str | torch.device = "cpu") -> Checkpoint:
    """Read a folder that `save_pretrained` wrote. Nothing is downloaded, unpickled, or run that came with it.

    Its image processor is not: inputs are raw pixels in [0, 1], and what it normalises must be put inside
    (`smoothcert model info --data`).
    """
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        kind, auto = config.get("model_type"), config.get("auto_map")
    except (OSError, ValueError, AttributeError, RecursionError):
        raise InputError(f"{path / 'config.json'} is not a Hugging Face configuration; save the model again") from None
    if auto:
        raise InputError(
            f"{path} needs code of its own (auto_map), which is not run; build it in Python: my_models.py:net"
        )
    if not any((path / name).is_file() for name in WEIGHTS):
        raise InputError(
            f"{path} has no model.safetensors (pickled weights are never read); save it with save_pretrained"
        )
    if find_spec("transformers") is None:
        raise InputError(f"reading {path} needs transformers; pip install 'smoothcert[huggingface]'")
    from transformers import AutoModelForImageClassification  # noqa: PLC0415 (an extra)

    _be_quiet()
    try:
        network, report = AutoModelForImageClassification.from_pretrained(
            path, local_files_only=True, trust_remote_code=False, use_safetensors=True, output_loading_info=True
        )
    except Exception as error:  # of a library that raises what it likes
        said = " ".join(str(error).split())[:160]
        raise InputError(f"transformers cannot read {path} as an image classifier of kind {kind!r} ({said})") from error
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])[0]
        raise InputError(f"{path} lacks weights, such as {missing}, which would be random; save the whole model again")
    takes = next((p.dtype for p in network.parameters() if p.is_floating_point()), torch.float32)
    told = {key: value for key, value in network.config.to_dict().items() if key not in _PASSING}
    model = ImageClassifier(network, json.dumps(told, sort_keys=True, default=str), takes=takes)
    model = model.to(check_device(device)).eval()
    names = [str(network.config.id2label[i]) for i in range(network.config.num_labels)]
    signature = Signature(f"huggingface:{type(network).__name__}", network.config.num_labels, _shape(network.config))
    return Checkpoint(model, signature, {"class_names": names}, fingerprint(model))


def _shape(config: Any) -> tuple[int, ...] | None:
    with suppress(AttributeError, TypeError):
        size = config.image_size
        height, width = size if isinstance(size, tuple | list) else (size, size)
        return int(config.num_channels), int(height), int(width)
    return None


def _be_quiet() -> None:
    """Its bars and reports are not for the readers of ours."""
    from transformers.utils import logging as their_logging  # noqa: PLC0415 (an extra)

    their_logging.set_verbosity(logging.ERROR)
    with suppress(AttributeError):
        their_logging.disable_progress_bar()


FORMATS.add(Format("a Hugging Face folder", lambda path: (path / "config.json").is_file(), load), "huggingface")
