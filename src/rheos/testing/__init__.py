"""For tests of programs: run one in simulation, with faults, and look at what it committed.

```python
from rheos import testing

done = testing.simulate(build, seed=7, parallelism=3)
assert sorted(done.out["n"].to_pylist()) == [1, 2, 3]
```
"""

from rheos.runtimes.simulated.faults import Faults
from rheos.testing.memory import MemorySink, MemoryTable
from rheos.testing.simulation import InvariantError, Simulated, simulate

__all__ = [
    "Faults",
    "InvariantError",
    "MemorySink",
    "MemoryTable",
    "Simulated",
    "simulate",
]
