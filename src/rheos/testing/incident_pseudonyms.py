"""Replaces the values of an incident by pseudonyms that lead to the same result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa

from rheos.core.errors import ConfigurationError
from rheos.core.protocol.elements import HIDDEN_PREFIX, Batch
from rheos.ops.debugging.deliveries import Delivery, Rows
from rheos.ops.debugging.incident import DeliveryResult, EmittedRow, Incident, MissingRow
from rheos.ops.debugging.pseudonyms import Pseudonyms


def anonymous(
    incident: Incident, keep: Collection[str], random: Random, *, is_smallest: bool
) -> Incident:
    """Return an incident with other values, which leads to the same result.

    Args:
        incident: The incident.
        keep: Columns whose values are not replaced.
        random: Source of the other values.
        is_smallest: Whether each row of the incident is needed. Each must be needed with the other
            values, too: otherwise the program would drop some of the rows.

    Raises:
        ConfigurationError: The result depends on values that were to be replaced, or on state.
    """
    planned = incident.part.planned
    if incident.part.has_state:
        raise ConfigurationError(
            "the result depends on the key's state in the checkpoint, which cannot be anonymised",
            site=planned.site,
            operator=planned.name,
            hint="begin at an earlier checkpoint, before the first row of the key: --from",
        )
    list(incident.run())  # The part has the answers that its last run has used.
    if incident.part.lookup_answers:
        lookup = incident.part.lookup_answers[0].planned
        raise ConfigurationError(
            "the answers of this lookup cannot be anonymised",
            site=lookup.site,
            operator=lookup.name,
            hint="make the test of one operator downstream of it: rheos debug JOB --key KEY "
            "--operator OP --anonymise --as-test FILE",
        )
    inputs = incident.part.inputs
    columns = list(dict.fromkeys(name for each in inputs for name in _values_of(each.schema)))
    if unknown := sorted(set(keep) - set(columns)):
        raise ConfigurationError(
            f"no input has the column {unknown[0]!r}",
            site=planned.site,
            operator=planned.name,
            hint=f"the columns are {', '.join(columns)}",
        )
    changed = _replaced(incident, set(columns) - set(keep), random, is_smallest)
    if changed is not None:
        return changed
    # Collect the columns that together do not change the result. The others matter.
    free: set[str] = set()
    if isinstance(incident.symptom, MissingRow):
        # Equal keys of two sources are replaced together, or they would not match.
        keys = set(incident.symptom.identity).intersection(columns).difference(keep)
        free = keys if _replaced(incident, keys, random, is_smallest) is not None else free
    for name in columns:
        if (
            name not in {*keep, *free}
            and _replaced(incident, {*free, name}, random, is_smallest) is not None
        ):
            free.add(name)
    needed = [name for name in columns if name not in free]
    raise ConfigurationError(
        f"the result depends on the values of {', '.join(needed)}, so they cannot be replaced",
        site=planned.site,
        operator=planned.name,
        hint=f"keep them if they are not confidential: --keep {','.join(needed)}",
    )


def _replaced(
    incident: Incident, columns: Collection[str], random: Random, is_smallest: bool
) -> Incident | None:
    """Return the incident with other values in these columns; None if it no longer occurs."""
    values = []
    for each in incident.deliveries:
        if isinstance(each, Rows):
            for name in columns:
                if name in each.batch.schema.names:
                    column = each.batch.column(name)
                    values.append((column[0].as_py(), column.type))
    pseudonyms = Pseudonyms(values, random)
    deliveries = tuple(_with_pseudonyms(each, columns, pseudonyms) for each in incident.deliveries)

    def of_key(name: str, value: Any) -> Any:
        try:
            return pseudonyms.of(value) if name in columns else value
        except KeyError:
            return value  # No row of it is left.

    before = list(incident.run())
    place = _place(incident, before)
    other = replace(incident, part=incident.part.with_key(of_key), deliveries=deliveries)
    given = list(other.run())
    if isinstance(incident.symptom, MissingRow):
        missing = _replaced_missing_row(incident.symptom, columns, of_key, before, given)
        if missing is None:
            return None
        other = replace(other, symptom=missing)
    if place is None:
        return other if other.shows() else None
    delivery, number = place
    if len(given) <= delivery or len(given[delivery].rows) <= number:
        return None
    row = given[delivery].rows[number]
    assert isinstance(incident.symptom, EmittedRow)
    if row.output != incident.symptom.output:
        return None
    found = replace(other, symptom=EmittedRow(row.row, row.output))
    return found if not is_smallest or _needs_all_rows(found) else None


def _replaced_missing_row(
    missing: MissingRow,
    columns: Collection[str],
    value_of: Callable[[str, Any], Any],
    before: Sequence[DeliveryResult],
    after: Sequence[DeliveryResult],
) -> MissingRow | None:
    """Return the missing row with the other values of its key and of the source's row that it names.

    Its other values are computed, so they must not depend on the replaced ones: they do not change in
    the rows in its place. If no row is in its place, only the values of its key may be replaced.

    Args:
        missing: The row.
        columns: Columns whose values are replaced.
        value_of: Function that returns the new value of a column.
        before: Results with the original values.
        after: Results with the other values.
    """
    row = {name: value_of(name, missing.row[name]) for name in missing.identity}
    computed = {name: value for name, value in missing.row.items() if name not in row}
    other = replace(missing, row={**missing.row, **row})
    old, new = missing.rows_in_place(before), other.rows_in_place(after)
    if len(old) != len(new) or (computed and not old and not row.keys() >= set(columns)):
        return None
    if any(
        repr(was[name]) != repr(now[name])
        for was, now in zip(old, new, strict=True)
        for name in computed
    ):
        return None
    return replace(other, in_place=other.emitted_in_place(after))


def _needs_all_rows(incident: Incident) -> bool:
    """Return whether the incident does not occur if a row is left out."""
    given = incident.deliveries
    return not any(
        replace(incident, deliveries=given[:at] + given[at + 1 :]).shows()
        for at, each in enumerate(given)
        if isinstance(each, Rows)
    )


def _place(incident: Incident, given: Sequence[DeliveryResult]) -> tuple[int, int] | None:
    """Return the delivery that led to the wrong row, and the row's number; None for an error."""
    if not isinstance(incident.symptom, EmittedRow):
        return None
    for delivery, each in enumerate(given):
        for number, row in enumerate(each.rows):
            if incident.is_shown_by(DeliveryResult([row], None)):
                return delivery, number
    raise AssertionError("an incident shows its symptom")


def _values_of(schema: pa.Schema) -> Iterator[str]:
    return (name for name in schema.names if not name.startswith(HIDDEN_PREFIX))


def _with_pseudonyms(delivery: Delivery, columns: Collection[str], pseudonyms: Pseudonyms) -> Delivery:
    if not isinstance(delivery, Rows):
        return delivery
    batch: Batch = delivery.batch
    arrays = [
        pa.array([pseudonyms.of(batch.column(field.name)[0].as_py())], field.type)
        if field.name in columns
        else batch.column(field.name)
        for field in batch.schema
    ]
    return replace(delivery, batch=pa.RecordBatch.from_arrays(arrays, schema=batch.schema))
