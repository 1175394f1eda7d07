"""Calls of Python from compiled code.

Compiled code and Python share two arrays. The first has the address of a C function, the result, and
two numbers for each operand: its value, and whether it is None. The second has the result and the
operands that are floats. Strings are passed as their codes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from rheos.core.compiler.operations import REMEMBERED, ScalarOperation, result_kind
from rheos.core.compiler.values import BITS_64, Kind
from rheos.core.compiler.writer import Parameter
from rheos.core.state.columnar.string_codes import StringCodes


@intrinsic
def _call_address(typing, address, number):  # type: ignore[no-untyped-def]
    def write(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        whole = ir.IntType(64)
        called = builder.inttoptr(arguments[0], ir.FunctionType(whole, [whole]).as_pointer())
        return builder.call(called, [arguments[1]])

    return types.int64(types.int64, types.int64), write


@njit(error_model="numpy")
def call_python(numbers, operation, failed, number):  # type: ignore[no-untyped-def]
    """Let Python evaluate an operation, unless the row has failed. Record a failure if it raises."""
    if failed[0] == 0 and _call_address(numbers[0], np.int64(operation)) != 0:
        failed[0] = number


NAMES = {"call_python": call_python}
"""Functions that generated code may call."""


class PythonCalls:
    """Evaluates the operations of one loop."""

    def __init__(self, operations: Sequence[ScalarOperation], texts: StringCodes) -> None:
        most = max(len(operation.operands) for operation in operations)
        self._texts = texts
        self._functions = [operation.function() for operation in operations]
        self._results = [operation.result for operation in operations]
        self.numbers = np.zeros(2 + 2 * most, np.int64)
        self.floats = np.zeros(1 + most, np.float64)
        self._whole, self._part = self.numbers.data, self.floats.data
        self._operands = [
            [self._reader(at, kind, null) for at, (kind, null) in enumerate(pairs)]
            for operation in operations
            for pairs in [list(zip(operation.operands, operation.nullable, strict=True))]
        ]
        self._remembered: dict[int, npt.NDArray[np.int64]] = {
            at: np.zeros(REMEMBERED * operation.line_length(), np.int64)
            for at, operation in enumerate(operations)
            if operation.is_remembered()
        }
        self._generation = texts.generation
        self._error: BaseException | None = None
        self._callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(self._evaluate)
        self.numbers[0] = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def array(self, parameter: Parameter) -> npt.NDArray[Any]:
        """Return an array that compiled code shares with this object."""
        match parameter.source:
            case "numbers":
                return self.numbers
            case "floats":
                return self.floats
        if self._generation != self._texts.generation:
            # Strings have other codes than those that were remembered.
            self._generation = self._texts.generation
            for results in self._remembered.values():
                results[:] = 0
        return self._remembered[int(parameter.name)]

    def raised(self) -> Exception:
        """Return the exception of the call that failed. If it is not the user's, such as
        KeyboardInterrupt, raise it."""
        error, self._error = self._error, None
        assert error is not None
        if not isinstance(error, Exception):
            raise error
        return error

    def _reader(self, at: int, kind: Kind, nullable: bool) -> Callable[[], Any]:
        whole, part, text = self._whole, self._part, self._texts.text
        value, null, float_at = 2 + 2 * at, 3 + 2 * at, 1 + at

        def read() -> Any:
            match kind:
                case "float":
                    return part[float_at]
                case "str":
                    return text(whole[value])
                case "bool":
                    return whole[value] != 0
                case "none":
                    return None
                case _:
                    return whole[value]

        return (lambda: None if whole[null] else read()) if nullable else read

    def _evaluate(self, number: int) -> int:
        """Evaluate an operation, store its result, and return 0. Return 1 if it raises, or if
        compiled code does not support its result."""
        try:
            result = self._functions[number](*[read() for read in self._operands[number]])
            kind = self._results[number]
            if result_kind(result) != kind or (kind == "int" and result not in BITS_64):
                raise OverflowError(f"{result!r} is no {kind} of compiled functions")
            if kind == "float":
                self._part[0] = result
            else:
                self._whole[1] = self._texts.code(result) if kind == "str" else int(result)
        except BaseException as error:
            self._error = error
            return 1
        return 0
