"""The end of a stream: rows are passed to a sink's writer, and staged rows are committed with their
checkpoint.

```python
def build(env):
    return env.from_source(rh.collection([{"n": n} for n in range(100)]))

for seed in range(3):  # Whatever goes wrong, each row is committed once.
    done = simulate(build, seed=seed)
    assert sorted(done.out["n"].to_pylist()) == list(range(100))
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rheos.core.connectors import sink_capabilities
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.connectors.outages import unpublished
from rheos.core.connectors.sink_capabilities import HasRoom
from rheos.core.errors import RheosError
from rheos.core.operators.contract import (
    CommittingOperator,
    Operator,
    OperatorContext,
    Out,
    Restored,
    RowSpec,
)
from rheos.core.protocol.elements import Batch, strip_hidden, visible
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.snapshots import Snapshot
from rheos.core.redaction import redacted


@dataclass(frozen=True)
class SinkSpec(RowSpec):
    """Writes rows to a sink."""

    kind: ClassVar[str] = "sink"

    sink: Sink

    def operator(self, ctx: OperatorContext) -> Operator:
        return SinkOperator(ctx, self)

    @property
    def takes_changes(self) -> bool:
        return sink_capabilities.takes_changes(self.sink)

    @property
    def writes_to(self) -> Sink | None:
        return self.sink

    def summary(self) -> str:
        return f"writes {redacted(self.sink.describe())}"


class SinkOperator(CommittingOperator):
    """Writes the visible columns. Each checkpoint stages the rows written since the previous one."""

    def __init__(self, ctx: OperatorContext, spec: SinkSpec) -> None:
        super().__init__(ctx)
        self._sink = spec.sink
        self._writer: SinkWriter | None = None
        self._committer: Committer | None = spec.sink.committer()
        shown = visible(ctx.ports[0].schema)
        self._has_hidden = len(shown) < len(ctx.ports[0].schema)
        self._bounded: HasRoom | None = None
        """The writer, if it cannot always take rows."""

    def open(self, restored: Restored) -> None:
        ctx = self.ctx
        self._writer = self._sink.open(
            SinkContext(
                job=ctx.job,
                attempt=ctx.attempt,
                operator=ctx.operator,
                subtask=ctx.subtask,
                clock=ctx.clock,
                io=ctx.io,
                schema=visible(ctx.ports[0].schema),
                name=ctx.name,
                count=ctx.count,
            )
        )
        self._bounded = self._writer if isinstance(self._writer, HasRoom) else None
        self._committer = sink_capabilities.own_committer(self._writer) or self._committer

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        assert self._writer is not None
        if batch.num_rows:
            self._writer.write(strip_hidden(batch) if self._has_hidden else batch)
        return iter(())

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        assert self._writer is not None
        return Snapshot(committables=self._writer.prepare(checkpoint))

    @property
    def published_by_driver(self) -> bool:
        return self._committer is not None and sink_capabilities.commits_on_driver(self._committer)

    def commit(self, committables: list[bytes]) -> None:
        if self._committer is None or self.published_by_driver or not committables:
            return  # CP28: the driver had published it before this call.
        try:
            self._committer.commit(committables)
        except RheosError as error:
            raise error.located(site=self.ctx.site, operator=self.ctx.name) from error.__cause__
        except Exception as error:
            unlocated = unpublished(error, "a checkpoint")
            raise unlocated.located(site=self.ctx.site, operator=self.ctx.name) from error

    def has_room(self) -> bool:
        return self._bounded is None or self._bounded.has_room()

    def close(self) -> None:
        if self._writer is not None:
            writer, self._writer, self._bounded = self._writer, None, None
            writer.close()
