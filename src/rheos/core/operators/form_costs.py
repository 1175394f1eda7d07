"""Measures the processor time of both forms of a function, per row.

The host of an operator measures all calls of the operator with `OwnTime`. Between two choices of the
form, `FormCosts` divides that time by the rows that arrived. So the costs of a form include what it
adds elsewhere in the operator, such as the conversion of columns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

T = TypeVar("T")

_SAMPLES = 8
"""Number of batches of each form whose costs are compared."""

_FEWEST = 3
"""Number of interpreted batches that suffice: compiled code may take over after few large ones."""

_WARM_UPS = 3
"""Number of batches that are not counted after compiled code takes over. The first ones convert the
state, and fill caches of strings."""

MARGIN = 1.15
"""Ratio of the costs from which on compiled code is left: smaller differences do not pay for the
change."""


class OwnTime:
    """Processor time of one operator's calls, without that of the operators downstream."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        """Start to measure. `now_ns` reads the processor time of the thread."""
        self._now_ns = now_ns
        self.spent_ns = 0

    def measure(self, call: Callable[[], Iterator[T]]) -> Iterator[T]:
        """Make a call and yield its output."""
        began_ns = self._now_ns()
        outs = call()
        while True:
            out = next(outs, None)
            self.spent_ns += self._now_ns() - began_ns
            if out is None:
                return
            yield out
            began_ns = self._now_ns()


@dataclass(frozen=True, slots=True)
class RowCosts:
    """Median processor time of each form for a row, in ns."""

    compiled_ns: float
    interpreted_ns: float

    @property
    def compiled_is_slower(self) -> bool:
        return self.compiled_ns > MARGIN * self.interpreted_ns

    def __str__(self) -> str:
        return f"{self.compiled_ns:,.0f} ns against {self.interpreted_ns:,.0f} ns a row"


class FormCosts:
    """The costs of both forms of one function in its latest batches."""

    def __init__(self, time: OwnTime, smallest: int) -> None:
        """Start to measure. Batches of fewer than `smallest` rows are not counted."""
        self._time = time
        self._smallest = smallest
        self._seen_ns = time.spent_ns
        self._rows = {False: 0, True: 0}
        """Number of rows since the last measured call ended, by form."""
        self._costs: dict[bool, deque[float]] = {form: deque(maxlen=_SAMPLES) for form in (False, True)}
        self._warm_ups = 0

    def start_compiled(self) -> None:
        """Forget the costs of compiled code, which takes over now."""
        self._costs[True].clear()
        self._warm_ups = _WARM_UPS

    def forget_interpreted(self) -> None:
        """Forget the costs of interpreted code, which is measured again."""
        self._costs[False].clear()

    def expect(self, rows: int, *, compiled: bool) -> None:
        """Note which form processes the next rows."""
        self._rows[compiled] += rows

    def settle(self) -> None:
        """Divide the time since the last call of this method among the rows that were expected."""
        spent_ns = self._time.spent_ns - self._seen_ns
        if not spent_ns:
            return  # The operator makes several calls for one batch.
        self._seen_ns += spent_ns
        forms = [form for form, rows in self._rows.items() if rows]
        if len(forms) == 1 and self._rows[forms[0]] >= self._smallest:
            self._add(forms[0], spent_ns / self._rows[forms[0]])
        self._rows = {False: 0, True: 0}

    def _add(self, compiled: bool, row_ns: float) -> None:
        if compiled and self._warm_ups:
            self._warm_ups -= 1
        else:
            self._costs[compiled].append(row_ns)

    def compared(self) -> RowCosts | None:
        """Return the costs of both forms; None until enough batches are measured."""
        compiled, interpreted = self._costs[True], self._costs[False]
        if len(compiled) < _SAMPLES or len(interpreted) < _FEWEST:
            return None
        return RowCosts(median(compiled), median(interpreted))
