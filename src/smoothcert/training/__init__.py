"""Training: the only loop, what it can be resumed from, and what it may be told."""

from smoothcert.training.augment import Augment
from smoothcert.training.discard import Discard
from smoothcert.training.ds2 import DS2
from smoothcert.training.folder import Folder
from smoothcert.training.group import Group, launched
from smoothcert.training.loop import run, train
from smoothcert.training.muon import Muon
from smoothcert.training.schedules import SCHEDULES, Constant, Cosine, OneCycle, Schedule, Step
from smoothcert.training.session import Session
from smoothcert.training.settings import Settings
from smoothcert.training.state import Epoch
from smoothcert.training.validation import hold_out, noisy_accuracy

__all__ = [
    "DS2",
    "SCHEDULES",
    "Augment",
    "Constant",
    "Cosine",
    "Discard",
    "Epoch",
    "Folder",
    "Group",
    "Muon",
    "OneCycle",
    "Schedule",
    "Session",
    "Settings",
    "Step",
    "hold_out",
    "launched",
    "noisy_accuracy",
    "run",
    "train",
]
