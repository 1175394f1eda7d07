"""What a query of the benchmark is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import rheos as rh
from benchmarks.nexmark.market import Market


@dataclass(frozen=True)
class Query:
    name: str
    about: str
    program: Callable[[Market], rh.DataStream]
    sql: str | None
    """The same for DuckDB, over the tables `person`, `auction` and `bid`: what must be there in the
    end. None where the rows depend on the clock."""
    key: tuple[str, ...] = ()
    """Where the program gives the changes of a table: the table's key."""
    writes_files: bool = False
    """Measured with a sink of files; all others drop their rows, as the published runs do."""
