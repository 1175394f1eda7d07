"""For tests of programs: run one in simulation, with faults, and look at what it committed; or replay
one operator in all the ways that must make no difference.

```python
from rheos import testing

done = testing.simulate(build, seed=7, parallelism=3)
assert sorted(done.out["n"].to_pylist()) == [1, 2, 3]
```
"""

from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.invariants import InvariantError
from rheos.runtimes.simulated.requests import Requests
from rheos.testing.harness import OperatorExample, ReplayMode, check_example, replay
from rheos.testing.memory import MemorySink, MemoryTable
from rheos.testing.simulation import Simulated, Taken, simulate

__all__ = [
    "Faults",
    "InvariantError",
    "MemorySink",
    "MemoryTable",
    "OperatorExample",
    "ReplayMode",
    "Requests",
    "Simulated",
    "Taken",
    "check_example",
    "replay",
    "simulate",
]
