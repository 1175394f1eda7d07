"""Common part of operators that call a plain function. If it is a `RichFunction`, each subtask has its
own copy and opens and closes it with the operator."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from rheos.core.graph.functions import RichFunction
from rheos.core.operators.contract import Operator, OperatorContext, Out, Restored
from rheos.core.operators.records import call_user
from rheos.core.operators.runtime_context import RuntimeContext, opening


class RichFunctionOperator(Operator):
    """Opens and closes the function, and passes event-time progress to it."""

    def __init__(self, ctx: OperatorContext, fn: Any) -> None:
        super().__init__(ctx)
        self._runtime = RuntimeContext(ctx)
        self._rich = copy.deepcopy(fn) if isinstance(fn, RichFunction) else None
        self._fn: Any = fn if self._rich is None else self._rich
        self._open = False

    def open(self, restored: Restored) -> None:
        rich = self._rich
        if rich is not None:
            call_user(self.ctx, lambda: opening(rich, self._runtime)())
            self._open = True

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        self._runtime.watermark = timestamp_ms
        return iter(())

    def close(self) -> None:
        self.close_function()

    def close_function(self) -> None:
        """Close the function if it is open, and raise the errors of its `close`."""
        if self._rich is not None and self._open:
            self._open = False
            call_user(self.ctx, self._rich.close)
