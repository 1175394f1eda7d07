"""Reads of one table of a job: a materialized view, or a keyed state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from rheos.core.errors import CheckpointError, ConfigurationError
from rheos.core.site import located_at_call
from rheos.ops.views.view_rows import MAX_SCAN_ROWS, ViewRows
from rheos.ops.views.written_keys import chosen_key, written_key
from rheos.runtimes.views.answers import MAX_PAGE_ROWS, FeatureRequest, ViewInfo, ViewPage, ViewRequest

T = TypeVar("T")

_TRIES = 5
"""Number of times that a scan begins, if its checkpoint is replaced before its end."""


class ViewSource(Protocol):
    """Something that answers reads: a job, its client, or a reader of stored checkpoints."""

    def views(self) -> Sequence[ViewInfo]: ...

    def view_page(self, asked: ViewRequest) -> ViewPage: ...

    def features(self, asked: FeatureRequest) -> ViewPage: ...

    def states(self) -> Sequence[ViewInfo]: ...

    def state_page(self, asked: ViewRequest) -> ViewPage: ...


class JobTable:
    """Base of the tables of a job that are read from its checkpoints."""

    def __init__(self, name: str, read: Callable[[ViewRequest], ViewPage]) -> None:
        self.name = name
        """Name of the table in requests."""
        self._read = read
        """Returns one page."""

    @located_at_call
    def get(self, *key: Any, columns: Sequence[str] | None = None, **named: Any) -> ViewRows:
        """Look up a key. Only the files of the key's group are read.

        ```python
        row = rh.query(job).view("pages").get("home").table
        total = rh.query(job).state("totals").get("ada").table
        ```

        Args:
            key: Values of the key's columns, in their order.
            columns: Columns of the answer; all by default.
            named: Values of the key's columns by name, instead of `key`.

        Returns:
            The rows of the key. A view has at most one. A state has one for a value, one for each
                element of a list and each entry of a map, and none if the key has no state.

        Raises:
            ConfigurationError: The table does not exist or has no key, or a value does not fit its
                column.
            CheckpointError: The job has no checkpoint yet.
        """
        written = written_key(chosen_key(key, named))
        return _rows(self._page(key=written, columns=columns))

    @located_at_call
    def scan(
        self,
        where: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        checkpoint: int | None = None,
    ) -> ViewRows:
        """Read the rows of all keys.

        ```python
        busy = rh.query(job).view("pages").scan("n >= 10", columns=["page"])
        print(busy.table, busy.checkpoint, busy.completed)
        ```

        Args:
            where: A condition: comparisons of columns with constants, joined by AND.
            columns: Columns of the answer; all by default.
            limit: Maximum number of rows. None returns all rows, up to a million.
            checkpoint: Number of the checkpoint; the newest by default.

        Returns:
            The rows, all of one checkpoint.

        Raises:
            ConfigurationError: The condition or a column is unknown, or there are too many rows.
            CheckpointError: The job has no checkpoint yet, or this checkpoint is gone.
        """

        def read() -> ViewRows:
            pages, left = [], MAX_SCAN_ROWS if limit is None else limit
            for page in self.pages(where, columns=columns, rows=left, checkpoint=checkpoint):
                pages.append(page)
                left -= page.table.num_rows
                if left <= 0 and limit is None:
                    raise ConfigurationError(
                        f"{self.name!r} has too many rows: more than {MAX_SCAN_ROWS:,}",
                        hint="pass where= or limit=, or read it by pages()",
                    )
                if left <= 0:
                    break
            whole = pa.concat_tables([page.table for page in pages])
            table = whole if limit is None else whole.slice(0, limit)
            return ViewRows(table, pages[0].checkpoint, pages[0].completed)

        return read() if checkpoint is not None else repeated(read)

    @located_at_call
    def pages(
        self,
        where: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        rows: int = MAX_PAGE_ROWS,
        checkpoint: int | None = None,
    ) -> Iterator[ViewRows]:
        """Yield the rows of the table page by page, all of the same checkpoint.

        Args:
            where: A condition, as in `scan`.
            columns: Columns of the answer; all by default.
            rows: Maximum number of rows of a page. A page may have fewer, also none.
            checkpoint: Number of the checkpoint; the newest by default.

        Yields:
            The pages, at least one.

        Raises:
            ConfigurationError: The condition or a column is unknown.
            CheckpointError: The job has no checkpoint yet, or newer checkpoints have replaced this one
                before its last page.
        """
        most = max(1, min(rows, MAX_PAGE_ROWS))
        page = self._page(where=where, columns=columns, limit=most, checkpoint=checkpoint)
        yield _rows(page)
        while page.next is not None:
            page = self._page(where=where, columns=columns, limit=most, after=page.next)
            yield _rows(page)

    def _page(self, *, columns: Sequence[str] | None = None, **asked: Any) -> ViewPage:
        names = None if columns is None else ",".join(columns)
        return self._read(ViewRequest(view=self.name, columns=names, arrow=True, **asked))


class JobView(JobTable):
    """One materialized view of a job."""

    def __init__(self, source: ViewSource, info: ViewInfo) -> None:
        super().__init__(info.name, source.view_page)
        self.info = info
        """Name, columns and key of the view."""

    def __repr__(self) -> str:
        key = f", key {', '.join(self.info.key)}" if self.info.key else ""
        return f"<view {self.info.name}: {', '.join(self.info.columns)}{key}>"


class KeyedState(JobTable):
    """One keyed state of one operator of a job.

    ```python
    totals = rh.query("shop").state("totals")
    print(totals.get("ada").table, totals.scan("amount > 10", limit=10).table)
    ```
    """

    def __init__(self, source: ViewSource, name: str) -> None:
        super().__init__(name, source.state_page)

    def __repr__(self) -> str:
        return f"<state {self.name}>"


def _rows(page: ViewPage) -> ViewRows:
    return ViewRows(page.table, page.checkpoint, page.completed)


def repeated(read: Callable[[], T]) -> T:
    """Return what `read` returns. Start over if its checkpoint was replaced meanwhile."""
    for _ in range(_TRIES - 1):
        try:
            return read()
        except CheckpointError:
            continue
    return read()
