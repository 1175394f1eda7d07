"""Aggregates that users write in Python: an accumulator of records, and its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

A = TypeVar("A")


class AggregateFunction(Generic[A]):
    """Base class of aggregates: adds records one by one to an accumulator, and computes its result.

    Only the accumulator is stored, however many records were added. Its type is the return annotation
    of `create_accumulator`: a dataclass, a number, a string, or a list of these. `add` and `merge` may
    change their arguments and return them.

    ```python
    @dataclass
    class Range:
        low: float
        high: float

    class Spread(rh.AggregateFunction):
        def create_accumulator(self) -> Range:
            return Range(math.inf, -math.inf)

        def add(self, trade: Trade, accumulator: Range) -> Range:
            return Range(min(accumulator.low, trade.price), max(accumulator.high, trade.price))

        def get_result(self, accumulator: Range) -> SpreadOfTrades:
            return SpreadOfTrades(accumulator.high - accumulator.low)

        def merge(self, a: Range, b: Range) -> Range:
            return Range(min(a.low, b.low), max(a.high, b.high))
    ```
    """

    def create_accumulator(self) -> A:
        """Return an accumulator without records. Rheos calls it once for each new accumulator."""
        raise NotImplementedError

    def add(self, record: Any, accumulator: A) -> A:
        """Return the accumulator after one more record.

        Args:
            record: The record: an instance of the annotated dataclass.
            accumulator: The accumulator of the records before it. It may be changed.

        Returns:
            The accumulator that includes the record.
        """
        raise NotImplementedError

    def get_result(self, accumulator: A) -> Any:
        """Return the result of an accumulator.

        Args:
            accumulator: The accumulator. More records may be added to it later, so do not change it.

        Returns:
            A record of the output type.
        """
        raise NotImplementedError

    def merge(self, a: A, b: A) -> A:
        """Combine two accumulators. Windows that merge, such as sessions, need this method.

        Args:
            a: An accumulator. It may be changed.
            b: The other one.

        Returns:
            The accumulator of the records of both.
        """
        raise NotImplementedError


class ReducingFunction(AggregateFunction[Any]):
    """Combines records pairwise: the accumulator is the combined record, None before the first."""

    def __init__(self, fn: Callable[[Any, Any], Any]) -> None:
        self._fn = fn

    def create_accumulator(self) -> None:
        return None

    def add(self, record: Any, accumulator: Any) -> Any:
        return record if accumulator is None else self._fn(accumulator, record)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, a: Any, b: Any) -> Any:
        return self._fn(a, b)
