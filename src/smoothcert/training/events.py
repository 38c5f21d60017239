"""What TensorBoard shows of a training, where it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from smoothcert.training.state import Epoch


def write_events(folder: Path, epoch: Epoch, *, new: bool) -> None:
    """Add what an epoch gave to the events in the folder; nothing without TensorBoard, or of an epoch told again."""
    if not new or find_spec("tensorboard") is None:
        return
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 (importing it takes a second)

    values = {"loss": epoch.loss, "lr": epoch.lr, "seconds": epoch.seconds}
    values |= {f"terms/{name}": value for name, value in epoch.terms.items()}
    if epoch.accuracy is not None:
        values["accuracy under noise"] = epoch.accuracy
    with SummaryWriter(str(folder)) as writer:
        for name, value in values.items():
            writer.add_scalar(name, value, epoch.number)
