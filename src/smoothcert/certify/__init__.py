"""How many draws, when to stop, what may be claimed. Procedures are conversations; no torch, no model in sight."""

from smoothcert.certify.certificate import ABSTAIN, Certificate, Prediction, Scope
from smoothcert.certify.conversation import Ask, Conversation, Geometry, Procedure, converse
from smoothcert.certify.fixed import Fixed
from smoothcert.certify.predict import Predict

PROCEDURES: dict[str, type[Procedure]] = {procedure.name: procedure for procedure in (Fixed,)}

__all__ = [
    "ABSTAIN",
    "PROCEDURES",
    "Ask",
    "Certificate",
    "Conversation",
    "Fixed",
    "Geometry",
    "Predict",
    "Prediction",
    "Procedure",
    "Scope",
    "converse",
]
