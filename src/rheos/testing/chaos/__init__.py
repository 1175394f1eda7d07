"""Strikes at the real processes of a job, while it runs: what `rheos chaos` does.

```python
from rheos.testing import chaos

command = ["rheos", "run", "job.py"]
plan = chaos.Plan(command, kill_every_s=5, for_s=60, progress=chaos.newest_checkpoint)
assert chaos.run(plan, log=print).ok
```
"""

from rheos.testing.chaos.plan import Fault, Plan, Report, Strike
from rheos.testing.chaos.progress import newest_checkpoint
from rheos.testing.chaos.runner import run

__all__ = ["Fault", "Plan", "Report", "Strike", "newest_checkpoint", "run"]
