"""Names that `rheos.testing` exports."""

from rheos.runtimes.simulated.faults import Faults, Requests
from rheos.runtimes.simulated.invariants import InvariantError
from rheos.testing.connector_kit import BrokenRuleError, check_sink, check_source
from rheos.testing.harness import OperatorExample, ReplayMode, Right, check_example, replay
from rheos.testing.incidents import check_incident
from rheos.testing.lookup import MemoryLookup
from rheos.testing.memory import MemorySink, MemoryTable
from rheos.testing.program_harness import Harness
from rheos.testing.simulation import Simulated, Taken, simulate
from rheos.testing.timeline import check_timeline

__all__ = [
    "BrokenRuleError",
    "Faults",
    "Harness",
    "InvariantError",
    "MemoryLookup",
    "MemorySink",
    "MemoryTable",
    "OperatorExample",
    "ReplayMode",
    "Requests",
    "Right",
    "Simulated",
    "Taken",
    "check_example",
    "check_incident",
    "check_sink",
    "check_source",
    "check_timeline",
    "replay",
    "simulate",
]
