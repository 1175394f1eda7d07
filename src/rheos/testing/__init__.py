"""For tests of programs (docs/testing.md): hold one to a timeline that is written as text
(`check_timeline`), or step it by hand (`Harness`); run one in simulation, with faults, under many seeds
(`simulate`); replay one operator in all the ways that must make no difference (`check_example`). And
for connectors of your own: hold one to its contract (`check_source`, `check_sink`).

```python
from rheos import testing

testing.simulate(build, seeds=20, expected=[{"n": 1}, {"n": 2}, {"n": 3}])
```
"""

from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.invariants import InvariantError
from rheos.runtimes.simulated.requests import Requests
from rheos.testing.connector_kit import BrokenRuleError, check_sink, check_source
from rheos.testing.harness import OperatorExample, ReplayMode, Right, check_example, replay
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
    "check_sink",
    "check_source",
    "check_timeline",
    "replay",
    "simulate",
]
