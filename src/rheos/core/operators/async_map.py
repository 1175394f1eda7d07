"""`map_async`: an `async def` function of one record, called for many records concurrently.

A row stays at the input until its answer has arrived (`task/ahead.py`), so it is not operator state. If
the job fails before the answer is emitted, the operator calls the function for the row again.

```python
async def look_up(visit):
    await asyncio.sleep(0.005 * visit.page)
    return {"user": visit.user, "country": "uk" if visit.user == "ada" else "se"}

check_example(
    OperatorExample(
        lambda visits: visits.map_async(look_up, returns={"user": str, "country": str}),
        pa.schema([("user", pa.string()), ("page", pa.int64())]),
        [{"user": "ada", "page": 2}, {"user": "bo", "page": 1}],
    ),
    {"out": [{"user": "ada", "country": "uk"}, {"user": "bo", "country": "se"}]},
)
```
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.connectors.retry import Retry
from rheos.core.graph.nodes import Spec
from rheos.core.operators.async_calls import MISSING, AsyncCalls, CallBatch
from rheos.core.operators.async_loop import WATCH_US, FunctionLoop
from rheos.core.operators.contract import (
    ASKS_OUTSIDE,
    AsyncOperator,
    Operator,
    OperatorContext,
    Out,
    Restored,
    SplitBatch,
    SplitSpec,
    StartedWork,
)
from rheos.core.operators.map import emitted
from rheos.core.operators.runtime_context import RuntimeContext
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ports import Completion
from rheos.core.protocol.types import rows_of

_LOOK_US = 2000
"""Interval in µs at which a batch is checked for rows that can be emitted ahead of the others."""


@dataclass(frozen=True)
class AsyncMapSpec(SplitSpec):
    """Spec of `map_async`: an `async def` function or an AsyncFunction, and how it is called."""

    fn: Any
    record: type | None
    capacity: int
    """Maximum number of concurrent calls in each subtask."""
    timeout_ms: int
    """Time limit of a call, including its retries."""
    order: Literal["ordered", "unordered"]
    retries: Retry | None
    on_timeout: Callable[[Any], Any] | None
    keeps: str | None = None
    """Column whose values the function must not change."""

    kind: ClassVar[str] = "map_async"
    begins_chain: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return AsyncMapOperator(ctx, self)

    def keeping(self, column: str) -> Spec:
        return replace(self, keeps=column)

    def summary(self) -> str:
        return (
            f"{self.order}, {self.capacity} calls at a time, each within {self.timeout_ms / 1000:g} s"
        )

    def differs_elsewhere(self) -> Sequence[str]:
        return (ASKS_OUTSIDE,)


class AsyncMapOperator(AsyncOperator):
    def __init__(self, ctx: OperatorContext, spec: AsyncMapSpec) -> None:
        super().__init__(ctx)
        self.spec = spec
        self._runtime = RuntimeContext(ctx)
        calls = AsyncCalls(
            ctx,
            copy.deepcopy(spec.fn),
            capacity=spec.capacity,
            timeout_ms=spec.timeout_ms,
            retry=spec.retries,
            on_timeout=spec.on_timeout,
        )
        self._loop = FunctionLoop(ctx, calls, spec.timeout_ms)

    def open(self, restored: Restored) -> None:
        self._loop.open(self._runtime)

    def begin(self, port: int, batch: Batch) -> StartedWork:
        calls = CallBatch(rows_of(batch, self.spec.record))
        completion = self._loop.submit(calls)
        return _SubmittedBatch(self, [_SubmittedRows(calls, completion, range(batch.num_rows))])

    def watch(self) -> None:
        """Check the event loop, while answers are awaited; see `FunctionLoop.watch`."""
        self._loop.watch()

    def emit(self, made: list[Any], rows: Sequence[Any], batch: Batch) -> Iterator[Out]:
        for start in range(0, len(made), self.ctx.batch_rows):
            part = slice(start, start + self.ctx.batch_rows)
            of_rows = batch.slice(start, self.ctx.batch_rows)
            yield from emitted(self.ctx, made[part], of_rows, rows[part], None, self.spec.keeps)

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        self._runtime.watermark = timestamp_ms
        return iter(())

    def close(self) -> None:
        self._loop.close()

    def close_function(self) -> None:
        self._loop.close()


@dataclass(slots=True)
class _SubmittedRows:
    """Rows of one batch whose calls were submitted together."""

    calls: CallBatch
    completion: Completion[None]
    places: Sequence[int]
    """Places of those rows in the batch that have not been emitted yet."""


class _SubmittedBatch(StartedWork):
    """Work on the rows whose calls were submitted, in the order of their batch."""

    def __init__(self, operator: AsyncMapOperator, shares: Sequence[_SubmittedRows]) -> None:
        self._operator = operator
        self._shares = shares
        self._looked_us = operator.ctx.clock.monotonic_us()

    def ready(self) -> bool:
        done = [share.completion for share in self._shares if share.completion.done()]
        for completion in done:
            completion.result()
        if len(done) == len(self._shares):
            return True
        self._operator.watch()
        return False

    def wake_after_us(self) -> int | None:
        return _LOOK_US if self._operator.spec.order == "unordered" else WATCH_US

    def part(self, batch: Batch) -> SplitBatch | None:
        now_us = self._operator.ctx.clock.monotonic_us()
        if self._operator.spec.order == "ordered" or now_us - self._looked_us < _LOOK_US:
            return None
        self._looked_us = now_us
        answered = [flag for share in self._shares for flag in _answered(share)]
        if not any(answered):
            return None
        leaving: list[_SubmittedRows] = []
        staying: list[_SubmittedRows] = []
        flags = iter(answered)
        for share in self._shares:
            of_share = list(islice(flags, len(share.places)))
            for shares, wanted in ((leaving, True), (staying, False)):
                places = [p for p, there in zip(share.places, of_share, strict=True) if there is wanted]
                if places:
                    shares.append(_SubmittedRows(share.calls, share.completion, places))
        self._shares = staying
        mask = pa.array(answered)
        return SplitBatch(
            _SubmittedBatch(self._operator, leaving), batch.filter(mask), batch.filter(pc.invert(mask))
        )

    def joined(self, other: StartedWork) -> StartedWork | None:
        assert isinstance(other, _SubmittedBatch)
        if self._operator.spec.order == "ordered":
            return None  # Answered rows wait for unanswered ones before them, without another bound.
        # If all rows have calls in progress, their number is within the capacity.
        shares = [*self._shares, *other._shares]
        if all(share.calls.next == len(share.calls.rows) for share in shares):
            return _SubmittedBatch(self._operator, shares)
        return None

    def finish(self, batch: Batch) -> Iterator[Out]:
        made: list[Any] = []
        rows: list[Any] = []
        for share in self._shares:
            calls, places = share.calls, share.places
            if len(places) == len(calls.rows):
                made, rows = made + calls.results, [*rows, *calls.rows]
            else:
                made += [calls.results[place] for place in places]
                rows += [calls.rows[place] for place in places]
        return self._operator.emit(made, rows, batch)


def _answered(share: _SubmittedRows) -> list[bool]:
    """Return for each row whether its call has completed. Rows after the last started call have not."""
    results, places = share.calls.results, share.places
    called = bisect_left(places, share.calls.next)
    answered = [results[place] is not MISSING for place in places[:called]]
    return answered + [False] * (len(places) - called)
