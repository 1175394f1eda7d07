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

from rheos.core.lazy_exports import exported as _exported
from rheos.core.moved_names import find_moved_modules as _find_moved_modules
from rheos.core.version import VERSION

if _typing.TYPE_CHECKING:
    from rheos.api.exports import *  # noqa: F403
    from rheos.api.exports import __all__ as __all__

__version__ = VERSION
_find_moved_modules()


if not _typing.TYPE_CHECKING:  # Else a name that is not there would pass for one.

    def __getattr__(name: str) -> _typing.Any:
        """Import the API with the first name of it that is used, and connectors of other distributions
        when one of them is.

        The command line starts slower things before it uses the API, and workers need only parts of it.
        """
        try:
            return _exported("rheos.api.exports", globals(), name)
        except AttributeError as error:
            missing = error
        if name.startswith("_"):
            raise missing
        connectors = _importlib.import_module("rheos.connectors.registration").CONNECTORS
        connector = None if name in connectors.built_in else connectors.find(name)
        unknown_names = _importlib.import_module("rheos.core.unknown_names")
        if connector is None:
            raise unknown_names.missing_export("rheos", name, __dir__()) from missing
        return unknown_names.with_hints(name, connectors.imported(connector, connector.module))

    def __dir__() -> list[str]:
        connectors = _importlib.import_module("rheos.connectors.registration").CONNECTORS
        return sorted({*globals(), *__getattr__("__all__"), *connectors.plug_in_names()})
