"""Any optimiser of torch: what identifies it, and its state as named tensors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.training.settings import Settings

OptimizerOf = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
"""Makes an optimiser of parameters: `lambda parameters: torch.optim.AdamW(parameters, lr=3e-4)`."""

_PER_RUN = {"params", "lr", "initial_lr", "fused", "foreach", "differentiable", "capturable"}  # not what is computed


def sgd(settings: Settings, device: torch.device) -> OptimizerOf:
    """What is taken unless another one is given."""
    return lambda parameters: torch.optim.SGD(
        parameters,
        lr=settings.lr,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        nesterov=settings.nesterov,
        fused=device.type in ("cpu", "cuda"),
    )


def made(optimizer: OptimizerOf, model: nn.Module) -> torch.optim.Optimizer:
    """The optimiser of the model's parameters; refused if it is none, or leaves some of them out."""
    made = optimizer(list(model.parameters()))
    if not isinstance(made, torch.optim.Optimizer):
        raise InputError(
            "optimizer must make an optimiser of torch from parameters, as in "
            f"lambda parameters: torch.optim.AdamW(parameters, lr=3e-4), got {type(made).__name__}"
        )
    has = {id(parameter) for group in made.param_groups for parameter in group["params"]}
    if not has >= {id(parameter) for parameter in model.parameters() if parameter.requires_grad}:
        raise InputError("optimizer must be made of all the parameters it is given")
    return made


def describe(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What decides its steps, JSON-able: its class, and the options of each group of parameters."""
    groups = [
        {name: _plain(value) for name, value in group.items() if name not in _PER_RUN} | {"lr": float(group["lr"])}
        for group in optimizer.param_groups
    ]
    return {"name": type(optimizer).__qualname__, "groups": groups}


def tensors_of(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Its state, by parameter and kind: "momentum_buffer/conv.weight". Numbers become tensors without a dimension."""
    found = {}
    for name, parameter in model.named_parameters():
        for kind, value in optimizer.state.get(parameter, {}).items():
            if value is None:
                continue
            if not isinstance(value, Tensor | int | float):
                raise InputError(
                    f"the state of {type(optimizer).__name__} holds a {type(value).__name__} ({kind}), which cannot be "
                    "kept; take another optimiser, or train without a state file"
                )
            found[f"{kind}/{name}"] = value if isinstance(value, Tensor) else torch.tensor(value)
    return found


def restore(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put the optimiser where `tensors_of` found it."""
    for key, value in tensors.items():
        kind, _, name = key.partition("/")
        parameter = model.get_parameter(name)
        kept = value
        if value.shape == parameter.shape:  # in the parameter's own layout, which fused optimisers expect
            kept = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)
        optimizer.state[parameter][kind] = kept


def _plain(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return repr(value)
