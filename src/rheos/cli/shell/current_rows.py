"""Current rows of a query, and their display."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

import pyarrow as pa

from rheos.core.errors import InputError
from rheos.core.graph.changelog import OP, Changes
from rheos.core.protocol.shown_rows import values_of
from rheos.sql.first_rows import ORDER

MOST_ROWS = 100_000
"""Maximum number of rows of an updating table, and of a sorted result. Other append-only queries keep
this many of their last rows."""

_TAKES_AWAY = ("update_before", "delete")


class CurrentRows:
    """Current result of a query, built from its changelog. ORDER BY sorts the rows."""

    def __init__(self, names: Sequence[str], changes: Changes | None, most: int = MOST_ROWS) -> None:
        self.names = [name for name in names if name != ORDER and (changes is None or name != OP)]
        self._columns = [*self.names, ORDER] if ORDER in names else self.names
        """Columns that are kept: the shown ones, and the last one that has the order of the rows."""
        self.count = 0
        """Number of rows, including those that are not kept."""
        self._changes = changes
        self._most = most
        self._stay: deque[tuple[Any, ...]] = deque(maxlen=most)
        self._by_key: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._alike: Counter[tuple[Any, ...]] = Counter()

    def add(self, table: pa.Table) -> None:
        """Apply changes. Raises InputError if there are too many rows to show."""
        columns = [values_of(table[name]) for name in self._columns]
        rows = zip(*columns, strict=True) if columns else ()
        if self._changes is None:
            self._stay.extend(rows)
            self.count += table.num_rows
            if self._is_ordered:
                self._check_count()
            return
        places = [self.names.index(name) for name in self._changes.key]
        for op, row in zip(table[OP].to_pylist(), map(_hashable, rows), strict=True):
            if places:
                self._change(op, tuple(row[place] for place in places), row)
            else:
                self._alike[row] += -1 if op in _TAKES_AWAY else 1
        self._alike = Counter({row: often for row, often in self._alike.items() if often})
        self.count = len(self._by_key) + (+self._alike).total()
        self._check_count()

    @property
    def _is_ordered(self) -> bool:
        return len(self._columns) > len(self.names)

    def _check_count(self) -> None:
        if self.count > self._most:
            if self._changes is None:
                hint = "add LIMIT, or leave out ORDER BY to see the last rows"
            else:
                hint = "aggregate, filter, or INSERT INTO a table"
            raise InputError(
                f"the result has more than {self._most} rows, the maximum that the shell shows",
                hint=hint,
            )

    def _change(self, op: str, key: tuple[Any, ...], row: tuple[Any, ...]) -> None:
        if op in _TAKES_AWAY:
            self._by_key.pop(key, None)
        else:
            self._by_key[key] = row

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        if self._is_ordered:
            yield from (row[:-1] for row in sorted(self._unordered(), key=itemgetter(-1)))
        else:
            yield from self._unordered()

    def _unordered(self) -> Iterator[tuple[Any, ...]]:
        if self._changes is None:
            yield from self._stay
        else:
            yield from self._by_key.values()
            yield from self._alike.elements()


def _hashable(row: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(tuple(each) if isinstance(each, list) else each for each in row)


def drawn(rows: CurrentRows, height: int | None = None, width: int | None = None) -> list[str]:
    """Return the lines of a table, with up to `height` of the last rows, cut to `width`."""
    shown = [*rows]
    if height is not None and len(shown) > height:
        shown = shown[-height:]
    cells = [[*rows.names], *([cell(each) for each in row] for row in shown)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(rows.names))]
    numbers = [all(isinstance(row[p], int | float | None) for row in shown) for p in range(len(widths))]
    lines = [
        "  ".join(
            text.rjust(wide) if right else text.ljust(wide)
            for text, wide, right in zip(row, widths, numbers, strict=True)
        ).rstrip()
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * wide for wide in widths))
    left = rows.count - len(shown)
    count_text = f"{rows.count} row{'' if rows.count == 1 else 's'}"
    lines.append(f"({count_text}{f', the last {len(shown)} shown' if left else ''})")
    return [
        line if width is None or len(line) <= width else line[: width - 3] + "..." for line in lines
    ]


def cell(value: Any) -> str:
    """Return a value in one line."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat(" ").removesuffix("+00:00")
    return str(value).replace("\n", "\\n").replace("\t", "\\t")
