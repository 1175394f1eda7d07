"""`call_once`: an `async def` function that acts on another system, called once for each key.

A row waits in the operator's state until a checkpoint that contains it is complete. Only then is the
function called (`call_ledger`). The answer is emitted, and remembered by key: later rows with the key
receive it without a call. After a restore, the calls of restored rows are in doubt. They are made
again with the same key, or confirmed first, or their rows go to the side output `"in_doubt"`.

```python
async def charge(payment):
    return {"payment": payment.payment, "receipt": f"receipt {payment.payment}"}

def build(env):
    payments = pa.table({"payment": ["a", "b", "a"]})
    stream = env.from_source(rh.collection(payments))
    return stream.key_by("payment").call_once(charge, returns={"payment": str, "receipt": str})

receipts = simulate(build).rows["out"].column("receipt").to_pylist()
assert sorted(receipts) == ["receipt a", "receipt a", "receipt b"]
```
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa

from rheos.core.connectors.retry import Retry
from rheos.core.errors import ProgramError
from rheos.core.formats.arrow_bytes import table_bytes
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.state import TimeToLive, ValueState
from rheos.core.operators.async_calls import AsyncCalls
from rheos.core.operators.async_loop import WATCH_US, FunctionLoop
from rheos.core.operators.call_ledger import CallLedger, WaitingCall
from rheos.core.operators.contract import (
    ASKS_OUTSIDE,
    HoldingOperator,
    KeySpec,
    Operator,
    OperatorContext,
    Out,
    PortType,
    Restored,
)
from rheos.core.operators.fitting import fitted
from rheos.core.operators.keyed_state import (
    KeyedStateOperator,
    columns_shape,
    declared_shape,
    keyed_shape,
    make_backend,
)
from rheos.core.operators.once_function import OnceCall, OnceFunction, ReleasedCalls
from rheos.core.operators.records import wrong_type
from rheos.core.operators.runtime_context import RuntimeContext
from rheos.core.operators.stored_calls import (
    StoredRow,
    decoded_answer,
    gathered_rows,
)
from rheos.core.protocol.elements import Batch, strip_hidden, visible
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.ports import Completion
from rheos.core.protocol.shapes import StatePurpose, StateShape
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart, StateKind
from rheos.core.protocol.types import TypeMismatch, batch_of, rows_of
from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.kinds import handle_of, stored_types
from rheos.core.state.parts import by_group
from rheos.core.state.scope import KeyScope

IN_DOUBT = "in_doubt"
"""Side output, and counter, of rows whose call an earlier attempt may have made."""

WAITING_CALLS = "waiting_calls"
"""Gauge: number of rows that wait for the answers of their calls."""

ANSWERS = "answers"
"""Name of the state with the remembered answers."""

CALLS = "calls"
"""Name of the state with the rows that wait; also the counter of released calls."""

_GIVEN_UP = b""
"""Remembered instead of an answer if the row of the key went to the side output."""


@dataclass(frozen=True)
class CallOnceSpec(KeySpec):
    """Spec of `call_once`: the function, how it is called, and what happens to calls in doubt."""

    fn: Any
    record: type | None
    confirm: Callable[[Any], Any] | None
    """Async function of a record. Returns the answer of an earlier call, or None if none was made."""
    in_doubt: Literal["call", "divert"]
    remember_ms: int
    """Time in ms for which answers are remembered."""
    capacity: int
    """Maximum number of concurrent calls in each subtask."""
    max_waiting: int
    """Number of waiting rows in each subtask at which the operator takes no more."""
    timeout_ms: int
    """Time limit of a call, including its retries."""
    retries: Retry | None
    answer_schema: pa.Schema
    """Columns of an answer."""
    answer_record: type | None

    kind: ClassVar[str] = "call_once"
    begins_chain: ClassVar[bool] = True
    side_outputs_hint: ClassVar[str | None] = 'call_once() has one: .side_output("in_doubt")'

    def operator(self, ctx: OperatorContext) -> Operator:
        return CallOnceOperator(ctx, self)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        columns = columns_shape(visible(ports[0].schema))
        return {
            CALLS: keyed_shape(ports[0], StatePurpose.ROWS, columns),
            ANSWERS: declared_shape(ports[0], self.answers),
        }

    def stored_types(self) -> Mapping[str, Sequence[Any]]:
        return {ANSWERS: stored_types(self.answers)}

    @property
    def answers(self) -> ValueState[bytes]:
        """Return the declaration of the remembered answers: one row each, as an Arrow stream."""
        declared = ValueState(bytes, ttl=TimeToLive(f"{self.remember_ms}ms", time="processing_time"))
        declared.name = ANSWERS
        return declared

    @property
    def keeps_rows(self) -> bool:
        return True

    @property
    def acts_outside(self) -> bool:
        return True

    def check_bounded(self) -> None:
        raise ProgramError(
            "call_once() makes its calls when checkpoints are complete, and a batch job takes none",
            hint='use runtime="continuous": the job ends when its input has ended and all calls are '
            "answered",
        )

    def summary(self) -> str:
        doubt = "confirmed first" if self.confirm is not None else f"in doubt: {self.in_doubt}"
        return f"{self.capacity} calls at a time, each within {self.timeout_ms / 1000:g} s; {doubt}"

    def differs_elsewhere(self) -> Sequence[str]:
        return (ASKS_OUTSIDE,)


class CallOnceOperator(KeyedStateOperator, HoldingOperator):
    def __init__(self, ctx: OperatorContext, spec: CallOnceSpec) -> None:
        super().__init__(ctx)
        port = ctx.ports[0]
        self.spec = spec
        self._schema = visible(port.schema)
        self._codec = KeyCodec(port.schema, port.keys, port.keyed_at)
        self._scope = KeyScope(ctx.clock)
        self.backend = make_backend(ctx, self._codec, self._scope)
        self._answers = handle_of(spec.answers, self.backend)
        self._ledger: CallLedger[StoredRow] = CallLedger()
        self._arrived: deque[tuple[Key, Any]] = deque()
        """Answers that are not emitted yet. Filled in the loop's thread."""
        self._running: list[Completion[None]] = []
        self._watch_ms = 0
        """Time of the next check of the event loop."""
        calls = AsyncCalls(
            ctx,
            OnceFunction(spec.fn, spec.confirm),
            capacity=spec.capacity,
            timeout_ms=spec.timeout_ms,
            retry=spec.retries,
            on_timeout=None,
        )
        self._loop = FunctionLoop(ctx, calls, spec.timeout_ms)
        ctx.gauges[WAITING_CALLS] = self.waiting_rows

    def open(self, restored: Restored) -> None:
        if self.spec.in_doubt == "divert" and IN_DOUBT not in self.ctx.outputs:
            raise ProgramError(
                "no operator reads the rows in doubt, so they would be lost",
                hint='write the side output to a sink: answers.side_output("in_doubt").sink_to(...)',
            )
        super().open(restored)
        for table in restored.get(CALLS, ()):
            for batch in fitted(table, self._schema, "rows that wait for calls").to_batches():
                for at, key in enumerate(self._codec.of(batch)):
                    self._ledger.restore(key, (batch, at))
        self._loop.open(RuntimeContext(self.ctx))

    # --- rows -------------------------------------------------------------------------------------

    @property
    def capacity_rows(self) -> int:
        return self.spec.max_waiting

    def waiting_rows(self) -> int:
        return self._ledger.rows

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        rows, keys = strip_hidden(batch), self._codec.of(batch)
        remembered: list[bytes] = []
        given_up: list[StoredRow] = []
        stride = self.backend.stride
        for first in range(0, len(keys), stride):
            piece = keys[first : first + stride]
            self.backend.prepare(piece)
            for at, key in enumerate(piece, first):
                self._scope.key = key
                answer = None if self._ledger.waits(key) else self._answers.value
                if answer is None:
                    self._ledger.add(key, (rows, at))
                elif answer == _GIVEN_UP:
                    given_up.append((rows, at))
                else:
                    remembered.append(answer)
        if remembered:
            self.ctx.count("remembered", len(remembered))
            yield from self._emit(
                [decoded_answer(answer, self.spec.answer_schema) for answer in remembered]
            )
        yield from self._divert(given_up)

    def _divert(self, rows: Sequence[StoredRow]) -> Iterator[Out]:
        if not rows:
            return
        self.ctx.count(IN_DOUBT, len(rows))
        output = self.ctx.outputs[IN_DOUBT]
        for begin in range(0, len(rows), self.ctx.batch_rows):
            batch = gathered_rows(rows[begin : begin + self.ctx.batch_rows], self._schema)
            yield Out(batch.cast(output.schema), IN_DOUBT)

    def _emit(self, batches: Sequence[Batch]) -> Iterator[Out]:
        if MAIN not in self.ctx.outputs:
            return
        whole = pa.concat_batches(batches)
        for begin in range(0, whole.num_rows, self.ctx.batch_rows):
            yield Out(whole.slice(begin, self.ctx.batch_rows))

    # --- calls ------------------------------------------------------------------------------------

    def completed(self, checkpoint: CheckpointId) -> None:
        self._ledger.completed(checkpoint)

    def next_processing_time_ms(self) -> int | None:
        if self._arrived or self._ledger.is_due or any(each.done() for each in self._running):
            return self.ctx.clock.now_ms()
        return self._watch_ms if self._running else None

    def on_processing_time(self, now_ms: int) -> Iterator[Out]:
        """Emit the answers that have arrived, and release the calls that are due. Raise the RheosError
        of a call that has failed."""
        for each in self._running:
            if each.done():
                each.result()
        self._running = [each for each in self._running if not each.done()]
        if self._running:
            self._loop.watch()
        self._watch_ms = now_ms + WATCH_US // 1000
        yield from self._accept()
        if self._ledger.is_due:
            yield from self._release()

    def _release(self) -> Iterator[Out]:
        due = self._ledger.release()
        doubtful = [call for call in due if call.in_doubt]
        if doubtful and self.spec.in_doubt == "divert":
            due = [call for call in due if not call.in_doubt]
            for call in doubtful:
                self._ledger.answered(call.key)
            self._remember([(call.key, _GIVEN_UP) for call in doubtful])
            yield from self._divert([row for call in doubtful for row in call.rows])
        elif doubtful:
            self.ctx.count(IN_DOUBT, len(doubtful))
        if not due:
            return
        self.ctx.count(CALLS, len(due))
        records = rows_of(gathered_rows([call.rows[0] for call in due], self._schema), self.spec.record)
        calls = [OnceCall(record, call.in_doubt) for record, call in zip(records, due, strict=True)]
        keys = [call.key for call in due]
        released = ReleasedCalls(calls, keys, self._arrived, self.ctx.io.wake)
        self._running.append(self._loop.submit(released))

    def _accept(self) -> Iterator[Out]:
        """Remember the answers that have arrived, and emit one for each row of their keys."""
        arrived = [self._arrived.popleft() for _ in range(len(self._arrived))]
        if not arrived:
            return
        calls = [self._ledger.answered(key) for key, _ in arrived]
        answers = self._answer_rows(calls, [result for _, result in arrived])
        self._remember([(call.key, table_bytes(answers.slice(at, 1))) for at, call in enumerate(calls)])
        places = [at for at, call in enumerate(calls) for _ in call.rows]
        yield from self._emit([answers.take(pa.array(places, pa.int64()))])

    def _answer_rows(self, calls: Sequence[WaitingCall[StoredRow]], results: list[Any]) -> Batch:
        try:
            return batch_of(results, self.spec.answer_schema, self.spec.answer_record)
        except TypeMismatch as mismatch:
            row = gathered_rows(calls[mismatch.index].rows[:1], self._schema)
            raise wrong_type(self.ctx, mismatch, record=rows_of(row, self.spec.record)[0]) from None

    def _remember(self, answers: Sequence[tuple[Key, bytes]]) -> None:
        stride = self.backend.stride
        for first in range(0, len(answers), stride):
            piece = answers[first : first + stride]
            self.backend.prepare([key for key, _ in piece])
            for key, answer in piece:
                self._scope.key = key
                self._answers.value = answer

    # --- snapshots --------------------------------------------------------------------------------

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        snapshot = super().snapshot(checkpoint)
        snapshot.parts.append(self._part(self._ledger.taken(checkpoint)))
        return snapshot

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        return [*super().savepoint(snapshot), self._part(self._ledger.all_rows())]

    def _part(self, rows: Sequence[StoredRow]) -> SnapshotPart:
        schema, keys, max_parallelism = self._schema, self.ctx.ports[0].keys, self.ctx.max_parallelism
        return SnapshotPart(
            CALLS, StateKind.KEYED, lambda: by_group(gathered_rows(rows, schema), keys, max_parallelism)
        )

    # --- the end ----------------------------------------------------------------------------------

    def close_function(self) -> None:
        self._loop.close()

    def close(self) -> None:
        try:
            self._loop.close()
        finally:
            super().close()
