"""How many draws, when to stop, what may be claimed. Procedures are conversations; no torch, no model in sight."""

from smoothcert.procedures.budgeted import Budgeted
from smoothcert.procedures.certificate import ABSTAIN, Certificate, Decision, FromDraws, Prediction, Scope
from smoothcert.procedures.conversation import Ask, Conversation, Geometry, Procedure, answered, converse
from smoothcert.procedures.fixed import Fixed
from smoothcert.procedures.predict import Predict
from smoothcert.procedures.registry import PROCEDURES, described_procedure
from smoothcert.procedures.sequential import Sequential
from smoothcert.procedures.staged import Staged

__all__ = [
    "ABSTAIN",
    "PROCEDURES",
    "Ask",
    "Budgeted",
    "Certificate",
    "Conversation",
    "Decision",
    "Fixed",
    "FromDraws",
    "Geometry",
    "Predict",
    "Prediction",
    "Procedure",
    "Scope",
    "Sequential",
    "Staged",
    "answered",
    "converse",
    "described_procedure",
]
