"""How many draws, when to stop, what may be claimed. Procedures are conversations; no torch, no model in sight."""

from smoothcert.certify.budgeted import Budgeted
from smoothcert.certify.certificate import ABSTAIN, Certificate, Decision, Own, Prediction, Scope
from smoothcert.certify.conversation import Ask, Conversation, Geometry, Procedure, answered, converse
from smoothcert.certify.fixed import Fixed
from smoothcert.certify.predict import Predict
from smoothcert.certify.registry import PROCEDURES, described_procedure
from smoothcert.certify.sequential import Sequential
from smoothcert.certify.staged import Staged

__all__ = [
    "ABSTAIN",
    "PROCEDURES",
    "Ask",
    "Budgeted",
    "Certificate",
    "Conversation",
    "Decision",
    "Fixed",
    "Geometry",
    "Own",
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
