"""Rheos: Flink's execution model in Python, on the Spark you already have.

```python
import rheos as rh
from rheos import col

env = rh.Environment(parallelism=2)
events = env.from_source(
    rh.files.source("logs/*.jsonl", schema=LogEvent),
    watermark=rh.Watermark.bounded_out_of_orderness("5s", on="accessed_at"))
(events.filter(col("status") < 400)
       .key_by("country")
       .window(rh.Sliding("5m", every="1m"))
       .aggregate(hits=rh.agg.count())
       .sink_to(rh.files.sink("out/")))
env.execute("hits per country")
```
"""

import importlib as _importlib
import typing as _typing
from importlib.util import find_spec as _find_spec

from rheos.core.moved_names import find_moved_modules as _find_moved_modules
from rheos.core.version import VERSION

if _typing.TYPE_CHECKING:
    from rheos.exports import *  # noqa: F403
    from rheos.exports import __all__ as __all__

__version__ = VERSION
_find_moved_modules()


if not _typing.TYPE_CHECKING:  # Else a name that is not there would pass for one.

    def __getattr__(name: str) -> _typing.Any:
        """Import the API with the first name of it that is used, and connectors of other distributions
        when one of them is.

        The command line starts slower things before it uses the API, and workers need only parts of it.
        """
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        if _find_spec(f"rheos.{name}"):
            return _importlib.import_module(f"rheos.{name}")
        api = _importlib.import_module("rheos.exports")
        globals().update({each: getattr(api, each) for each in (*api.__all__, "__all__")})
        if name in globals():
            return globals()[name]
        connectors = _importlib.import_module("rheos.connectors.registration").CONNECTORS
        if not name.startswith("_") and name not in connectors.built_in:
            connector = connectors.find(name)
            if connector is not None:
                return connectors.imported(connector, connector.module)
        raise AttributeError(f"module 'rheos' has no attribute {name!r}")

    def __dir__() -> list[str]:
        connectors = _importlib.import_module("rheos.connectors.registration").CONNECTORS
        return sorted({*globals(), *__getattr__("__all__"), *connectors.plug_in_names()})
