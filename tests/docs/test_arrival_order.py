"""The README's list of results that depend on the order of arrival."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import rheos.core.operators
from rheos.core.operators.contract import KeySpec, OperatorSpec, RowSpec

ROOT = Path(__file__).parents[2]

UPDATES = "changes of an updating table before its last state"
NAMES = {
    "BroadcastProcessSpec": "[Broadcast rules]",
    "CallOnceSpec": "`call_once`",
    "CoProcessSpec": "`process`",
    "DedupSpec": "`dedup`",
    "KeyedBroadcastProcessSpec": "[Broadcast rules]",
    "KeyedCoProcessSpec": "`process`",
    "OverSpec": UPDATES,
    "PlainProcessSpec": "operator state",
    "ProcessSpec": "`process`",
    "ReduceSpec": "`reduce`",
    "RekeyingSpec": "`upserts`",
    "RetractionsSpec": "`upserts`",
    "RunningSpec": "`running`",
    "TableJoinSpec": UPDATES,
    "TableSpec": UPDATES,
    "TopNSpec": "`top_n`",
    "TriggeredWindowSpec": "count windows",
    "TruncationDeletesSpec": "`upserts`",
    "ViewSpec": "`CREATE MATERIALIZED VIEW`",
}
"""By operator whose output may depend on the order of arrival: its name in the README."""


def _specs(kind: type[OperatorSpec] = OperatorSpec) -> Iterator[type[OperatorSpec]]:
    for each in kind.__subclasses__():
        yield each
        yield from _specs(each)


def _depends_on_arrival(spec: type[OperatorSpec]) -> bool:
    method = spec.row_order
    own = method not in (OperatorSpec.row_order, KeySpec.row_order, RowSpec.row_order)
    return "OF_ARRIVAL" in method.__code__.co_names if own else not issubclass(spec, RowSpec)


def test_the_readme_names_each_operator_that_depends_on_the_order_of_arrival() -> None:
    for module in pkgutil.walk_packages(rheos.core.operators.__path__, "rheos.core.operators."):
        importlib.import_module(module.name)
    found = {
        spec.__name__
        for spec in _specs()
        if spec.__module__.startswith("rheos.core.operators.") and _depends_on_arrival(spec)
    }
    assert found - {"KeySpec", "KeyedFunctionSpec"} == {*NAMES}
    text = (ROOT / "README.md").read_text()
    listed = text[text.index("Exceptions are what depends on arrival:") :].partition("\n- ")[0]
    assert [name for name in NAMES.values() if name not in listed] == []
