"""Pickles objects for other processes. Definitions of the script (`__main__`) are pickled by value.

The pickler is PySpark's (`pyspark.cloudpickle`), which its workers have, too. Its files need nothing of
PySpark, so they are loaded alone if PySpark was not imported. So a simulated job, which sends
nothing, finds out within milliseconds whether its program can be pickled.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import io
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from rheos.core.connectors import sink_capabilities
from rheos.core.errors import ProgramError
from rheos.core.operators.sink import SinkSpec
from rheos.core.plan.physical import PlannedOperator
from rheos.core.safe_strings import message_of

_CLOUDPICKLE = "pyspark.cloudpickle"
_PICKLER = "cloudpickle_fast"
"""The module that has `CloudPickler` in all versions of PySpark."""
_BY_ITSELF = "rheos.runtimes.host._cloudpickle"
_MSGSPEC_NOTES = "__msgspec_cache__"
_FIELD: Any = vars(dataclasses)["_FIELD"]


def pack(value: Any, operators: Iterable[PlannedOperator] = ()) -> bytes:
    """Return the value pickled for a worker. Raise ProgramError if something cannot be pickled, with
    the line of the operator if it is one of `operators`."""
    try:
        return _dumped(value)
    except ProgramError:
        check(operators)
        raise


def check(operators: Iterable[PlannedOperator]) -> None:
    """Raise ProgramError, with the operator's line, if an operator cannot be sent to a worker."""
    for planned in operators:
        spec = planned.spec
        if isinstance(spec, SinkSpec) and sink_capabilities.stays_in_process(spec.sink):
            continue
        try:
            _dumped(spec)
        except ProgramError as error:
            raise error.located(site=planned.site, operator=planned.name) from error.__cause__


def _dumped(value: Any) -> bytes:
    out = io.BytesIO()
    try:
        _pickler()(out).dump(value)
    except Exception as error:
        raise ProgramError(
            f"the program cannot be sent to the workers: {message_of(error)}",
            hint="functions are sent with everything that they refer to, but locks, files and "
            "connections cannot be sent: create these in open()",
        ) from error
    return out.getvalue()


def _pickler() -> type[Any]:
    cloudpickle = _cloudpickle()
    found: type[Any] | None = vars(cloudpickle).get("_RheosPickler")
    if found is not None:
        return found

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[name-defined,misc]
        """Omit what msgspec adds to a record class when it first encodes one in this process. That
        object cannot be pickled, and msgspec creates it again where it is missing. Pickle the markers
        by which `dataclasses.fields` finds fields by name: the cloudpickle of Spark 3.5 copies them."""

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, type) and _MSGSPEC_NOTES in vars(obj):
                delattr(obj, _MSGSPEC_NOTES)
            if isinstance(obj, type(_FIELD)):
                return getattr, (dataclasses, obj.name)
            return super().reducer_override(obj)

    vars(cloudpickle)["_RheosPickler"] = Pickler
    return Pickler


def _cloudpickle() -> ModuleType:
    """Return PySpark's own module if PySpark is imported: workers can read only its pickles."""
    if "pyspark" in sys.modules:
        return importlib.import_module(f"{_CLOUDPICKLE}.{_PICKLER}")
    if _BY_ITSELF not in sys.modules:
        package = importlib.util.find_spec("pyspark")
        assert package is not None, "Rheos requires PySpark"
        assert package.origin is not None
        # A package without an __init__, which would import PySpark.
        alone = ModuleType(_BY_ITSELF)
        alone.__path__ = [str(Path(package.origin).parent / "cloudpickle")]
        sys.modules[_BY_ITSELF] = alone
    return importlib.import_module(f"{_BY_ITSELF}.{_PICKLER}")
