"""Writes the calls of operations that Python evaluates."""

from __future__ import annotations

from collections.abc import Sequence

from rheos.core.compiler.operations import REMEMBERED, ScalarOperation
from rheos.core.compiler.values import PYTHON_NAMES, CannotCompile, Kind, Value
from rheos.core.compiler.writer import Parameter, Writer


def write_operation(
    out: Writer, code: str, operands: Sequence[Value], result: Kind, line: int
) -> Value:
    """Write the code that evaluates an operation, and return its result.

    Args:
        out: Receives the code.
        code: Expression of Python, in which `a0`, `a1`, ... are the operands.
        operands: Values that were computed before.
        result: Kind of the result.
        line: Line of the user's file that an error names.
    """
    for operand in operands:
        if operand.kind in ("moment", "duration", "record"):
            hints = {"record": "use its fields", "moment": "call its strftime"}
            hint = hints.get(operand.kind, "call its total_seconds")
            name = PYTHON_NAMES[operand.kind]
            raise CannotCompile(f"{name} as a whole cannot be compiled", line, hint)
    operation = ScalarOperation(
        code,
        tuple(operand.kind for operand in operands),
        tuple(bool(operand.null) for operand in operands),
        result,
    )
    number = out.operation(operation)
    remembered = operation.is_remembered() and not any(
        operand.null and operand.kind != "str" for operand in operands
    )
    if not remembered:
        return Value(result, _call(out, operation, number, operands, line))
    codes = [out.held(_integer(operand)) for operand in operands]
    memory = out.parameter(f"m{number}", Parameter("remembered", f"{number}", "int"))
    mixed = codes[0]
    for each in codes[1:]:
        mixed = f"({mixed} * 1000003 ^ {each})"
    start = out.held(f"(({mixed} ^ {mixed} >> 12) & {REMEMBERED - 1}) * {operation.line_length()}")
    same = " and ".join(f"{memory}[{start} + {at}] == {each}" for at, each in enumerate(codes, 1))
    end = f"{memory}[{start} + {len(codes) + 1}]"
    whole = out.held(end)
    with out.block(f"if not ({memory}[{start}] == 1 and {same}):"):
        whole_again = _call(out, operation, number, operands, line, as_integer=True)
        out.write(f"{whole} = {whole_again}")
        with out.block("if failed[0] == 0:"):
            out.write(f"{memory}[{start}] = 1")
            for at, each in enumerate(codes, 1):
                out.write(f"{memory}[{start} + {at}] = {each}")
            out.write(f"{end} = {whole}")
    return Value(result, out.held(f"{whole} != 0") if result == "bool" else whole)


def _integer(operand: Value) -> str:
    """Return code for the operand as an integer; -1 for a string that is None."""
    code = f"int64({operand.code})"
    return f"-1 if {operand.null} else {code}" if operand.null else code


def _call(
    out: Writer,
    operation: ScalarOperation,
    number: int,
    operands: Sequence[Value],
    line: int,
    *,
    as_integer: bool = False,
) -> str:
    numbers = out.parameter("numbers", Parameter("numbers", "", "int"))
    floats = out.parameter("floats", Parameter("floats", "", "float"))
    for at, operand in enumerate(operands):
        if operand.null:
            out.write(f"{numbers}[{3 + 2 * at}] = 1 if {operand.null} else 0")
        if operand.kind == "float":
            out.write(f"{floats}[{1 + at}] = {operand.code}")
        elif operand.kind != "none":
            out.write(f"{numbers}[{2 + 2 * at}] = int64({operand.code})")
    failure = out.failure(line, "", None)
    out.write(f"call_python({numbers}, {number}, failed, {failure})")
    if operation.result == "float":
        return out.held(f"{floats}[0]")
    if operation.result == "bool" and not as_integer:
        return out.held(f"{numbers}[1] != 0")
    return out.held(f"{numbers}[1]")
