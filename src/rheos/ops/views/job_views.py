"""The views of one job, and the reads of one view."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
import pyarrow as pa

from rheos.core.errors import CheckpointError, ConfigurationError
from rheos.core.known_names import names_hint
from rheos.core.protocol.plain_values import plain_value
from rheos.core.safe_strings import shown
from rheos.core.site import located_at_call
from rheos.ops.control.commands import JobClient
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import JobRecord, Registry
from rheos.ops.control.running_jobs import find_running
from rheos.ops.control.stored_views import stored_views, views_in
from rheos.ops.views.feature_reads import FeatureReads
from rheos.ops.views.state_reads import KeyedState
from rheos.ops.views.view_rows import MAX_SCAN_ROWS, ViewRows
from rheos.runtimes.job_handle import JobHandle
from rheos.runtimes.views.answers import MAX_PAGE_ROWS, FeatureRequest, ViewInfo, ViewPage, ViewRequest
from rheos.runtimes.views.checkpoint_reads import CheckpointReads

T = TypeVar("T")

_TRIES = 5
"""Number of times that a scan begins, if its checkpoint is replaced before its end."""


class ViewSource(Protocol):
    """Something that answers reads: a job, its client, or a reader of stored checkpoints."""

    def views(self) -> Sequence[ViewInfo]: ...

    def view_page(self, asked: ViewRequest) -> ViewPage: ...

    def features(self, asked: FeatureRequest) -> ViewPage: ...


class JobView:
    """One materialized view of a job."""

    def __init__(self, source: ViewSource, info: ViewInfo) -> None:
        self._source = source
        self.info = info
        """Name, columns and key of the view."""

    def __repr__(self) -> str:
        key = f", key {', '.join(self.info.key)}" if self.info.key else ""
        return f"<view {self.info.name}: {', '.join(self.info.columns)}{key}>"

    @located_at_call
    def get(self, *key: Any, columns: Sequence[str] | None = None, **named: Any) -> ViewRows:
        """Look up a key. Only the files of the key's group are read.

        ```python
        row = rh.query(job).view("pages").get("home").table
        ```

        Args:
            key: Values of the key's columns, in their order.
            columns: Columns of the answer; all by default.
            named: Values of the key's columns by name, instead of `key`.

        Returns:
            The row, or no row.

        Raises:
            ConfigurationError: The view has no key, or a value has another type than its column.
            CheckpointError: The job has no checkpoint yet.
        """
        values: Any = {name: plain_value(value) for name, value in named.items()}
        if not named:
            values = [plain_value(value) for value in key]
        try:
            written = msgspec.json.encode(values).decode()
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"{shown(named or key)} cannot be a key: {error}",
                hint="pass numbers, strings, times, dates, decimals, booleans or bytes",
            ) from error
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
        """Read the rows of the view.

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
                        f"the view {self.info.name!r} has too many rows: more than {MAX_SCAN_ROWS:,}",
                        hint="pass where= or limit=, or read it by pages()",
                    )
                if left <= 0:
                    break
            whole = pa.concat_tables([page.table for page in pages])
            table = whole if limit is None else whole.slice(0, limit)
            return ViewRows(table, pages[0].checkpoint, pages[0].completed)

        return read() if checkpoint is not None else _repeated(read)

    @located_at_call
    def pages(
        self,
        where: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        rows: int = MAX_PAGE_ROWS,
        checkpoint: int | None = None,
    ) -> Iterator[ViewRows]:
        """Yield the rows of the view page by page, all of the same checkpoint.

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
        return self._source.view_page(
            ViewRequest(view=self.info.name, columns=names, arrow=True, **asked)
        )


class JobViews:
    """The materialized views of a job, and the states of its operators."""

    def __init__(self, source: ViewSource, reads: Callable[[], CheckpointReads]) -> None:
        self._source = source
        self._reads = reads
        """Returns the job's checkpoints. Raises ConfigurationError if it keeps none."""

    @located_at_call
    def state(self, operator: str, state: str | None = None) -> KeyedState:
        """Return a keyed state of an operator.

        ```python
        print(rh.query(job).state("totals").get("ada").table)
        ```

        Args:
            operator: Its uid, or its name if only one operator has it.
            state: Name of the state, if the operator has several.

        Returns:
            The state. Each read sees the newest checkpoint.

        Raises:
            ConfigurationError: The job keeps no checkpoints that can be read from here.
        """
        return KeyedState(self._reads(), operator, state)

    def features(self, name: str) -> FeatureReads:
        """Return published features, to look them up by key.

        ```python
        rows = rh.query("shop").features("user_spend").get_many(["ada", "bo"]).table
        ```

        Args:
            name: Their name.

        Returns:
            The features. Each look-up sees the newest checkpoint.
        """
        return FeatureReads(self._source, name)

    def views(self) -> Sequence[ViewInfo]:
        """Return the views with their columns and keys. Raise CheckpointError if the job has no
        checkpoint yet."""
        return self._source.views()

    @located_at_call
    def view(self, name: str) -> JobView:
        """Return a view.

        Args:
            name: Its name; case does not matter, as in SQL.

        Returns:
            The view.

        Raises:
            ConfigurationError: The job has no such view.
            CheckpointError: The job has no checkpoint yet.
        """
        views = {info.name.casefold(): info for info in self.views()}
        info = views.get(name.casefold())
        if info is None:
            names = [known.name for known in views.values()]
            raise ConfigurationError(
                f"the job has no view {name!r}", hint=names_hint(name, names, "the views are")
            )
        return JobView(self._source, info)

    @located_at_call
    def scans(self, *names: str) -> dict[str, ViewRows]:
        """Read several views at the same checkpoint.

        ```python
        both = rh.query(job).scans("pages", "users")
        ```

        Args:
            names: The views.

        Returns:
            All rows of each view, by the names as passed.

        Raises:
            ConfigurationError: The job has no such view, or a view has too many rows.
            CheckpointError: The job has no checkpoint yet, or newer checkpoints replace each one before
                all views are read.
        """

        def read() -> dict[str, ViewRows]:
            found: dict[str, ViewRows] = {}
            number = None
            for name in names:
                found[name] = self.view(name).scan(checkpoint=number)
                number = found[name].checkpoint
            return found

        return _repeated(read)


def opened(job: JobHandle | str) -> JobViews:
    """Return the views and states of a job; see `rh.query`."""
    if isinstance(job, JobHandle):
        return JobViews(job, _own_reads)
    try:
        record = find_running(job)
    except ConfigurationError:
        stored = stored_views(job)
        if stored is None:
            raise
        return JobViews(stored, lambda: stored.reads)
    return JobViews(JobClient(record), lambda: _reads_of(record))


def _own_reads() -> CheckpointReads:
    own = [each for each in Registry().records() if each.process == this_process()]
    if len(own) != 1:
        raise ConfigurationError(
            f"this process runs {len(own)} jobs", hint="pass the name of the job instead of its handle"
        )
    return _reads_of(own[0])


def _reads_of(record: JobRecord) -> CheckpointReads:
    if record.checkpoint_dir is None:
        raise ConfigurationError(
            f"the job {record.job!r} has no checkpoint directory that can be read from here",
            hint="start it with --checkpoint-dir",
        )
    return views_in(record.job, record.checkpoint_dir).reads


def _rows(page: ViewPage) -> ViewRows:
    return ViewRows(page.table, page.checkpoint, page.completed)


def _repeated(read: Callable[[], T]) -> T:
    """Return what `read` returns. Start over if its checkpoint was replaced meanwhile."""
    for _ in range(_TRIES - 1):
        try:
            return read()
        except CheckpointError:
            continue
    return read()
