"""Where the work runs: this machine."""

from smoothcert.execution.adversaries import Strength
from smoothcert.execution.attack import Siege, refuse_scopes
from smoothcert.execution.audit import Redrawn, draw_fresh, pick, redraw
from smoothcert.execution.certified import certified, check_data, refuse_soft, run_otherwise
from smoothcert.execution.local import certify_into, run_config
from smoothcert.execution.remembered import check_memory, recall

__all__ = [
    "Redrawn",
    "Siege",
    "Strength",
    "certified",
    "certify_into",
    "check_data",
    "check_memory",
    "draw_fresh",
    "pick",
    "recall",
    "redraw",
    "refuse_scopes",
    "refuse_soft",
    "run_config",
    "run_otherwise",
]
