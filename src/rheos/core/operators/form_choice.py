"""Decides whether the interpreted or the compiled form of an unmarked function makes the next calls.

The function is interpreted at first. After enough rows it is compiled in another thread. Compiled code
is left if an object from outside the function changes, such as a global, or if batches become small.
It is also left if its batches need more processor time for a row than those of the interpreted form
(`FormCosts`). After many more rows, the function is compiled again, and both are compared again.
A comparison of both forms compiles functions at once (`JobContext.compiles_at_once`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rheos.core.compiler.kernel import compiled_loop
from rheos.core.errors import RheosError, unexpected
from rheos.core.operators.compiled_loops import CompiledCode
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.form_costs import FormCosts, OwnTime
from rheos.core.protocol.ports import Completion

LOGGER = logging.getLogger("rheos.functions")

ENOUGH_ROWS = 100_000
"""Number of rows, in large batches, after which a function is compiled. That costs seconds, so it must
not happen in jobs that end soon."""

LARGE_BATCH = 256
"""Number of rows from which on a batch costs less in compiled code, whose calls have a fixed cost."""

LATER_ROWS = 100_000_000
"""Number of rows, in large batches, after which both forms are compared again."""

_SMALL_BATCHES = 1000
"""Number of successive smaller batches after which a function is interpreted again."""


class FormChoice:
    """The choice for one function of one subtask. `write` writes the loops of the function."""

    def __init__(self, ctx: OperatorContext, write: Callable[[], CompiledCode]) -> None:
        self._ctx = ctx
        self._write = write
        self._code: CompiledCode | None = None
        self._work: Completion[CompiledCode | None] | None = None
        self._rows_left: int | None = ENOUGH_ROWS
        """Number of rows until the function is compiled; None if that is under way or done, or if it
        remains interpreted."""
        self._small_batches = 0
        """Number of small batches since the last large one."""
        self._costs: FormCosts | None = None
        """Costs of both forms; None if the host does not measure processor time."""
        if ctx.processor_ns is not None:
            ctx.own_time = ctx.own_time or OwnTime(ctx.processor_ns)
            self._costs = FormCosts(ctx.own_time, LARGE_BATCH)
        self._until_compared = 0
        """Number of rows until the costs of the running compiled code are compared."""
        self._is_compared = False
        """Whether the running compiled code was compared before, so that the costs of the interpreted
        form are old."""

    def code(self, rows: int = 0) -> CompiledCode | None:
        """Return the code that makes the next calls; None if the interpreted form makes them. `rows` is
        the number of rows that have arrived for them."""
        if self._ctx.program.compiles_at_once:
            return self._code_at_once()
        if self._costs is not None:
            self._costs.settle()
        self._choose(rows)
        if self._costs is not None:
            self._costs.expect(rows, compiled=self._code is not None)
        return self._code

    def _choose(self, rows: int) -> None:
        self._small_batches = 0 if rows >= LARGE_BATCH else self._small_batches + (rows > 0)
        if self._code is not None:
            small = self._small_batches >= _SMALL_BATCHES
            if small or not self._code.holds():
                self.leave(again=small)
            else:
                self._compare(rows)
        elif self._work is not None and self._work.done():
            code, self._work = self._work.result(), None
            if code is not None and code.holds():
                self._code, self._until_compared, self._is_compared = code, 0, False
                if self._costs is not None:
                    self._costs.start_compiled()
        elif self._rows_left is not None and rows >= LARGE_BATCH:
            self._rows_left -= rows
            if self._rows_left <= 0:
                self._rows_left = None
                self._work = self._ctx.io.aside(self._compile)

    def _compare(self, rows: int) -> None:
        """Leave the running compiled code if the interpreted form was faster."""
        self._until_compared -= rows
        costs = None if self._costs is None or self._until_compared > 0 else self._costs.compared()
        if self._costs is None or costs is None:
            return
        self._until_compared = LATER_ROWS
        was_compared, self._is_compared = self._is_compared, True
        if costs.compiled_is_slower and was_compared:
            # Rows may cost more in both forms by now, so the interpreted one is measured again first.
            self._costs.forget_interpreted()
            self.leave(again=True)
        elif costs.compiled_is_slower:
            self.leave()
            self._rows_left = LATER_ROWS
            self._ctx.count("compiled_slower")
            LOGGER.info("%s: the compiled form was slower (%s)", self._ctx.name, costs)

    def _code_at_once(self) -> CompiledCode | None:
        if self._rows_left is not None:
            self._rows_left = None
            self._code = self._compile()
        elif self._code is not None and not self._code.holds():
            self.leave()
        return self._code

    def leave(self, error: BaseException | None = None, *, again: bool = False) -> None:
        """Interpret the function from now on. If `again`, it may be compiled once more. `error` is that
        of the compiled call that failed."""
        self._code = None
        if isinstance(error, RheosError):
            self._ctx.compiled_errors.append(error)
        self._rows_left = ENOUGH_ROWS if again else None

    def _compile(self) -> CompiledCode | None:
        """Compile the function, in another thread. Return None if that is not possible."""
        try:
            code = self._write()
            for loop in code.loops.values():
                compiled_loop(loop, self._ctx.program.code_folder)
        except Exception as error:
            # Nobody has asked for the compiled form, so no failure of the compiler is the user's error.
            self._ctx.compiled_errors.append(unexpected(error))
            return None
        return code
