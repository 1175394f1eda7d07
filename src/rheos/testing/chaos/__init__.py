"""Strikes at the real processes of a job, while it runs: what `rheos chaos` does.

```python
from rheos.testing import chaos

report = chaos.run(chaos.Plan(["rheos", "run", "job.py"], kill_every_s=5, for_s=60), log=print)
assert report.ok
```
"""

from rheos.testing.chaos.plan import Fault, Plan, Report, Strike
from rheos.testing.chaos.runner import run

__all__ = ["Fault", "Plan", "Report", "Strike", "run"]
