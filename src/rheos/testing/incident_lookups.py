"""Answers of lookups in tests of incidents, one line each: `ada > uk,3`.

A key and a row that was found for it, in the notation of the module `rheos.testing.notation`. A key
with several rows has several lines. The line of a key without rows ends after the `>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import Batch
from rheos.ops.debugging.recorded_lookups import LookupAnswer
from rheos.testing.incident_timeline import spelled_values
from rheos.testing.notation import row_of, shown_row_of, tokens


def answer_lines(
    planned: PlannedOperator, answers: Sequence[LookupAnswer], start: datetime
) -> list[str]:
    """Return the lines of an operator's answers.

    Args:
        planned: The operator.
        answers: Its answers.
        start: The time from which distances are counted.

    Raises:
        ConfigurationError: A value cannot be written so that it can be read again.
    """
    lines = list(_lines(answers, start))
    try:
        is_same = [*map(_spelled, answers_of(planned, lines, start))] == [*map(_spelled, answers)]
    except ProgramError:
        is_same = False
    if not is_same:
        raise ConfigurationError(
            "an answer of this lookup has a value that a test cannot express",
            site=planned.site,
            operator=planned.name,
            hint="make the test of one operator downstream of it: rheos debug JOB --key KEY "
            "--operator OP --as-test FILE",
        )
    return lines


def answers_of(planned: PlannedOperator, lines: Iterable[str], start: datetime) -> list[LookupAnswer]:
    """Return the answers that these lines express.

    Raises:
        ProgramError: A line cannot be parsed.
    """
    lookup = planned.spec.looks_up
    if lookup is None:
        raise ProgramError(
            "this operator is no lookup, so it has no answers",
            site=planned.site,
            operator=planned.name,
            hint="name the id of a lookup in `lookups=`",
        )
    keys = planned.spec.lookup_keys(planned.ports[0].schema)
    found: dict[str, tuple[Batch, list[dict[str, Any]]]] = {}
    for line in lines:
        match tokens(line):
            case [key, ">", *rows] if len(rows) <= 1:
                batch = _batch([row_of(key, keys, start)], keys)
                _, of = found.setdefault(key, (batch, []))
                of += (row_of(row, lookup.schema, start) for row in rows)
            case _:
                raise ProgramError(
                    f"{line!r} is no answer of a lookup",
                    hint="write the key, a > and the row that was found: ada > uk,3",
                )
    return [LookupAnswer(key, _batch(rows, lookup.schema)) for key, rows in found.values()]


def _lines(answers: Iterable[LookupAnswer], start: datetime) -> Iterator[str]:
    for answer in answers:
        [key] = _show_rows(answer.key, start)
        rows = _show_rows(answer.rows, start)
        yield from (f"{key} > {row}" for row in rows)
        if not rows:
            yield f"{key} >"


def _show_rows(rows: Batch, start: datetime) -> list[str]:
    return [shown_row_of(row, rows.schema, start) for row in rows.to_pylist()]


def _batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> Batch:
    return pa.RecordBatch.from_pylist([dict(row) for row in rows], schema)


def _spelled(answer: LookupAnswer) -> tuple[str, str]:
    return spelled_values(answer.key), spelled_values(answer.rows)
