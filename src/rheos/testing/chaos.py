"""Faults for the real processes of a running job, its servers and their links: see `rheos chaos`.

```python
from rheos.testing import chaos

command = ["rheos", "run", "job.py"]
plan = chaos.Plan(command, kill_every_s=5, for_s=60, progress=chaos.newest_checkpoint)
assert chaos.run(plan, log=print).ok
```
"""

from rheos.ops.chaos import Fault, Plan, Report, Strike, newest_checkpoint, run
from rheos.ops.chaos.faulty_proxy import FaultyProxy, LinkFault

__all__ = [
    "Fault",
    "FaultyProxy",
    "LinkFault",
    "Plan",
    "Report",
    "Strike",
    "newest_checkpoint",
    "run",
]
