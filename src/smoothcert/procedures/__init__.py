"""How many draws, when to stop, what may be claimed. Procedures are conversations; no torch, no model in sight."""

from smoothcert.core.registry import import_all
from smoothcert.procedures.budgeted import Budgeted
from smoothcert.procedures.certificate import Certificate, Decision, Prediction, Scope
from smoothcert.procedures.certificates import Certificates
from smoothcert.procedures.conversation import (
    BOUND,
    CHOOSE,
    PROCEDURES,
    Ask,
    Conversation,
    Geometry,
    Procedure,
    answered,
    check_draws,
    check_level,
    converse,
)
from smoothcert.procedures.evaluate import Evaluate
from smoothcert.procedures.fixed import Fixed, FixedDraws
from smoothcert.procedures.from_draws import ABSTAIN, FromDraws
from smoothcert.procedures.predict import Predict
from smoothcert.procedures.sequential import Sequential
from smoothcert.procedures.staged import Staged

__all__ = [
    "ABSTAIN",
    "BOUND",
    "CHOOSE",
    "PROCEDURES",
    "Ask",
    "Budgeted",
    "Certificate",
    "Certificates",
    "Conversation",
    "Decision",
    "Evaluate",
    "Fixed",
    "FixedDraws",
    "FromDraws",
    "Geometry",
    "Predict",
    "Prediction",
    "Procedure",
    "Scope",
    "Sequential",
    "Staged",
    "answered",
    "check_draws",
    "check_level",
    "converse",
]

import_all(__name__, __path__)
