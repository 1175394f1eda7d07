"""Reads views and keyed state from the checkpoints of a job, or from a savepoint.

A look-up reads the files of one subtask, and of these only the rows of the key's group. A scan reads
group by group, so it holds a few groups in memory. Its pages follow the order of the groups, and
within a group the order in which the job stored the rows. That order is fixed by the checkpoint, so a
token `CHECKPOINT-GROUP-ROW` continues a scan, in any process.

Retention may delete a file while it is read. Then a new read starts over at a newer checkpoint, and a
later page is refused: it never mixes two checkpoints.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.errors import ConfigurationError
from rheos.core.formats.arrow_bytes import table_bytes
from rheos.core.known_names import names_hint
from rheos.core.protocol.key_groups import owner_of
from rheos.core.protocol.ports import Store
from rheos.core.protocol.shown_rows import rows_values
from rheos.core.protocol.snapshots import PartMode, StateHandle
from rheos.core.state import format as state_format
from rheos.core.state.key_groups import key_groups
from rheos.core.state.parts import GROUP
from rheos.runtimes.views.answers import MAX_PAGE_ROWS, FeatureRequest, ViewInfo, ViewPage, ViewRequest
from rheos.runtimes.views.checkpoint_reads import (
    TRIES,
    WITHIN_S,
    CheckpointReads,
    GoneError,
    chunks,
)
from rheos.runtimes.views.conditions import ViewCondition, conditions_of
from rheos.runtimes.views.feature_answers import asked_ms, feature_rows, keys_of
from rheos.runtimes.views.files import FileCache
from rheos.runtimes.views.stored_table import StoredTable
from rheos.runtimes.views.stored_view import StoredView, view_of, views_of
from rheos.runtimes.views.values import key_values

if TYPE_CHECKING:
    from rheos.runtimes.views.database_reads import DatabaseReads

_PAGE_BYTES = 16 << 20
"""Bytes of Arrow after which a page ends early."""
_NUMBER = "__number"
"""Column with the number of a row among those of its key group."""
_TOKEN = re.compile(r"(\d{1,18})-(\d{1,6})-(\d{1,18})")


@dataclass(frozen=True)
class _Position:
    """The first row of a page: its key group, and its number among the rows of that group."""

    group: int = 0
    row: int = 0


class ViewReader:
    """Reads the views and the keyed states of one job. Any thread may use it.

    Args:
        store: The store whose paths the checkpoints name.
        retained: Returns the checkpoints that exist, oldest first.
        cache: The cache of files.
        now_s: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        store: Store,
        retained: Callable[[], Sequence[CheckpointCompleted]],
        cache: FileCache | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reads = CheckpointReads(store, retained, cache, now_s)

    def views(self) -> list[ViewInfo]:
        """Return the views of the newest readable checkpoint.

        Raises:
            CheckpointError: No checkpoint can be read.
        """
        return [view.info() for view in views_of(self.reads.entry(None))]

    def states(self) -> list[ViewInfo]:
        """Return the keyed states of the newest readable checkpoint that can be looked up.

        Raises:
            CheckpointError: No checkpoint can be read.
        """
        # It imports Spark's types, which few jobs need.
        from rheos.runtimes.state_tables.keyed_state import keyed_states_of

        return [state.info() for state in keyed_states_of(self.reads.entry(None))]

    def features(self, asked: FeatureRequest) -> ViewPage:
        """Return the features of keys, all of the newest checkpoint.

        Raises:
            ConfigurationError: The features are unknown, or the keys or the time do not fit.
            CheckpointError: No checkpoint can be read.
            TransportError: The store did not answer in time.
        """
        at_ms = asked_ms(asked.at)

        def read(entry: CheckpointCompleted) -> ViewPage:
            view = view_of(entry, asked.features)
            if view.terms is None:
                raise ConfigurationError(
                    f"the view {view.name!r} has no features",
                    hint="publish features with rh.ml.features(...).publish(), or read it as a view",
                )
            keys, rows = self._rows_of_keys(view, asked.keys)
            answer = feature_rows(view.name, keys, rows.select(view.names), view.terms, at_ms)
            return _page_of(view, answer, asked.arrow)

        return self._retried(None, read)

    def _rows_of_keys(self, view: StoredView, written: str) -> tuple[pa.Table, pa.Table]:
        """Return the keys of a request, and the rows of their key groups."""
        deadline_s = self.reads.now_s() + WITHIN_S
        empty = self._no_rows(view, deadline_s)
        kinds = {name: empty.schema.field(name).type for name in view.key}
        keys = keys_of(view.name, written, kinds)
        batch = keys.combine_chunks().to_batches()[0]
        groups = np.unique(key_groups(batch, view.key, view.entry.max_parallelism)).tolist()
        found = [self._rows_of_group(view, group, empty, deadline_s) for group in groups]
        return keys, pa.concat_tables(found)

    def view_page(self, asked: ViewRequest) -> ViewPage:
        """Return the rows of a key of a view, or one page of a scan.

        Raises:
            ConfigurationError: The view, a column, the key or the condition is unknown or does not fit.
            CheckpointError: No checkpoint can be read, or the one of an earlier page is gone.
            TransportError: The store did not answer in time.
        """
        return self._read(asked, view_of)

    def state_page(self, asked: ViewRequest) -> ViewPage:
        """Return the rows of a key of a keyed state, or one page of a scan.

        Raises:
            ConfigurationError: The state, a column, the key or the condition is unknown or does not
                fit.
            SchemaError: The state cannot be looked up by a key.
            CheckpointError: No checkpoint can be read, or the one of an earlier page is gone.
            TransportError: The store did not answer in time.
        """
        from rheos.runtimes.state_tables.keyed_state import find_keyed_state

        return self._read(asked, find_keyed_state)

    def _read(
        self, asked: ViewRequest, find: Callable[[CheckpointCompleted, str], StoredTable]
    ) -> ViewPage:
        if not 1 <= asked.limit <= MAX_PAGE_ROWS:
            raise ConfigurationError(
                f"{asked.limit} rows are too many for one page"
                if asked.limit > MAX_PAGE_ROWS
                else f"a page cannot have {asked.limit} rows",
                hint=f"ask for up to {MAX_PAGE_ROWS} rows, and continue with the token of the page",
            )
        number, position = _continued(asked)

        def read(entry: CheckpointCompleted) -> ViewPage:
            page = self._page(find(entry, asked.view), asked, position)
            self.reads.remember(entry)
            return page

        return self._retried(number, read)

    def _retried(self, number: int | None, read: Callable[[CheckpointCompleted], ViewPage]) -> ViewPage:
        """Return what `read` returns for a checkpoint. If `number` is None, it is the newest one. If
        its files are gone, the newest one is read again."""
        for tries_left in reversed(range(TRIES)):
            entry = self.reads.entry(number)
            try:
                return read(entry)
            except GoneError:
                if number is not None:
                    raise self.reads.gone_error(number) from None
                if not tries_left:
                    raise
        raise AssertionError("unreachable")

    # --- rows -----------------------------------------------------------------------------------------

    def _page(self, view: StoredTable, asked: ViewRequest, position: _Position) -> ViewPage:
        deadline_s = self.reads.now_s() + WITHIN_S
        columns = _chosen(view, asked.columns)
        conditions = [] if asked.where is None else conditions_of(asked.where, view.names)
        after: _Position | None = None
        if asked.key is not None:
            rows = _filtered(self._looked_up(view, asked.key, deadline_s), conditions)
        else:
            rows, after = self._scanned(view, conditions, asked.limit, position, deadline_s)
        if after is not None:
            self._keep_files(view, deadline_s)
        return _page_of(view, rows.select(columns), asked.arrow, after)

    def _looked_up(self, view: StoredTable, key: str, deadline_s: float) -> pa.Table:
        """Return the rows of a key. A view has at most one."""
        empty = self._no_rows(view, deadline_s)
        kinds = {name: empty.schema.field(name).type for name in view.key}
        values = key_values(view.what, key, kinds)
        group = view.group_of(dict(zip(view.key, values, strict=True)))
        rows = self._rows_of_group(view, group, empty, deadline_s)
        for name, value in zip(view.key, values, strict=True):
            column = rows.column(name)
            rows = rows.filter(pc.equal(column, value) if value.is_valid else pc.is_null(column))
        return rows

    def _scanned(
        self,
        view: StoredTable,
        conditions: Sequence[ViewCondition],
        limit: int,
        position: _Position,
        deadline_s: float,
    ) -> tuple[pa.Table, _Position | None]:
        """Return the rows of a page, and the position after it; None after the last row.

        A page ends early if it has many bytes, or if half of the time has passed.
        """
        found: list[pa.Table] = []
        size, left = 0, limit
        for handles, groups in chunks(view.entry, view.operator, view.handles, position.group):
            rows = _numbered(self._rows(view, handles, groups, deadline_s))
            rows = _filtered(rows.filter(_select_from(rows, position)), conditions)
            found.append(rows.slice(0, left))
            if rows.num_rows > left:
                after = (rows.column(name)[left].as_py() for name in (GROUP, _NUMBER))
                return pa.concat_tables(found), _Position(*after)
            left -= rows.num_rows
            size += rows.nbytes
            is_late = self.reads.now_s() > deadline_s - WITHIN_S / 2
            if groups.stop < view.entry.max_parallelism and (not left or size > _PAGE_BYTES or is_late):
                return pa.concat_tables(found), _Position(groups.stop)
        if not found:
            found.append(self._no_rows(view, deadline_s))
        return pa.concat_tables(found), None

    def _no_rows(self, view: StoredTable, deadline_s: float) -> pa.Table:
        """Return a table without rows, for its schema."""
        return self._rows(view, view.handles[:1], range(0), deadline_s)

    def _rows_of_group(
        self, view: StoredTable, group: int, empty: pa.Table, deadline_s: float
    ) -> pa.Table:
        """Return the current rows of one key group; `empty` if its subtask has stored none."""
        owner = owner_of(group, view.width, view.entry.max_parallelism)
        handles = [each for each in view.handles if each.subtask == owner]
        return self._rows(view, handles, range(group, group + 1), deadline_s) if handles else empty

    def _rows(
        self, view: StoredTable, handles: Sequence[StateHandle], groups: range, deadline_s: float
    ) -> pa.Table:
        """Return the current rows of key groups, and the column of their groups."""
        if handles and handles[0].mode is PartMode.FILE:
            rows = self._databases.parts(
                handles, view.state, groups, deadline_s, deciding=len(view.key)
            )
            return view.rows(rows)
        parts = []
        for handle in handles:
            data = self.reads.part(handle, deadline_s)
            parts.append(state_format.decode(data, groups))
        return view.rows(parts)

    @cached_property
    def _databases(self) -> DatabaseReads:
        # It imports RocksDB, whose state few jobs have.
        from rheos.runtimes.views.database_reads import DatabaseReads

        return DatabaseReads(self.reads.fresh_part, self.reads.now_s)

    def _keep_files(self, view: StoredTable, deadline_s: float) -> None:
        """Read all files of a view, if they fit in the cache and time is left, so that its scan can
        continue after retention has deleted them."""
        if any(handle.mode is PartMode.FILE for handle in view.handles):
            return  # They are copied as a whole anyway.
        if 2 * sum(handle.size_bytes for handle in view.handles) > self.reads.cache.most_bytes:
            return
        for handle in view.handles:
            if self.reads.now_s() > deadline_s - WITHIN_S / 2:
                return
            self.reads.part(handle, deadline_s)


def _page_of(
    view: StoredTable, rows: pa.Table, arrow: bool, after: _Position | None = None
) -> ViewPage:
    number = view.entry.checkpoint
    return ViewPage(
        view=view.name,
        checkpoint=number,
        completed_ms=view.entry.completed_ms,
        columns=rows.column_names,
        rows=[] if arrow else _values(rows),
        next=None if after is None else f"{number}-{after.group}-{after.row}",
        data=table_bytes(rows) if arrow else b"",
    )


def _continued(asked: ViewRequest) -> tuple[int | None, _Position]:
    """Return the checkpoint that the request names, if any, and the first row of its page."""
    if asked.after is None:
        return asked.checkpoint, _Position()
    token = _TOKEN.fullmatch(asked.after)
    if token is None or asked.key is not None:
        raise ConfigurationError(
            f"{asked.after!r} does not continue a scan",
            hint="pass the token of the previous page, with the same view and condition, and no key",
        )
    return int(token[1]), _Position(int(token[2]), int(token[3]))


def _numbered(rows: pa.Table) -> pa.Table:
    """Add the number of each row among those of its group. Rows of a group follow each other."""
    groups = rows.column(GROUP).to_numpy()
    begins = np.flatnonzero(np.append(True, groups[1:] != groups[:-1])[: len(groups)])
    numbers = np.arange(len(groups)) - np.repeat(begins, np.diff(begins, append=len(groups)))
    return rows.append_column(_NUMBER, pa.array(numbers, pa.int64()))


def _select_from(rows: pa.Table, position: _Position) -> pa.Array:
    """Return which rows are at the position or after it."""
    groups, numbers = (rows.column(name).to_numpy() for name in (GROUP, _NUMBER))
    return pa.array((groups > position.group) | (numbers >= position.row))


def _filtered(rows: pa.Table, conditions: Sequence[ViewCondition]) -> pa.Table:
    for condition in conditions:
        rows = rows.filter(condition.holds(rows))
    return rows


def _chosen(view: StoredTable, columns: str | None) -> list[str]:
    """Return the columns of the answer."""
    if columns is None:
        return view.names
    known = {name.casefold(): name for name in view.names}
    chosen = []
    for written in columns.split(","):
        found = known.get(written.strip().casefold())
        if found is None:
            raise ConfigurationError(
                f"{view.what} has no column {written.strip()!r}",
                hint=names_hint(written.strip(), view.names, "the columns are"),
            )
        chosen.append(found)
    return [*dict.fromkeys(chosen)]


def _values(rows: pa.Table) -> list[dict[str, Any]]:
    """Return the rows as values of JSON."""
    return [row for batch in rows.to_batches() for row in rows_values(batch)]
