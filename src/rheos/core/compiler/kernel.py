"""Writes a loop over rows or timers around the body of a method, and compiles it by numba."""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from rheos.core.compiler.constants import DTYPES, Constant, SurroundingNames
from rheos.core.compiler.expression_writer import Expressions
from rheos.core.compiler.forms import KEYED, FunctionForm, MethodForm, called_method, instance_of
from rheos.core.compiler.keyed_states import KeyedStates, keyed_states, reducer_name
from rheos.core.compiler.operations import ScalarOperation
from rheos.core.compiler.record_classes import only_sets_fields
from rheos.core.compiler.scope import MethodScope, Role, record_fields
from rheos.core.compiler.shared_records import SharedRecords
from rheos.core.compiler.statements import Statements
from rheos.core.compiler.values import CannotCompile, EmittedType, Kind, kind_of_column
from rheos.core.compiler.writer import Failure, OutputColumns, Parameter, Writer
from rheos.core.graph.compilation import MethodText
from rheos.core.graph.state import BroadcastState, unkeyed_declarations
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.version import VERSION

_PASSES = 20
"""Maximum number of passes that infer the types of variables. Usually a few suffice."""

FIXED = ("start", "stop", "watermark", "now", "until", "failed", "result", "slots", "stamps", "reached")
"""Parameters of every loop, in order."""

_WRITTEN = (
    "state", "present", "changed", "stamps", "numbers", "floats", "remembered", "list", "map",
    "kept", "chosen",
)  # fmt: skip
"""Sources of the arrays that a loop changes."""

TIMERS = ("timer_kinds", "timer_times", "timer_slots")


@dataclass(frozen=True)
class Loop:
    """The source code of a loop, and its arguments after the fixed parameters.

    They are `parameters`, the columns of `outputs`, and those of timers. The loop fills the columns.
    """

    role: Role
    file: str
    text: str
    parameters: Mapping[str, Parameter]
    outputs: Sequence[OutputColumns]
    failures: Sequence[Failure]
    constants: Sequence[Constant]
    """Everything from outside the method whose value is in the source code or in `parameters`."""
    operations: Sequence[ScalarOperation]
    """Operations that Python evaluates, by number."""
    timer_changes: int
    timers_grow: bool
    replaced: Sequence[str]
    """Parameters of lists and maps, which may grow. The loop returns them after the columns."""
    read_lists: frozenset[str]
    """States that are lists which the loop reads."""

    def grown(self) -> list[str]:
        """Return the names of the columns that may grow. The loop returns these columns."""
        numbers = [f"{output.number}" for output in self.outputs if output.grows]
        return [
            name
            for name in self.columns()
            if name[1:].partition("_")[0] in numbers or (self.timers_grow and name in TIMERS)
        ]

    def columns(self) -> dict[str, Kind]:
        """Return the element kinds of the columns that the loop fills, by name."""
        found: dict[str, Kind] = {}
        for output in self.outputs:
            number = output.number
            found |= {f"o{number}_calls": "int", f"o{number}_order": "int"}
            for at, column in enumerate(output.columns):
                if column.name in output.taken:
                    continue
                found[f"o{number}_{at}"] = column.kind
                if column.nullable:
                    found[f"z{number}_{at}"] = "bool"
        return found | dict.fromkeys(TIMERS if self.timer_changes else (), "int")


@dataclass(frozen=True)
class InputType:
    """The type of the rows of one port."""

    schema: pa.Schema
    """Schema of the visible columns."""
    keys: tuple[str, ...]
    record: type | None


@dataclass(frozen=True)
class Typing:
    """The types that the loops of a function depend on, in addition to its source code."""

    schema: pa.Schema
    """Schema of the visible columns."""
    keys: tuple[str, ...]
    record: type | None
    event_time: bool
    outputs: Mapping[str, EmittedType | None]
    """Types of the outputs, by tag; None if the type is unknown because nobody reads the output."""
    form: FunctionForm = KEYED
    arguments: tuple[str, ...] = ()
    """Columns that a function of columns receives, in the order of its parameters."""
    second: InputType | None = None
    """Type of the rows of the second port, if the function has two keyed inputs."""

    def input(self, port: int) -> InputType:
        """Return the type of the rows of a port."""
        if port == 0:
            return InputType(self.schema, self.keys, self.record)
        assert self.second is not None
        return self.second


def loops_of(
    function: Any, methods: dict[str, MethodText], typing: Typing, texts: StringCodes
) -> dict[str, Loop]:
    """Return the loops of a function that is to be compiled, by method, after assigning codes to its
    strings.

    `methods` has the source of its methods; that of functions which they call is added. Raise
    CannotCompile, with the file.
    """
    states = keyed_states(function)
    unkeyed = unkeyed_declarations(function)
    broadcast = {name: of for name, of in unkeyed.items() if isinstance(of, BroadcastState)}
    shared = SharedRecords()
    found: dict[str, Loop] = {}
    for form in typing.form.methods:
        text = methods.get(form.name)
        if text is None:
            continue
        try:
            method = called_method(function, form.name)
            found[form.name] = _loop(
                form, text, method, function, states, broadcast, typing, texts, methods, shared
            )
        except CannotCompile as refused:
            refused.file = refused.file or text.file
            raise
    return found


def _loop(
    form: MethodForm,
    text: MethodText,
    method: types.FunctionType,
    function: Any,
    states: KeyedStates,
    broadcast: Mapping[str, BroadcastState[Any, Any]],
    typing: Typing,
    texts: StringCodes,
    sources: dict[str, MethodText],
    shared: SharedRecords,
) -> Loop:
    tree, rows = text.tree(), typing.input(form.port)
    keys = [(name, kind_of_column(rows.schema.field(name).type)) for name in rows.keys]
    fields = record_fields(rows.schema, rows.record)
    instance = instance_of(function)
    names, values = _arguments(tree, form, instance is not None, typing)
    if any(isinstance(one, ast.Call) or not _is_plain(one) for one in tree.decorator_list):
        raise CannotCompile(f"{tree.name} is decorated, which cannot be compiled", tree.lineno)
    if rows.record is not None and not only_sets_fields(rows.record):
        raise CannotCompile(
            f"{rows.record.__name__} does more than set its fields, which cannot be compiled",
            tree.lineno,
            "use a plain dataclass",
        )
    scope = MethodScope(
        form.role,
        names,
        instance,
        states,
        fields,
        keys,
        broadcast=broadcast,
        record=rows.record,
        event_time=typing.event_time,
        shared=shared,
    )
    reducers = {reducer_name(name): each for name, each in states.reducers.items()}
    yields = bool(method.__code__.co_flags & inspect.CO_GENERATOR)
    for _ in range(_PASSES):
        scope.settled, scope.assigned = True, set()
        writer, around = Writer(texts), SurroundingNames(method, reducers)
        expressions = Expressions(writer, scope, around, sources)
        statements = Statements(
            writer,
            scope,
            expressions,
            typing.outputs,
            yields=yields,
            returns=form.returns,
            copies="context" in form.parameters,
        )
        with writer.indented(3):
            if form.returns == "choice":
                statements.choices.keep_first()
            for name, column in values.items():
                scope.assign(writer, name, scope.read_field(writer, fields[column]), tree.lineno)
            statements.method(tree)
        if scope.settled:
            break
    else:
        raise CannotCompile("the types of its variables cannot be inferred", tree.lineno)
    outputs = list(writer.outputs.values())
    loop = Loop(
        form.role,
        text.file,
        "",
        writer.parameters,
        outputs,
        writer.failures,
        tuple(around.all_constants()),
        writer.operations,
        writer.timer_changes,
        writer.timers_grow,
        sorted(writer.replaced),
        frozenset(writer.read_lists),
    )
    return replace(loop, text="\n".join(_wrap_in_loop(form.role, writer, scope, loop)) + "\n")


def _arguments(
    tree: ast.FunctionDef, form: MethodForm, bound: bool, typing: Typing
) -> tuple[tuple[str, str, str, str], dict[str, str]]:
    """Return the names of `self`, record, context and kept record, each empty without such a parameter.
    Return also the column of each parameter that is the value of a column."""
    names = [each.arg for each in tree.args.args]
    odd = tree.args.vararg or tree.args.kwarg or tree.args.kwonlyargs or tree.args.defaults
    taken = typing.arguments if form.parameters == "columns" else form.parameters
    if len(names) != bound + len(taken) or odd or tree.args.posonlyargs:
        signature = ", ".join(taken).replace("context", "ctx")
        signature = f"self, {signature}" if bound else signature
        raise CannotCompile(f"{tree.name} takes ({signature})", tree.lineno)
    itself = names.pop(0) if bound else ""
    if form.parameters == "columns":
        return (itself, "", "", ""), dict(zip(names, taken, strict=True))
    by_role = dict(zip(form.parameters, names, strict=True))
    record, context, kept = (by_role.get(role, "") for role in ("record", "context", "kept"))
    return (itself, record, context, kept), {}


def _is_plain(node: ast.expr) -> bool:
    return ast.unparse(node) in ("override", "typing.override")


def _wrap_in_loop(role: Role, writer: Writer, scope: MethodScope, loop: Loop) -> list[str]:
    """Return the body's lines with the loop around them."""
    body = writer.lines
    columns = list(loop.columns())
    head = Writer(writer.texts)
    with head.block(f"def loop({', '.join([*FIXED, *writer.parameters, *columns])}):"):
        for output in loop.outputs:
            head.write(f"o{output.number} = 0")
        for name in ("emitted", "timers", "changes"):
            head.write(f"{name} = 0")
        for name in ("next_timer", "next_clock"):
            head.write(f"{name} = latest")
        head.write("i = start")
        with head.block("while i < stop:"):
            if role == "rows" and writer.timer_changes:
                with head.block("if next_timer <= reached[i]:"):
                    head.write("break")
            head.write("slot = slots[i]")
            if role == "timers":
                head.write("timestamp = stamps[i]")
            scope.declared(head)
            head.write("returned = False")
            head.write("for once in range(1):")
            head.lines += body or ["            pass"]
            with head.block("if failed[0] != 0:"):
                head.write("break")
            head.write("i += 1")
            if role == "timers" and writer.timer_changes:
                with head.block("if changes > 0 or min(next_timer, next_clock) <= until:"):
                    head.write("break")
        counts = ["i", "timers", *(f"o{output.number}" for output in loop.outputs)]
        for at, name in enumerate(counts):
            head.write(f"result[{at}] = {name}")
        grown = [*loop.grown(), *loop.replaced]
        head.write(f"return ({', '.join(grown)},)" if grown else "return 0")
    return head.lines


_made: dict[Any, Any] = {}
"""Compiled loops of this process, which subtasks and attempts share."""


def compiled_loop(loop: Loop, folder: str | None = None) -> Any:
    """Return the loop as machine code, compiled once per process.

    `folder` is a local folder of this user alone. It keeps the machine code for other processes.
    """
    kinds = tuple((p.source, p.kind) for p in loop.parameters.values())
    key = loop.text, kinds, tuple(loop.columns().items())
    if key not in _made:
        try:
            _made[key] = _compiled(loop, folder)
        except Exception:
            if folder is None:
                raise
            # The folder is full or damaged.
            _made[key] = _compiled(loop, None)
    return _made[key]


def _compiled(loop: Loop, folder: str | None) -> Any:
    import numba
    import numpy as np
    from numba import types as nb

    from rheos.core.compiler import arithmetic, list_calls, map_calls, python_calls

    around: dict[str, Any] = {
        **arithmetic.NAMES,
        **python_calls.NAMES,
        **list_calls.NAMES,
        **map_calls.NAMES,
        "__name__": arithmetic.__name__,  # A module that can be imported when the code is read again.
        "latest": (1 << 63) - 1,
        "int64": np.int64,
        "floor": np.floor,
        "ceil": np.ceil,
        "nan": float("nan"),
        "inf": float("inf"),
    }
    file = f"<compiled {loop.role} of {loop.file}>"
    if folder is not None:
        parts = (arithmetic, python_calls, list_calls, map_calls)
        calls = "".join(map(inspect.getsource, parts))
        file = _source_file(loop, folder, calls)
    exec(compile(loop.text, file, "exec"), around)

    def array(dtype: Any, *, readonly: bool) -> Any:
        return nb.Array(numba.from_dtype(np.dtype(dtype)), 1, "C", readonly=readonly)

    def of(parameter: Parameter) -> Any:
        if parameter.kind == "str" and parameter.source not in ("table", "broadcast"):
            return array(np.int32, readonly=parameter.source not in _WRITTEN)
        own = parameter.source in _WRITTEN
        return array(DTYPES[parameter.kind], readonly=not own)

    whole = array(np.int64, readonly=False)
    given = array(np.int64, readonly=True)
    slots = array(np.int32, readonly=True)
    signature = [*[nb.int64] * 5, whole, whole, slots, given, given]
    signature += [of(parameter) for parameter in loop.parameters.values()]
    signature += [array(DTYPES[kind], readonly=False) for kind in loop.columns().values()]
    kept = folder is not None
    return numba.njit(tuple(signature), error_model="numpy", cache=kept)(around["loop"])


def _source_file(loop: Loop, folder: str, calls: str) -> str:
    """Write the loop to a file of its own, next to which numba keeps the machine code. The name depends
    on everything in the code but the types of the arguments and numba's version: those are part of what
    numba keeps. `calls` is the source of the functions that the loop calls."""
    digest = hashlib.sha256("\0".join((VERSION, calls, loop.text)).encode()).hexdigest()
    path = Path(folder, f"{digest[:32]}.py")
    if not path.exists():
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(loop.text)
        partial.replace(path)
    return str(path)
