"""Tests of programs (docs/testing.md): check one against a timeline in text form (`check_timeline`), or
step it by hand (`Harness`); run one in simulation, with faults, under many seeds (`simulate`); replay
one operator in many ways that must not change its result (`check_example`). For your own connectors:
check one against its contract (`check_source`, `check_sink`).

```python
from rheos import testing

testing.simulate(build, seeds=20, expected=[{"n": 1}, {"n": 2}, {"n": 3}])
```
"""

import typing as _typing

from rheos.core.lazy_exports import exported as _exported

if _typing.TYPE_CHECKING:
    from rheos.testing.exports import *  # noqa: F403
    from rheos.testing.exports import __all__ as __all__
else:

    def __getattr__(name: str) -> _typing.Any:
        """Import the kit at the first use of a name of it: pytest imports this package in every run."""
        return _exported("rheos.testing.exports", globals(), name)
