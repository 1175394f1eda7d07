"""The compiled form of a function of two records that returns one of them, such as the later one.

The stored records of a batch's keys become rows in front of the batch. The compiled form returns the
number of a row for each call. The operator's state remains as it is, so each batch may use either form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.core.compiler.eligibility import Automatic
from rheos.core.compiler.forms import REDUCE
from rheos.core.compiler.kernel import Typing
from rheos.core.operators.automatic_rows import AutomaticRows, automatic_rows, row_typing
from rheos.core.operators.contract import OperatorContext
from rheos.core.protocol.elements import Batch, visible
from rheos.core.protocol.types import RecordCollector, TypeMismatch, rows_of
from rheos.core.state.keys import Key


def choice_typing(schema: pa.Schema, record: type | None) -> Typing:
    """Return the typing of a function that receives two records and returns one of them. `schema` has
    the columns of the input."""
    return row_typing(schema, record, None, REDUCE)


class ChosenRecords:
    """The compiled form of one function of one subtask."""

    def __init__(self, rows: AutomaticRows, schema: pa.Schema, record: type | None) -> None:
        """Create the form. `schema` has the visible columns of the input."""
        self._rows = rows
        self._record = record
        self._schema = schema
        self._stored = RecordCollector(schema, record)

    def results(
        self, keys: Sequence[Key], batch: Batch, stored: Callable[[Sequence[Key]], Mapping[Key, Any]]
    ) -> tuple[Batch, dict[Key, Any]] | None:
        """Call the compiled form for each row. Return None if Python must call the function.

        Args:
            keys: Key of each row.
            batch: The rows.
            stored: Returns the stored records of keys, by key.

        Returns:
            The combined record after each row, and that of each key after the last one.
        """
        code = self._rows.code(batch.num_rows)
        if code is None:
            return None
        numbers: dict[Key, int] = {}
        own = np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int32, len(keys))
        records = stored(list(numbers))
        first = len(records)
        try:
            whole = self._with_stored(list(records.values()), batch)
        except (TypeMismatch, AttributeError, KeyError, TypeError, pa.ArrowException):
            # A restored record has other fields than the rows.
            self._rows.leave()
            return None
        before = np.array([numbers[key] for key in records], np.int32)
        kept = np.full(len(numbers), -1, np.int64)
        kept[before] = np.arange(first)
        chosen = self._rows.chosen(code, whole, first, np.concatenate([before, own]), kept)
        if chosen is None:
            return None
        new = np.flatnonzero(kept >= first)
        combined = dict.fromkeys(numbers)
        combined.update(records)
        names = list(numbers)
        found = rows_of(batch.take(pa.array(kept[new] - first)), self._record)
        combined.update(zip((names[at] for at in new.tolist()), found, strict=True))
        return whole.take(pa.array(chosen)), combined

    def _with_stored(self, records: Sequence[Any], batch: Batch) -> Batch:
        """Return the visible columns of the batch, after rows with the stored records."""
        stored = self._stored
        stored.clear()
        for each in records:
            stored.add(each)
        before, names = stored.batch(), self._schema.names
        columns = [
            pa.concat_arrays(
                [before.column(name).cast(field.type), batch.column(name).cast(field.type)]
            )
            for name, field in zip(names, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def chosen_records(
    ctx: OperatorContext, function: Any, record: type | None, automatic: Automatic
) -> ChosenRecords | None:
    """Return the compiled form of a function; None if it is interpreted."""
    schema = ctx.ports[0].schema
    rows = automatic_rows(ctx, function, automatic, choice_typing(schema, record))
    return None if rows is None else ChosenRecords(rows, visible(schema), record)
