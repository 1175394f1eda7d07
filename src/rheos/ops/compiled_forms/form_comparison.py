"""Compares the two forms of a function: both receive the same input, and must have the same effects.

The effects are the emitted rows, the error, and the state. To find the first record that makes a
difference, the input is replayed: whole up to the delivery that differs, and then record by record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, zip_longest
from typing import Any, TypeAlias

import pyarrow as pa

from rheos.core.errors import RheosError, unexpected
from rheos.core.operators.contract import OperatorSpec, Restored
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import HIDDEN_PREFIX, Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.protocol.shown_rows import rows_values, values_of
from rheos.core.protocol.state_config import StateConfig
from rheos.core.task.contexts import OperatorContexts
from rheos.ops.debugging.deliveries import Delivery, Rows, deliver, pieces
from rheos.ops.debugging.key_state import tables_of
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.io import InstantIo

_JOB = JobId("check")
_BATCH_ROWS = 1024
_NOTHING = "nothing"


@dataclass(frozen=True)
class FormDifference:
    """The first difference between the forms."""

    record: dict[str, Any] | None
    """Record that was being processed; None for timers, and if only a whole batch shows the
    difference."""
    key: dict[str, Any] | None
    """Key of the record; None for operators without keys."""
    what: str
    """The effect that differs: an output, an error, or a state."""
    interpreted: str
    compiled: str


@dataclass(frozen=True)
class FormResult:
    """The result of the comparison for one operator."""

    rows: int
    """Number of rows that both forms received."""
    repeated: Sequence[RheosError]
    """Errors of compiled calls that Python repeated. From then on Python processed the rows."""
    difference: FormDifference | None


def compare_forms(
    planned: PlannedOperator, plan: PhysicalPlan, deliveries: Sequence[Delivery]
) -> FormResult:
    """Run both forms of an operator's function over the operator's input.

    Args:
        planned: An operator whose function has a compiled form.
        plan: The program of the operator.
        deliveries: The input of the operator.

    Returns:
        The first difference, and the number of rows that were compared.
    """
    rows = sum(each.batch.num_rows for each in deliveries if isinstance(each, Rows))
    with _Pair(planned, plan) as pair:
        first = pair.first_difference(deliveries)
        repeated = pair.repeated
        if first is None and pair.compare_state() is None:
            return FormResult(rows, repeated, None)
    first = _first_of_state(planned, plan, deliveries, first)
    before, differing = deliveries[:first], deliveries[first]
    found = _found_by_pieces(planned, plan, before, differing)
    if found is None:
        with _Pair(planned, plan) as pair:
            pair.first_difference(before)
            what = pair.deliver(differing) or pair.compare_state()
        assert what is not None
        found = FormDifference(None, None, *what)
    return FormResult(rows, repeated, found)


def _first_of_state(
    planned: PlannedOperator, plan: PhysicalPlan, deliveries: Sequence[Delivery], differs: int | None
) -> int:
    """Return the number of the first delivery after which the states differ.

    The emitted rows differ at the delivery `differs`, or the states after the last delivery if it is
    None. A difference of state is assumed to remain, so the search halves the deliveries.
    """
    low, high = 0, len(deliveries) - 1 if differs is None else differs
    while low < high:
        middle = (low + high) // 2
        with _Pair(planned, plan) as pair:
            pair.first_difference(deliveries[: middle + 1])
            if pair.compare_state() is None:
                low = middle + 1
            else:
                high = middle
    return low


def _found_by_pieces(
    planned: PlannedOperator, plan: PhysicalPlan, before: Sequence[Delivery], delivery: Delivery
) -> FormDifference | None:
    """Return the difference after the first record of a delivery that makes one; None if no single
    record does."""
    with _Pair(planned, plan) as pair:
        pair.first_difference(before)
        for piece in pieces(delivery):
            what = pair.deliver(piece) or pair.compare_state()
            if what is not None:
                return FormDifference(*_record(planned, piece), *what)
    return None


def _record(
    planned: PlannedOperator, piece: Delivery
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the record of a delivery of one row, and its key."""
    if not isinstance(piece, Rows):
        return None, None
    [record] = rows_values(piece.batch)
    keys = planned.ports[piece.port].keys
    return record, {name: record.get(name) for name in keys} if keys else None


# --- the two forms ------------------------------------------------------------------------------------

_Row: TypeAlias = tuple[str, str]
"""The visible values of a row, and those of its hidden columns. Equal strings mean equal values."""

_What: TypeAlias = tuple[str, str, str]
"""The effect that differs, and its description in the interpreted and in the compiled form."""


@dataclass(frozen=True)
class _Effects:
    """The effects of one delivery."""

    rows: Mapping[str, Sequence[_Row]]
    """Emitted rows by output."""
    error: RheosError | None

    @property
    def error_text(self) -> str:
        """The class of the exception and its line. Messages of compiled code may name other details."""
        if self.error is None:
            return _NOTHING
        return f"{self.error.what.partition(':')[0]} at {self.error.site}"


class _Form:
    """One form of the operator. A form that has failed takes no more input."""

    def __init__(self, planned: PlannedOperator, plan: PhysicalPlan, spec: OperatorSpec) -> None:
        contexts = OperatorContexts(
            job=_JOB,
            attempt=Attempt(1),
            max_parallelism=plan.max_parallelism,
            clock=SimClock(),
            io=InstantIo(),
            batch_rows=_BATCH_ROWS,
            state=StateConfig().without_limits(),
            program=replace(plan.context, compiles_at_once=True),
        )
        self._ctx = contexts.of(planned)
        self._numbers = count(1)
        self._planned = planned
        self.failed = False
        self.operator = spec.operator(self._ctx)
        nothing: Restored = {}
        self.operator.open(nothing)

    @property
    def repeated(self) -> Sequence[RheosError]:
        return tuple(self._ctx.compiled_errors)

    def deliver(self, delivery: Delivery) -> _Effects:
        rows: dict[str, list[_Row]] = {}
        error: RheosError | None = None
        try:
            for out in deliver(self.operator, delivery):
                rows.setdefault(out.tag, []).extend(_texts(out.batch))
        except Exception as raised:
            known = raised if isinstance(raised, RheosError) else unexpected(raised)
            error = known.located(site=self._planned.site, operator=self._planned.name)
            self.failed = True
        return _Effects(rows, error)

    def state(self) -> dict[str, list[_Row]]:
        """Return the rows of each state, in a fixed order."""
        snapshot = self.operator.snapshot(CheckpointId(next(self._numbers)))
        found = {
            part.state: sorted(text for table in tables_of(part) for text in _texts(table))
            for part in self.operator.savepoint(snapshot)
        }
        if snapshot.release is not None:
            snapshot.release()
        return found


class _Pair:
    """Both forms, with the same input so far."""

    def __init__(self, planned: PlannedOperator, plan: PhysicalPlan) -> None:
        self._forms = [
            _Form(planned, plan, spec) for spec in (planned.spec.interpreted(), planned.spec)
        ]

    def __enter__(self) -> _Pair:
        return self

    def __exit__(self, *_: object) -> None:
        for form in self._forms:
            form.operator.close()

    @property
    def repeated(self) -> Sequence[RheosError]:
        """Errors of compiled calls that Python repeated."""
        return self._forms[1].repeated

    def first_difference(self, deliveries: Sequence[Delivery]) -> int | None:
        """Deliver the input up to the first difference, or to the error of both forms. Return the
        number of the delivery that differs."""
        for number, delivery in enumerate(deliveries):
            if self.deliver(delivery) is not None:
                return number
        return None

    def deliver(self, delivery: Delivery) -> _What | None:
        """Deliver to both forms, unless they have failed. Return the difference in what they emit."""
        if any(form.failed for form in self._forms):
            return None
        plain, compiled = (form.deliver(delivery) for form in self._forms)
        for tag in dict.fromkeys((*plain.rows, *compiled.rows)):
            what = f"output {tag!r}" if tag else "output"
            for one, other in zip_longest(plain.rows.get(tag, ()), compiled.rows.get(tag, ())):
                if one != other and not (plain.error and compiled.error):
                    return what, *_spell_rows(one, other)
        if plain.error_text != compiled.error_text:
            return "error", _error(plain.error), _error(compiled.error)
        return None

    def compare_state(self) -> _What | None:
        """Return the first row of state that differs."""
        if any(form.failed for form in self._forms):
            return None
        plain, compiled = (form.state() for form in self._forms)
        for name in dict.fromkeys((*plain, *compiled)):
            for one, other in zip_longest(plain.get(name, ()), compiled.get(name, ())):
                if one != other:
                    return f"state {name!r}", *_spell_rows(one, other)
        return None


def _error(error: RheosError | None) -> str:
    return _NOTHING if error is None else f"{error.site}: {error.what}"


def _spell_rows(one: _Row | None, other: _Row | None) -> tuple[str, str]:
    """Return two rows as they are printed, with hidden columns only if these make the difference."""
    hides = one is None or other is None or one[0] != other[0]
    pair = (_NOTHING if row is None else row[0] if hides else " ".join(row) for row in (one, other))
    return next(pair), next(pair)


def _texts(rows: Batch | pa.Table) -> Iterator[_Row]:
    names = rows.schema.names
    visible = [name for name in names if not name.startswith(HIDDEN_PREFIX)]
    hidden = [name for name in names if name not in visible]
    values = {name: values_of(rows.column(name)) for name in names}
    for at in range(rows.num_rows):
        texts = (repr({name: values[name][at] for name in of}) for of in (visible, hidden))
        yield next(texts), next(texts)
