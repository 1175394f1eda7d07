"""Views whose rows the job keeps as state, from which `rheos.runtimes.views` reads them."""

from __future__ import annotations

from collections.abc import Sequence

from rheos.api.streams import DataStream
from rheos.connectors.blackhole import BlackholeSink
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.view import ViewSpec


def keep_view(name: str, rows: DataStream, keys: Sequence[str], spec: ViewSpec) -> None:
    """Keep the rows of a stream as a view.

    Args:
        name: Name of the view. Ignoring case, it decides the uid of the operator.
        rows: The rows.
        keys: Columns by which the rows are distributed.
        spec: The operator.

    Raises:
        ProgramError: Another view has this name.
    """
    keyed = rows.key_by(*keys).transformation
    view = keyed.add(spec, name, {MAIN: rows.transformation.type}).stream
    view = view.uid(f"view {name.casefold()}")
    view.sink_to(BlackholeSink(), name=f"{name} is kept")
