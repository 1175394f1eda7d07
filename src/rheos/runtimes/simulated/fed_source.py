"""A source whose host provides each row and each watermark: for harnesses and tests of incidents."""

from __future__ import annotations

from collections.abc import Sequence

from rheos.core.connectors.contract import Pending, Split
from rheos.core.operators.contract import OperatorContext, Out
from rheos.core.operators.source import EndOfInput, Read, SourceOperator, SourceSpec
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, Batch


class FedSource(SourceOperator):
    """A source operator that returns the rows of `rows`, one batch per poll. The rows have the hidden
    columns of the source, and all belong to split 0."""

    def __init__(self, ctx: OperatorContext, spec: SourceSpec, splits: Sequence[Split] = ()) -> None:
        super().__init__(ctx, spec, splits)
        self.rows: list[Batch] = []
        self.watermark_ms = MIN_TIMESTAMP_MS
        self.has_ended = False

    def poll(self, max_rows: int) -> Read:
        if self.rows:
            return [Out(self.rows.pop(0))]
        return EndOfInput() if self.has_ended else Pending(None)

    def watermark(self) -> int:
        return self.watermark_ms

    def idle(self) -> bool:
        return False

    def unread(self, idle_after_us: int | None) -> list[tuple[int, bool]]:
        return [] if self.has_ended else [(0, False)]
