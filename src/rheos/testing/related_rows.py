"""The source rows that may lead to an expected row of a sink, and those of them that a test needs.

The expected row does not arrive, so no search can find the rows from which it is made. A test without
one of them would fail even after the program is mended. A row may be left out only if a traced run
shows that it led to other rows of the sink, and not to those that arrive in place of the expected one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from rheos.core.graph import functions
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import OperatorSpec
from rheos.core.operators.origins import (
    NoRow,
    OneRow,
    PairOfRows,
    RowsOfWindow,
    SameRow,
)
from rheos.core.operators.window.pane_columns import END, START
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import TS, visible
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.moments import moment_ms
from rheos.ops.debugging.sink_path import SinkPath
from rheos.ops.lineage.answer import Answers
from rheos.ops.lineage.ledger import Ledger
from rheos.ops.lineage.traced_run import TracedRun

MAX_ROWS = 1000
"""Maximum number of rows of a test that may lead to the right row."""
_SAMPLED_ROWS = 100
"""Number of the sink's rows that show whether a column has the values of a source."""


@dataclass(frozen=True)
class ExpectedRow:
    """A row that should arrive at a sink, and a traced run of the path, in which it does not."""

    row: Mapping[str, Any]
    """All columns of the sink."""
    path: SinkPath
    ledger: Ledger
    places: Mapping[OperatorId, int]
    """Number of each operator in the ledger."""
    answers: Answers

    @staticmethod
    def of(row: Mapping[str, Any], path: SinkPath, run: TracedRun, answers: Answers) -> ExpectedRow:
        return ExpectedRow(row, path, run.ledger, run.operators, answers)

    @cached_property
    def operators(self) -> list[PlannedOperator]:
        """Operators upstream of the sink."""
        upstream = self.path.upstream
        return [each for each in self.path.plan.operators() if each.id in upstream]

    @cached_property
    def keyed(self) -> list[PlannedOperator]:
        return [each for each in self.operators if any(port.keys for port in each.ports)]

    @cached_property
    def key_names(self) -> set[str]:
        """Columns of the row that are key columns of an operator."""
        return {name for each in self.keyed for port in each.ports for name in port.keys} & set(
            self.row
        )

    def agrees(self, number: int, names: Collection[str]) -> bool:
        """Return whether a row of the ledger has the values of the expected row in these columns."""
        row = self.ledger.rows[number]
        return all(row.value(name) == self.row[name] for name in names)


# --- rows that may lead to it -------------------------------------------------------------------------


def related_rows(expected: ExpectedRow) -> set[int]:
    """Return the numbers of the source rows that may lead to the expected row.

    They are those of the keys that the row names, and those that a join combines with them. If it names
    no key, they are those that agree with it in the columns that they share.
    """
    row, names, answers = expected.row, expected.key_names, expected.answers
    of_key = [
        number
        for each in expected.keyed
        for number, key in _arrivals(expected, each)
        if names.issuperset(key) and all(row[name] == value for name, value in key.items())
    ]
    found = {*answers.input_rows(*of_key), *_agreeing_rows(expected, names or set(row))}
    for each in expected.keyed:
        if len(each.ports) > 1:
            found |= _joined_rows(expected, each, found)
    return found


def _arrivals(
    expected: ExpectedRow, planned: PlannedOperator
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the number and the key of each row that arrived at an operator."""
    for arrival in expected.ledger.arrivals(expected.places[planned.id]):
        row = expected.ledger.rows[arrival.row]
        if keys := planned.ports[arrival.port].keys:
            yield arrival.row, {name: row.value(name) for name in keys}


def _agreeing_rows(expected: ExpectedRow, names: set[str]) -> Iterator[int]:
    """Yield the rows of sources that agree with the expected row in all of these columns that they
    have. They may be dropped before an operator receives them."""
    columns = {
        expected.places[source.id]: names.intersection(source.outputs[MAIN].schema.names)
        for source in expected.path.sources
    }
    for number, row in enumerate(expected.ledger.rows):
        shared = columns.get(row.place)
        if shared and row.tag == MAIN and expected.agrees(number, shared):
            yield number


def _joined_rows(expected: ExpectedRow, planned: PlannedOperator, found: set[int]) -> set[int]:
    """Return the source rows that have the key of one of the found rows at a join. Some of them may be
    dropped before they arrive there."""
    keys_of = _SourceKeys(expected, planned)
    keys = {key for number in found for key in keys_of(number)}
    return {number for number in keys_of.numbers if not keys.isdisjoint(keys_of(number))}


class _SourceKeys:
    """The keys of source rows at a join."""

    def __init__(self, expected: ExpectedRow, join: PlannedOperator) -> None:
        self._rows = expected.ledger.rows
        self._arrived: defaultdict[int, set[str]] = defaultdict(set)
        columns: dict[tuple[int, int], list[list[str]]] = {}
        """Columns of a source that always have the value of a key column, by port and source."""
        for arrival in expected.ledger.arrivals(expected.places[join.id]):
            row = self._rows[arrival.row]
            key = [row.value(name) for name in join.ports[arrival.port].keys]
            for number in expected.answers.input_rows(arrival.row):
                self._arrived[number].add(repr(key))
                source = self._rows[number]
                of_port = (arrival.port, source.place)
                if of_port not in columns:
                    columns[of_port] = [source.batch.schema.names for _ in key]
                columns[of_port] = [
                    [name for name in names if source.value(name) == value]
                    for names, value in zip(columns[of_port], key, strict=True)
                ]
        self._columns: defaultdict[int, list[list[str]]] = defaultdict(list)
        for (port, place), names in columns.items():
            if all(names):
                self._columns[place].append(
                    [
                        own if own in some else some[0]
                        for own, some in zip(join.ports[port].keys, names, strict=True)
                    ]
                )
        self.numbers = [
            number
            for number, row in enumerate(self._rows)
            if row.tag == MAIN and (number in self._arrived or row.place in self._columns)
        ]
        """Numbers of the source rows that arrive at the join, or may be dropped before."""

    def __call__(self, number: int) -> set[str]:
        """Return the keys of a source row: those under which it arrived, or may have arrived."""
        row = self._rows[number]
        own = {repr([row.value(name) for name in names]) for names in self._columns[row.place]}
        return own | self._arrived.get(number, set())


# --- rows that a test needs ---------------------------------------------------------------------------


@dataclass(frozen=True)
class NeededRows:
    """Source rows and watermarks that a test of the expected row must keep."""

    identity: Sequence[str]
    """Columns of the sink. The rows that agree with the expected row in them arrive in its place."""
    rows: frozenset[int]
    """Numbers of source rows."""
    watermarks: bool
    """Whether each watermark between the rows stays: timers of a function may depend on it."""
    last_watermark: bool = True


def needed_rows(
    expected: ExpectedRow, related: Collection[int], until: int | None = None
) -> NeededRows:
    """Return the rows that may be left out of no test of the expected row.

    They are the rows that led to a row in its place, and:

    - if the path ends with windows, and the row names its window: the rows with event times in it;
    - if each row of the path is made of one row of each source, and the expected row names it: these;
    - otherwise all related rows that led to no row of the sink. If none arrives in its place: all.

    Args:
        expected: The expected row.
        related: Numbers of the rows that may lead to it.
        until: Number of the last row that arrives in its place; None: any.
    """
    ledger, answers, names = expected.ledger, expected.answers, expected.key_names
    arrivals = ledger.arrivals(expected.places[expected.path.sink.id])
    own = [each.row for each in arrivals if expected.agrees(each.row, names)]
    windows = _window_columns(expected, own)
    anchors = _anchors(expected, related, own)
    identity = names.union(windows, anchors)
    in_place = [
        number
        for number in own
        if (until is None or number <= until) and expected.agrees(number, identity)
    ]
    made_of = frozenset(answers.input_rows(*in_place))
    origins = [each.spec.origin() for each in expected.operators]
    several = [each for each in origins if not isinstance(each, NoRow | OneRow | SameRow)]
    named = {ledger.rows[number].place: number for number in anchors.values()}
    if windows and all(isinstance(each, RowsOfWindow) for each in several):
        needed = _in_window(expected, related, windows)
    elif len(named) == len(expected.path.sources) and all(
        isinstance(each, PairOfRows) for each in several
    ):
        needed = frozenset(anchors.values())
    elif in_place:
        needed = frozenset(related).difference(answers.input_rows(*own))
    else:
        needed = frozenset()
    return NeededRows(
        sorted(identity),
        (needed | made_of) & frozenset(related) or frozenset(related),
        any(has_timers(each.spec) for each in expected.operators),
    )


def has_timers(spec: OperatorSpec) -> bool:
    """Return whether the function of an operator defines what to do when a timer fires."""
    methods = (
        getattr(type(getattr(spec, "fn", None)), name, None) for name in ("on_timer", "on_timers")
    )
    return any(each is not None and each.__module__ != functions.__name__ for each in methods)


def _window_columns(expected: ExpectedRow, own: Sequence[int]) -> Sequence[str]:
    """Return the columns of the expected row with the start and the end of its window, if it has them.
    Rows of the sink show which columns they are if the program has renamed them."""
    names = [START, END]
    times = [name for name, value in expected.row.items() if isinstance(value, datetime)]
    if own and times and not set(names) <= set(times):
        starts, ends = list(times), list(times)
        for number in own[-_SAMPLED_ROWS:]:
            row = expected.ledger.rows[number]
            steps = expected.answers.explained(number).steps
            windows = [each.window for step in steps for each in step.firings if each.window]
            starts = [
                name for name in starts if _ms(row.value(name)) in {start for start, _ in windows}
            ]
            ends = [name for name in ends if _ms(row.value(name)) in {end for _, end in windows}]
        names = [*starts[:1], *ends[:1]]
    return names if len(names) == 2 and set(names) <= set(times) else ()


def _ms(moment: Any) -> int | None:
    return moment_ms(moment) if isinstance(moment, datetime) else None


def _in_window(
    expected: ExpectedRow, related: Collection[int], window: Sequence[str]
) -> frozenset[int]:
    """Return the rows with event times in the window of the expected row."""
    begin_ms, end_ms = (moment_ms(expected.row[name]) for name in window)
    rows = expected.ledger.rows
    return frozenset(
        number
        for number in related
        if TS not in rows[number].batch.schema.names or begin_ms <= rows[number].value(TS) < end_ms
    )


def _anchors(expected: ExpectedRow, related: Collection[int], own: list[int]) -> dict[str, int]:
    """Return the columns that tell from which source row the expected row is made, with its number.

    In such a column, exactly one related row of a source has the value of the expected row, and each
    row of the sink has the value of a row that led to it.
    """
    ledger = expected.ledger
    found: dict[str, int] = {}
    sample = [(number, expected.answers.input_rows(number)) for number in own[-_SAMPLED_ROWS:]]
    for source in expected.path.sources if sample else ():
        place = expected.places[source.id]
        columns = set(visible(source.outputs[MAIN].schema).names) & set(expected.row)
        for name in sorted(columns - expected.key_names - set(found)):
            of_source = [number for number in related if ledger.rows[number].place == place]
            equal = [number for number in of_source if expected.agrees(number, [name])]
            if len(equal) == 1 and all(
                any(
                    ledger.rows[row].place == place
                    and ledger.rows[row].value(name) == ledger.rows[number].value(name)
                    for row in led
                )
                for number, led in sample
            ):
                found[name] = equal[0]
    return found
