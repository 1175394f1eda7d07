"""pandas, imported when something uses it, and not by the first Arrow array.

`pyarrow.array` imports pandas to see whether it was passed a Series. While nothing has imported pandas,
no such object exists, so this import only costs time: more than all others of a small program together.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextvars import ContextVar
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pyarrow as pa

_HIDDEN: ContextVar[bool] = ContextVar("_HIDDEN", default=False)


def postpone_pandas() -> None:
    """Let pyarrow work without pandas until something imports it. Called once, before any array."""
    arrow: Any = pa.lib
    if "pandas" in sys.modules or not hasattr(arrow, "_pandas_api"):
        return
    sys.meta_path.insert(0, _PandasFinder(arrow._pandas_api))
    token = _HIDDEN.set(True)
    try:
        pa.array([])  # It looks for pandas, does not find it, and remembers this.
    finally:
        _HIDDEN.reset(token)
    arrow._pandas_api = _PandasOnDemand()


class _PandasOnDemand:
    """Stand-in for the part of pyarrow that asks for pandas to convert nanoseconds and data frames."""

    def __getattr__(self, name: str) -> Any:
        import pandas as _  # noqa: F401

        return getattr(pa.lib._pandas_api, name)


class _PandasFinder:
    """Finds pandas as other finders do, and tells pyarrow of it once it is imported."""

    def __init__(self, api: Any) -> None:
        self._api = api

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "pandas":
            return None
        if _HIDDEN.get():
            raise ModuleNotFoundError("pandas is imported later", name=name)
        others = [finder for finder in sys.meta_path if finder is not self]
        spec = next(filter(None, (each.find_spec(name, path, target) for each in others)), None)
        if spec is not None and spec.loader is not None:
            run_module = spec.loader.exec_module

            def run_and_tell(module: ModuleType) -> None:
                run_module(module)
                pa.lib._pandas_api = self._api
                _ = self._api.pd

            spec.loader.exec_module = run_and_tell  # type: ignore[method-assign]
        return spec
