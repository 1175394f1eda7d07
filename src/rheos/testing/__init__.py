"""For tests of programs: run one in simulation, with faults, and look at what it committed; or replay
one operator in all the ways that must make no difference; or hold a connector of your own to its
contract (`check_source`, `check_sink`).

```python
from rheos import testing

done = testing.simulate(build, seed=7, parallelism=3)
assert sorted(done.out["n"].to_pylist()) == [1, 2, 3]
```
"""

from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.invariants import InvariantError
from rheos.runtimes.simulated.requests import Requests
from rheos.testing.connector_kit import BrokenRuleError, check_sink, check_source
from rheos.testing.harness import OperatorExample, ReplayMode, check_example, replay
from rheos.testing.lookup import MemoryLookup
from rheos.testing.memory import MemorySink, MemoryTable
from rheos.testing.simulation import Simulated, Taken, simulate

__all__ = [
    "BrokenRuleError",
    "Faults",
    "InvariantError",
    "MemoryLookup",
    "MemorySink",
    "MemoryTable",
    "OperatorExample",
    "ReplayMode",
    "Requests",
    "Simulated",
    "Taken",
    "check_example",
    "check_sink",
    "check_source",
    "replay",
    "simulate",
]
