"""Training: the only loop."""

from smoothcert.training.loop import Epoch, train

__all__ = ["Epoch", "train"]
