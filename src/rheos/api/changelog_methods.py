"""Methods of `DataStream` for changelogs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import polars as pl
import pyarrow as pa

from rheos.api.changelogs import (
    part_column,
    unknown_change,
    upsert_columns,
)
from rheos.api.stream_base import Stream
from rheos.api.time_to_live import FOREVER, TimeToLive, time_to_live_ms
from rheos.api.transformations import Transformation
from rheos.core.connectors.rejected_records import OnError, check_on_error
from rheos.core.errors import ProgramError
from rheos.core.graph.changelog import OP, Changes
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.validate import (
    check_keys,
)
from rheos.core.operators.changelog.rekeying import RekeyingSpec
from rheos.core.operators.changelog.retractions import RetractionsSpec
from rheos.core.operators.changelog.truncation import TruncationSpec
from rheos.core.operators.changelog.truncation_deletes import REJECTED_TAG, TruncationDeletesSpec
from rheos.core.operators.expressions import ExpressionSpec
from rheos.core.site import call_site, located

if TYPE_CHECKING:
    from rheos.api.streams import DataStream

    pass


class ChangelogMethods(Stream):
    """Methods that declare a changelog, or convert it to plain rows."""

    def upserts(
        self,
        key: str | Sequence[str],
        op: str | None = OP,
        *,
        on_truncate: Literal["delete", "fail"] = "delete",
        on_error: OnError = "fail",
        ttl: TimeToLive = FOREVER,
    ) -> DataStream:
        """Interpret the rows as upserts of a table: a row replaces the previous one with its key.

        A changelog keeps its meaning, and is folded by the new key: the row of a key is the last one
        that was added and not retracted. So a join of tables can be written by the key of one of them.
        For this, all current rows of a key are state.

        The column `op` is the kind of change: "insert", "update_after" or "delete", or the names that
        `rh.postgres.changes`, Debezium and Flink use. With `op=None` every row is an insert or update.
        The changes of a key must arrive in order: from one split, such as a partition.

        ```python
        orders = env.from_source(rh.postgres.changes("orders", url=url)).upserts(key="id")
        orders.sink_to(rh.redis.sink("redis://localhost:6379", key="order:{id}"))
        ```

        Messages ("m" of Debezium) and tombstones are not changes, and are dropped. "update_before"
        deletes its key, because the next row may have another one.

        Args:
            key: The columns that identify a row of the table.
            op: The column with the kind of change.
            on_truncate: Effect of a TRUNCATE of the table: "delete" deletes every existing row, for
                which the keys of the table are kept as state; "fail" treats it as an unknown change,
                and needs no state.
            on_error: Treatment of a row with an unknown `op` or without a key: "fail" ends the job;
                "skip" counts the row (`skipped`) and sends it to the side output "rejected".
            ttl: Time for which the rows of a key are state after their last change, in processing time;
                only for a changelog with another key.

        Returns:
            The stream of changes.

        Raises:
            ProgramError: An argument is invalid, or two do not belong together.
            SchemaError: A column does not exist, or cannot be a key.
        """
        with located(call_site(), "upserts"):
            check_on_error(on_error)
            skips = on_error == "skip"
            if on_truncate not in ("delete", "fail"):
                raise ProgramError(
                    f"on_truncate={on_truncate!r} is not known", hint='write "delete" or "fail"'
                )
            empties = op is not None and on_truncate == "delete"
            if skips and not empties:
                raise ProgramError(
                    'on_error="skip" needs op= and on_truncate="delete"',
                    hint="leave it out, or drop such rows before with filter()",
                )
            named = (key,) if isinstance(key, str) else tuple(key)
            changes = self._type.changes
            if changes is not None and op == OP and (changes.retracts or {*changes.key} != {*named}):
                return self._folded(named, time_to_live_ms(ttl))
            if ttl != FOREVER:
                raise ProgramError(
                    "ttl= is only for a changelog with another key, but these rows need no state",
                    hint="leave it out",
                )
            exprs, schema = upsert_columns(self.schema, named, op, of_tables=empties, skips=skips)
            rows = self._at if self._type.changes is None else self.as_rows().transformation
            spec = ExpressionSpec("select", tuple(exprs), None if op is None else unknown_change(op))
            made = rows.then(spec, "upserts", schema)
            changes = Changes(named, retracts=False)
            return (_emptied(made, changes, skips) if empties else made.with_changes(changes)).stream

    def _folded(self, key: tuple[str, ...], ttl_ms: int | None) -> DataStream:
        """Return the changelog as upserts by this key."""
        check_keys(key, self.schema)
        changes = self._type.changes
        assert changes is not None
        rows = self._at if changes.retracts else self.retractions().transformation
        type = replace(rows.type, changes=Changes(key, retracts=False))
        return rows.keyed_by(key).add(RekeyingSpec(ttl_ms), "upserts", {MAIN: type}).stream

    def retractions(self) -> DataStream:
        """Add the previous version of each row to upserts, so that downstream aggregates can retract
        rows. "update_before" then precedes "update_after", and a deleted row has all its columns.

        ```python
        orders.upserts(key="id").retractions().key_by("state").table(n=rh.agg.count())
        ```

        Returns:
            The stream of changes.

        Raises:
            ProgramError: The rows are not upserts.
        """
        with located(call_site(), "retractions"):
            changes = self._type.changes
            if changes is None or changes.retracts:
                raise ProgramError(
                    "retractions() needs upserts, but these are "
                    + ("rows" if changes is None else changes.describe()),
                    hint='declare the key first: .upserts(key="id")'
                    if changes is None
                    else "leave it out",
                )
            check_keys(changes.key, self.schema)
            type = replace(self._type, changes=replace(changes, retracts=True))
            keyed = self._at.keyed_by(changes.key)
            return keyed.add(RetractionsSpec(), "retractions", {MAIN: type}).stream

    def as_rows(self) -> DataStream:
        """Interpret a changelog as append-only rows, whose column `op` is the kind of change.

        ```python
        changed.as_rows().sink_to(rh.files.sink("log/"))
        ```

        Returns:
            The stream of rows; this stream if it is not a changelog.
        """
        exprs = tuple(pl.col(name) for name in self.schema.names)
        spec = ExpressionSpec("select", exprs)
        rows = self._at.then(spec, "as_rows", self.schema, self._type.record)
        return rows.with_changes(None).stream


def _emptied(rows: Transformation, changes: Changes, skips: bool) -> Transformation:
    """Return the changes after replacing those that apply to all rows of the table (TRUNCATE)."""
    type = rows.type
    part = part_column(type.schema)
    parted = pa.schema([*type.schema, pa.field(part, pa.int64(), nullable=False)])
    spread = rows.then(TruncationSpec(changes.key, part, skips), "truncation", parted)
    outputs = {MAIN: replace(type, changes=changes)}
    if skips:
        outputs[REJECTED_TAG] = replace(type, changes=None)
    return spread.keyed_by((part,)).add(TruncationDeletesSpec(changes.key), "upserts", outputs)
