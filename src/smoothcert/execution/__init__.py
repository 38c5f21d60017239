"""Where the work runs: this machine."""

from smoothcert.execution.local import certify_into, run_config

__all__ = ["certify_into", "run_config"]
