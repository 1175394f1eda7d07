"""Faults for the real processes of a running job: what `rheos chaos` runs."""

from rheos.ops.chaos.plan import Fault, Plan, Report, Strike
from rheos.ops.chaos.progress import newest_checkpoint
from rheos.ops.chaos.runner import run

__all__ = ["Fault", "Plan", "Report", "Strike", "newest_checkpoint", "run"]
