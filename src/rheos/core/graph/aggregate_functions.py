"""Aggregates that users write in Python: what is kept of records, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

A = TypeVar("A")


class AggregateFunction(Generic[A]):
    """Takes records one by one into an accumulator, of which a result is made.

    The accumulator is what is kept, whatever number of records went into it. Its type is what
    `create_accumulator` is annotated with: a dataclass, a number, a text, a list of these. `add` and
    `merge` may change what they are given and give it back.

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
        """That of no records. Called for each that is begun."""
        raise NotImplementedError

    def add(self, record: Any, accumulator: A) -> A:
        """The accumulator with a record more."""
        raise NotImplementedError

    def get_result(self, accumulator: A) -> Any:
        """The record that is given for it. The accumulator may be added to later."""
        raise NotImplementedError

    def merge(self, a: A, b: A) -> A:
        """That of the records of both. Needed where windows merge, such as sessions."""
        raise NotImplementedError


class ReducingFunction(AggregateFunction[Any]):
    """Combines records two by two: the accumulator is the combined record, None before the first."""

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
