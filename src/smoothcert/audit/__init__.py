"""Whether a run holds: from its votes, from its model, from fresh draws, from its memory."""

from smoothcert.audit.claims import Audit, audit_run

__all__ = ["Audit", "audit_run"]
