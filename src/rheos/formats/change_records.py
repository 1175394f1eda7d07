"""Conversion of change records to rows of a changelog, and back, column by column."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.formats.contract import BadPayload, Decoded, Decoder, Encoder, Format, merged
from rheos.core.graph.changelog import (
    DELETE,
    INSERT,
    MESSAGE,
    OP,
    TRUNCATE,
    UPDATE_AFTER,
    UPDATE_BEFORE,
)
from rheos.core.operators.change_rows import goes, table_columns
from rheos.core.protocol.elements import Batch
from rheos.formats.bad_rows import RowsError, sift
from rheos.formats.change_envelopes import ChangeEnvelope
from rheos.formats.conforming import conform

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


@dataclasses.dataclass
class _Changes:
    """Changes of single rows."""

    place: Places
    """Payload of each change."""
    op: npt.NDArray[np.object_]
    before: pa.Array
    after: pa.Array

    def kept(self, mask: Mask) -> _Changes:
        at = pa.array(np.flatnonzero(mask))
        return _Changes(self.place[mask], self.op[mask], self.before.take(at), self.after.take(at))


class ChangeDecoder(Decoder):
    """Decodes the envelopes with another format, and converts them to changes.

    With a `key`, a row is emitted for each change. An update that changes the key becomes a deletion
    and an insertion. Without a key, the row before an update is emitted, too.
    """

    def __init__(
        self, schema: pa.Schema, envelope: ChangeEnvelope, inner: Format, key: Sequence[str]
    ) -> None:
        super().__init__(schema)
        self._envelope, self._key = envelope, key
        self._row = pa.struct(list(table_columns(schema)))
        self._typed = inner.decoder(record_schema(envelope, self._row))
        self._strings: Decoder | None = None
        if envelope.listed:
            strings = pa.struct([pa.field(field.name, pa.string()) for field in self._row])
            self._strings = inner.decoder(record_schema(envelope, strings))
        fields = [("old", Any, None)]
        made = msgspec.defstruct("Record", fields, rename={"old": envelope.before})
        self._record: msgspec.json.Decoder[Any] = msgspec.json.Decoder(made)

    def decode(self, payloads: pa.Array) -> Decoded:
        if not payloads.null_count:
            return super().decode(payloads)
        # A payload that is null follows a deletion, which has already been decoded.
        places = np.flatnonzero(payloads.is_valid().to_numpy(zero_copy_only=False))
        return merged([(places, super().decode(payloads.take(pa.array(places))))], len(payloads))

    def _decode(self, payloads: pa.Array) -> Decoded:
        if self._strings is None:
            return self._decoded(self._typed.decode(payloads), payloads, self._row)
        strings = pa.struct([pa.field(field.name, pa.string()) for field in self._row])
        records = self._strings.decode(payloads)
        if not records.bad:
            return self._decoded(records, payloads, strings)
        # Some writers keep the types of values.
        again = np.array([each.at for each in records.bad])
        others = payloads.take(pa.array(again))
        found = self._decoded(dataclasses.replace(records, bad=[]), payloads, strings)
        typed = self._decoded(self._typed.decode(others), others, self._row)
        return merged([(np.arange(len(payloads)), found), (again, typed)], len(payloads))

    def _decoded(self, decoded: Decoded, payloads: pa.Array, row: pa.StructType) -> Decoded:
        records, origin = decoded.rows, _origin(decoded, len(payloads))
        bad = {each.at: each.error for each in decoded.bad}
        changes = self._changes(records, origin, bad)
        if self._envelope.partial:
            changes.before = self._whole_before(changes, payloads)
        if row != self._row:
            changes = self._converted(changes, bad)
        self._check(changes, bad)
        changes = changes.kept(~np.isin(changes.place, list(bad)) & (changes.op != MESSAGE))
        rows, places = self._rows(changes)
        listed = [BadPayload(at, payloads[at].as_py(), bad[at]) for at in sorted(bad)]
        one_each = np.array_equal(places, np.arange(len(payloads)))
        return Decoded(rows, None if one_each else places, listed)

    def _changes(self, records: Batch, origin: Places, bad: dict[int, str]) -> _Changes:
        """Return the changes that the records contain. Add records of an unknown kind to `bad`."""
        of = self._envelope
        fields = {name: records.column(name) for name in (of.kind, of.before, of.after)}
        if of.within is not None and of.within in records.schema.names:
            inner = records.column(of.within)
            is_within = inner.is_valid()
            for name, column in fields.items():
                fields[name] = pc.if_else(is_within, pc.struct_field(inner, name), column)
        kinds = fields[of.kind].to_pylist()
        op = np.array([of.kinds.get(kind) if kind else None for kind in kinds], object)
        for at in np.flatnonzero(op == None).tolist():  # noqa: E711
            what = "is missing" if kinds[at] is None else f"is {kinds[at]!r}"
            bad[int(origin[at])] = f"its field {of.kind!r} {what}, but must be one of " + ", ".join(
                of.kinds
            )
        before, after = fields[of.before], fields[of.after]
        if not of.listed:
            return _Changes(origin, op, before, after)
        record = pc.list_parent_indices(after).to_numpy().astype(np.int64)
        within = np.arange(len(record)) - np.searchsorted(record, record)
        lengths = pc.list_value_length(before).fill_null(0).to_numpy()
        starts = np.cumsum(lengths) - lengths
        has = within < lengths[record]
        old = pa.array(np.where(has, starts[record] + within, 0), mask=~has)
        # A record without rows may be a TRUNCATE.
        empty = np.setdiff1d(np.arange(len(op)), record)
        nothing = pa.nulls(len(empty), after.type.value_type)
        order = np.argsort(np.concatenate([record, empty]), kind="stable")
        at = pa.array(order)
        record = np.concatenate([record, empty])[order]
        return _Changes(
            origin[record],
            op[record],
            pa.concat_arrays([before.flatten().take(old), nothing]).take(at),
            pa.concat_arrays([after.flatten(), nothing]).take(at),
        )

    def _whole_before(self, changes: _Changes, payloads: pa.Array) -> pa.Array:
        """Return whole rows before updates: columns that `before` lacks have not changed."""
        fields, names = [], [field.name for field in changes.after.type]
        has = None if self._key else self._columns_in_before(changes, payloads, names)
        for at, name in enumerate(names):
            old = pc.struct_field(changes.before, name)
            changed = old.is_valid() if has is None else pa.array(has[at])
            fields.append(pc.if_else(changed, old, pc.struct_field(changes.after, name)))
        updates = _mask(changes.before.is_valid()) & (changes.op == UPDATE_AFTER)
        return pa.StructArray.from_arrays(fields, names=names, mask=pa.array(~updates))

    def _columns_in_before(
        self, changes: _Changes, payloads: pa.Array, names: Sequence[str]
    ) -> list[Mask]:
        """Return for each column, which changes have a value in `before`, also if it is null."""
        has = np.zeros((len(names), len(changes.place)), np.bool_)
        nth = np.arange(len(changes.place)) - np.searchsorted(changes.place, changes.place)
        for at in np.flatnonzero(changes.op == UPDATE_AFTER).tolist():
            old = self._record.decode(payloads[int(changes.place[at])].as_py()).old
            old = old[nth[at]] if isinstance(old, list) and nth[at] < len(old) else old
            if isinstance(old, dict):
                has[:, at] = [name in old for name in names]
        return list(has)

    def _converted(self, changes: _Changes, bad: dict[int, str]) -> _Changes:
        """Return the changes with values of the declared types, which were strings."""

        def images(i: int, j: int) -> Batch:
            columns = []
            for image in (changes.before, changes.after):
                part = image.slice(i, j - i)
                fields = [_parsed(pc.struct_field(part, field.name), field) for field in self._row]
                columns.append(
                    pa.StructArray.from_arrays(fields, fields=list(self._row), mask=part.is_null())
                )
            return pa.RecordBatch.from_arrays(columns, names=["before", "after"])

        schema = pa.schema([("before", self._row), ("after", self._row)])
        rows, good, unfit = sift(len(changes.place), images, schema)
        bad |= {int(changes.place[at]): what for at, what in unfit}
        kept = np.arange(len(changes.place)) if good is None else good
        return _Changes(changes.place[kept], changes.op[kept], rows.column(0), rows.column(1))

    def _check(self, changes: _Changes, bad: dict[int, str]) -> None:
        """Add the payloads to `bad` that lack the row, or the key, of their change."""
        of, op, key = self._envelope, changes.op, self._key
        has_before, has_after = _mask(changes.before.is_valid()), _mask(changes.after.is_valid())
        deleted = has_after if of.deleted_in == of.after else has_before
        faults = [
            (np.isin(op, (INSERT, UPDATE_AFTER)) & ~has_after, f"a change needs {of.after!r}"),
            ((op == DELETE) & ~deleted, f"a deletion needs {of.deleted_in!r}, the deleted row"),
        ]
        if not key:
            keyless = "of a table without a primary key"
            faults += [
                (
                    (op == UPDATE_AFTER) & ~has_before,
                    f"an update {keyless} needs {of.before!r}, the previous row",
                ),
                (op == TRUNCATE, f"a TRUNCATE {keyless} is not supported"),
            ]
        for name in key:
            removed = changes.after if of.deleted_in == of.after else changes.before
            of_deleted = _mask(pc.struct_field(removed, name).is_null()) & (op == DELETE)
            of_others = _mask(pc.struct_field(changes.after, name).is_null())
            what = f"column {name!r} of the primary key is missing or null"
            faults.append((of_deleted | (of_others & np.isin(op, (INSERT, UPDATE_AFTER))), what))
        for mask, what in faults:
            for at in changes.place[mask].tolist():
                bad.setdefault(at, what)

    def _rows(self, changes: _Changes) -> tuple[Batch, Places]:
        """Return the rows of the changelog, and the payload of each."""
        of, op, count = self._envelope, changes.op, len(changes.op)
        moves = (op == UPDATE_AFTER) & (self._moved(changes) if self._key else True)
        from_after = of.deleted_in == of.after
        # Each change has two rows at most: the removed one, and the added one.
        picks = np.full((count, 2), -1, np.int64)
        ops = np.full((count, 2), None, object)
        picks[:, 0] = np.arange(count) + np.where((op == DELETE) & from_after, count, 0)
        picks[:, 1] = np.arange(count) + count
        ops[moves, 0] = DELETE if self._key else UPDATE_BEFORE
        ops[:, 1] = op
        ops[moves, 1] = INSERT if self._key else UPDATE_AFTER
        ops[op == DELETE] = DELETE, None
        there = ops != None  # noqa: E711
        whole = pa.concat_arrays([changes.before, changes.after, pa.nulls(1, self._row)])
        truncates = np.stack([np.zeros(count, np.bool_), op == TRUNCATE], 1)
        taken = whole.take(pa.array(np.where(truncates, 2 * count, picks)[there]))
        columns = {**dict(zip(self._row.names, taken.flatten(), strict=True))}
        columns[OP] = pa.array(ops[there], pa.string())
        arrays = [columns[field.name] for field in self.schema]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return rows, np.repeat(changes.place, there.sum(axis=1))

    def _moved(self, changes: _Changes) -> Mask:
        """Return which updates have another key before."""
        moved = np.zeros(len(changes.op), np.bool_)
        known = _mask(changes.before.is_valid())
        for name in self._key:
            before = pc.struct_field(changes.before, name)
            moved |= _mask(pc.not_equal(before, pc.struct_field(changes.after, name)))
            known &= _mask(before.is_valid())
        return moved & known


class ChangeEncoder(Encoder):
    """Encodes rows of a changelog as change records. Rows without a kind of change are insertions."""

    def __init__(self, schema: pa.Schema, envelope: ChangeEnvelope, inner: Format) -> None:
        self._envelope = dataclasses.replace(envelope, within=None)
        self._row = pa.struct(list(table_columns(schema)))
        self._schema = record_schema(self._envelope, self._row)
        self._inner = inner.encoder(self._schema)

    def encode(self, rows: Batch) -> pa.Array:
        of = self._envelope
        has_op = OP in rows.schema.names
        gone = goes(rows) if has_op else np.zeros(rows.num_rows, np.bool_)
        values = [rows.column(name) for name in self._row.names]
        whole = pa.StructArray.from_arrays(values, fields=list(self._row))
        nothing = pa.nulls(rows.num_rows, self._row)
        removed = pc.if_else(pa.array(gone), whole, nothing)
        added = pc.if_else(pa.array(gone), nothing, whole)
        if of.deleted_in == of.after:
            removed, added = nothing, whole
        images = {of.before: removed, of.after: added}
        if of.listed:
            each = pa.array(np.arange(rows.num_rows + 1), pa.int32())
            images[of.after] = pa.ListArray.from_arrays(each, added)
            images[of.before] = pa.nulls(rows.num_rows, pa.list_(self._row))
        kinds = pa.array(np.where(gone, of.removed, of.added), pa.string())
        columns = {**images, of.kind: kinds}
        arrays = [columns[name] for name in self._schema.names]
        return self._inner.encode(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


def record_schema(envelope: ChangeEnvelope, row: pa.StructType) -> pa.Schema:
    """Return the schema of the envelope of rows of this type."""
    image = pa.list_(row) if envelope.listed else row
    fields = [
        pa.field(envelope.before, image),
        pa.field(envelope.after, image),
        pa.field(envelope.kind, pa.string()),
    ]
    within = [] if envelope.within is None else [pa.field(envelope.within, pa.struct(fields))]
    return pa.schema([*fields, *within])


def _parsed(strings: pa.Array, field: pa.Field) -> pa.Array:
    """Return strings as values of a column. Raise RowsError."""
    try:
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            try:
                return conform(strings, field.type)
            except pa.ArrowInvalid:  # Times without a zone are in UTC.
                plain = strings.cast(pa.timestamp(field.type.unit))
                return pc.assume_timezone(plain, "UTC").cast(field.type)
        return conform(strings, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise RowsError(f"column {field.name!r}: {error}") from None


def _origin(decoded: Decoded, payloads: int) -> Places:
    return np.arange(payloads) if decoded.origin is None else decoded.origin


def _mask(values: pa.Array) -> Mask:
    found: Mask = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return found
