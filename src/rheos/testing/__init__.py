"""Tests of programs (docs/testing.md): check one against a timeline in text form (`check_timeline`), or
step it by hand (`Harness`); run one in simulation, with faults, under many seeds (`simulate`); replay
one operator in many ways that must not change its result (`check_example`). For your own connectors:
check one against its contract (`check_source`, `check_sink`).

```python
from rheos import testing

testing.simulate(build, seeds=20, expected=[{"n": 1}, {"n": 2}, {"n": 3}])
```
"""

import importlib as _importlib
import typing as _typing
from importlib.util import find_spec as _find_spec

if _typing.TYPE_CHECKING:
    from rheos.testing.exports import *  # noqa: F403
    from rheos.testing.exports import __all__ as __all__
else:

    def __getattr__(name: str) -> _typing.Any:
        """Import the kit at the first use of a name of it: pytest imports this package in every run."""
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        if _find_spec(f"rheos.testing.{name}"):
            return _importlib.import_module(f"rheos.testing.{name}")
        kit = _importlib.import_module("rheos.testing.exports")
        globals().update({each: getattr(kit, each) for each in (*kit.__all__, "__all__")})
        if name not in globals():
            raise AttributeError(f"module 'rheos.testing' has no attribute {name!r}")
        return globals()[name]
