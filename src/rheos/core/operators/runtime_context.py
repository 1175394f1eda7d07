"""The context that a user's function receives in `open`: its position, parameters and metrics."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from math import isfinite
from numbers import Integral, Number
from pathlib import Path
from typing import Any, TypeVar

from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.graph.parameters import Parameters
from rheos.core.known_names import names_hint
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.records import UserRaised, user_error
from rheos.core.protocol.accumulators import MOST_INT, Accumulated, bounded, bucket_of
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.safe_strings import shown

_NAME = re.compile(r"[^\s/]+")


class Counter:
    """A count that is reported with the operator's progress, summed over its subtasks and attempts. A
    row that is processed again after a failure counts once."""

    __slots__ = ("_counts", "_name")

    def __init__(self, counts: dict[str, int], name: str) -> None:
        self._counts, self._name = counts, name
        counts.setdefault(name, 0)

    def add(self, by: int = 1) -> None:
        """Add a whole number. Raise ProgramError for another value, or if the count gets too large."""
        if by.__class__ is not int or not -MOST_INT <= self._counts[self._name] + by <= MOST_INT:
            by = self._whole(by)
        self._counts[self._name] += by

    def _whole(self, by: Any) -> int:
        if isinstance(by, Integral) and abs(self._counts[self._name] + int(by)) <= MOST_INT:
            return int(by)
        raise ProgramError(
            f"the counter {self._name!r} received {shown(by)}, but counts 64-bit integers",
            hint="use ctx.accumulator(...) for other numbers",
        )

    @property
    def value(self) -> int:
        """Return the count of this subtask since the attempt began."""
        return self._counts[self._name]


class Accumulator:
    """Statistics of numbers over all subtasks and attempts: their count, sum, least and greatest. As in
    a counter, a row that is processed again counts once."""

    __slots__ = ("_least", "_most", "_n", "_total")

    def __init__(self) -> None:
        self._n = 0
        self._total: int | float = 0
        self._least: int | float | None = None
        self._most: int | float | None = None

    def add(self, value: int | float) -> None:
        """Add a number. Raise ProgramError if it is not a finite number."""
        if (value.__class__ is not float and value.__class__ is not int) or not -9e18 < value < 9e18:
            value = _finite(value)
        if self._least is None or self._most is None:
            self._least = self._most = value
        elif value < self._least:
            self._least = value
        elif value > self._most:
            self._most = value
        self._n += 1
        self._total += value

    @property
    def value(self) -> Accumulated:
        """Return the sum, count and extremes of this subtask since the attempt began."""
        return Accumulated(self._n, bounded(self._total), self._least, self._most)


class Distribution(Accumulator):
    """An accumulator that also estimates quantiles of its numbers, within 3 %."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        super().__init__()
        self._buckets: dict[int, int] = {}

    def add(self, value: int | float) -> None:
        super().add(value)
        bucket = bucket_of(value)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    @property
    def value(self) -> Accumulated:
        return Accumulated(self._n, bounded(self._total), self._least, self._most, self._buckets.copy())


A = TypeVar("A", bound=Accumulator)


class RuntimeContext:
    """Context of a running function: its place in the job, parameters, metrics and files.

    `open` receives it and may keep it.

    ```python
    class Score(rh.RichFunction):
        def open(self, ctx: rh.RuntimeContext) -> None:
            self.least = ctx.parameters.float("least", default=0.5)
            self.low = ctx.counter("low")

        def __call__(self, row: Text) -> Scored: ...
    ```
    """

    def __init__(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self.watermark: int = MIN_TIMESTAMP_MS
        """Event-time progress of this subtask, in ms since the epoch. It depends on the arrival of
        rows, and differs from run to run."""

    @property
    def subtask(self) -> int:
        """Return the number of this subtask among those of the operator, from 0."""
        return self._ctx.subtask

    @property
    def parallelism(self) -> int:
        """Return the number of subtasks in which the operator has rows."""
        return self._ctx.parallelism

    @property
    def attempt(self) -> int:
        """Return the number of times the job was started, including restarts: 1 the first time."""
        return int(self._ctx.attempt)

    @property
    def job_name(self) -> str:
        return self._ctx.program.name

    @property
    def job_id(self) -> str:
        return str(self._ctx.job)

    @property
    def operator(self) -> str:
        """Return the operator's name."""
        return self._ctx.name

    @property
    def parameters(self) -> Parameters:
        """Return the parameters: `rh.Environment(parameters={...})`, `rheos run --param name=value`."""
        return self._ctx.program.parameters

    def counter(self, name: str) -> Counter:
        """Return a counter of the operator. The job's status shows it.

        Args:
            name: Name of the counter.

        Returns:
            The counter; `JobResult.counter(operator, name)` returns its total of all subtasks.
        """
        return Counter(self._ctx.counters, _checked(name))

    def accumulator(self, name: str) -> Accumulator:
        """Return an accumulator of the operator: the sum, minimum and maximum of added numbers.

        Args:
            name: Name of the accumulator.

        Returns:
            The accumulator; `JobResult.accumulator(operator, name)` returns its total of all subtasks.
        """
        return self._accumulator(name, Accumulator)

    def histogram(self, name: str) -> Distribution:
        """Return a histogram of the operator, for quantiles of added numbers.

        Args:
            name: Name of the histogram.

        Returns:
            The histogram; `JobResult.accumulator(operator, name).quantile(0.99)` is a quantile of all
            subtasks.
        """
        return self._accumulator(name, Distribution)

    def _accumulator(self, name: str, kind: type[A]) -> A:
        known = self._ctx.accumulators.setdefault(_checked(name), kind())
        if not isinstance(known, kind) or type(known) is not kind:
            raise ProgramError(f"{name!r} is already an accumulator of another kind")
        return known

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Declare a gauge of the operator: a function that returns its current value.

        The subtask calls it about once a second. The job's status shows the maximum of all subtasks.

        Args:
            name: Name of the gauge.
            read: Returns the current value.
        """
        self._ctx.gauges[_checked(name)] = read

    def file(self, name: str) -> Path:
        """Return the local path of a file or folder of the job.

        Args:
            name: The name in `rh.Environment(files={name: path})`.

        Returns:
            The path on the subtask's machine.

        Raises:
            ConfigurationError: The job has no such file.
        """
        files = self._ctx.program.files
        if name not in files:
            raise ConfigurationError(
                f"the job has no file {name!r}",
                hint=names_hint(name, sorted(files), "the files are")
                + f"; add it: rh.Environment(files={{{name!r}: ...}})",
            )
        return Path(files[name])


def _finite(value: Any) -> int | float:
    """Return the value as an int or float that can be stored. Raise ProgramError if it is not
    finite."""
    try:
        if isinstance(value, Integral) and abs(int(value)) <= MOST_INT:
            return int(value)
        if isinstance(value, Number) and isfinite(number := float(value)):  # type: ignore[arg-type]
            return number
    except (OverflowError, TypeError, ValueError):
        pass
    raise ProgramError(
        f"{shown(value)} was added to an accumulator, but is not a finite number",
        hint="skip such values, and count them: ctx.counter(...).add()",
    )


def _checked(name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ProgramError(
            f"the name of a metric must be a string without spaces and slashes, not {name!r}"
        )
    return name


def read_gauge(ctx: OperatorContext, name: str, read: Callable[[], float]) -> float:
    """Return the value of a gauge. Raise an error if the user's function fails or returns no number."""
    try:
        return float(read())
    except UserRaised as error:
        raised = user_error(ctx, error)
        raise raised.located(site=ctx.site, operator=f"{ctx.name}, gauge {name}") from error


def opening(fn: Any, runtime: RuntimeContext) -> Callable[[], Any]:
    """Return a call of the function's `open`, which takes the context or no argument."""
    if inspect.signature(fn.open).parameters:
        return lambda: fn.open(runtime)
    plain: Callable[[], Any] = fn.open
    return plain
