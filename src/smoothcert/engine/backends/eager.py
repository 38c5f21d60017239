"""torch as it is, with the two things that cost nothing: batch-norm folded, and the layout that the kernels like."""

from __future__ import annotations

import copy
from collections import Counter

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from smoothcert.core.freed_memory import keep_freed_memory
from smoothcert.engine.backends.base import BackendTask, Executable, Padded, backend, require_agreement

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
ANY_SIZES = 16
"""Numbers of rows that a module is run in at most: each costs nothing but the look whether it gives the same scores."""


@backend("eager")
def prepare(task: BackendTask) -> Executable:
    """A module with batch-norm folded where that can be checked; a function as it is."""
    description = {"name": "eager", "precision": task.precision, "version": torch.__version__, "folded": False}
    model = task.model
    if task.device.type == "cpu":
        keep_freed_memory()
    if not isinstance(model, nn.Module):
        return Executable(lambda: model, description)
    folded = folded_or_none(task)
    chosen = arranged(model if folded is None else folded)

    def new_runner() -> Padded | nn.Module:
        own = copy.deepcopy(chosen)  # a module may keep something on itself while it runs
        return Padded(own, task.rows, lambda _: own) if task.device.type == "cpu" else own

    return Executable(new_runner, description | {"folded": folded is not None}, sizes=ANY_SIZES)


def folded_or_none(task: BackendTask) -> nn.Module | None:
    """The model with batch-norm folded, if there is one, and if scores on noisy inputs stay the same within rounding.

    A model without a fingerprint (hooks, TorchScript) is left as it is: tracing might lose what it does besides.
    """
    if not isinstance(task.model, nn.Module) or task.fingerprint is None:
        return None
    folded = fold(task.model)
    if folded is None:
        return None
    try:
        require_agreement(task, folded)
    except Exception:  # scores apart, or whatever a model raises on inputs that are not its own
        return None
    return folded


def fold(model: nn.Module) -> fx.GraphModule | None:
    """Multiply every batch-norm that follows a convolution or linear layer, and it alone, into the weights before it.

    In evaluation mode batch-norm is the affine map (y - mean) / sqrt(var + eps) * gamma + beta. None if there is
    nothing to fold, or if torch.fx cannot follow the model. The model itself is not touched.
    """
    if not any(isinstance(module, _NORMS) for module in model.modules()):
        return None
    try:
        traced = fx.symbolic_trace(copy.deepcopy(model))
    except Exception:  # torch.fx runs the model's own code, with things that are no tensors
        return None
    modules = dict(traced.named_modules())
    calls = Counter(node.target for node in traced.graph.nodes if node.op == "call_module")
    folded = 0
    for node in list(traced.graph.nodes):
        norm = modules.get(node.target) if node.op == "call_module" else None
        before = node.args[0] if node.args else None
        if not isinstance(norm, _NORMS) or norm.running_mean is None or not isinstance(before, fx.Node):
            continue
        if before.op != "call_module" or len(before.users) > 1 or calls[before.target] > 1:
            continue  # somebody else uses the layer, or what comes out of it
        name = str(before.target)
        layer = modules[name]
        # Exactly these: a parametrised layer computes its weights, and has a class of its own.
        if type(layer) in _CONVOLUTIONS:
            modules[name] = fuse_conv_bn_eval(layer, norm)
        elif type(layer) is nn.Linear:
            modules[name] = fuse_linear_bn_eval(layer, norm)
        else:
            continue
        traced.set_submodule(name, modules[name])
        node.replace_all_uses_with(before)
        traced.graph.erase_node(node)
        folded += 1
    traced.recompile()
    return traced.eval().requires_grad_(False) if folded else None


def arranged(model: nn.Module) -> nn.Module:
    """A copy with the weights of convolutions in channels-last order: no value changes, and a CPU is twice as fast."""
    private = copy.deepcopy(model)
    for parameter in private.parameters():
        if parameter.dim() == 4:
            parameter.data = channels_last(parameter.data)
    return private


def channels_last(x: Tensor) -> Tensor:
    """x (N, C, H, W) with strides (H*W*C, 1, W*C, C).

    With one channel both orders are the same in memory, torch leaves the strides as they are, and then reads them as
    channels-first; so they are written out.
    """
    _, c, h, w = x.shape
    return x.contiguous(memory_format=torch.channels_last).as_strided(x.shape, (h * w * c, 1, w * c, c))
