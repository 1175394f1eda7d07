"""Checks of `detect`: a pattern against the columns of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from rheos.api.compiled_checks import automatic_form
from rheos.api.expressions import Method, compile_expressions
from rheos.api.function_typing import input_record
from rheos.api.patterns import Pattern
from rheos.api.program import Program
from rheos.core.compiler.eligibility import Automatic
from rheos.core.errors import ProgramError, RheosError, SchemaError
from rheos.core.graph.patterns import (
    Absence,
    Choice,
    Condition,
    Function,
    Group,
    Part,
    PatternStep,
    PatternTree,
)
from rheos.core.graph.types import canonical_schema
from rheos.core.operators.automatic_rows import predicate_typing
from rheos.core.operators.pattern.automaton import Automaton
from rheos.core.operators.pattern.following_rows import following_types
from rheos.core.operators.pattern.matches import match_types
from rheos.core.operators.pattern.operator import PatternSpec
from rheos.core.operators.pattern.pattern_compiler import compiled
from rheos.core.operators.pattern.previous_rows import previous_types
from rheos.core.site import located


def tree_of(pattern: Any) -> PatternTree:
    """Return the complete pattern. Raise ProgramError if the argument is not one."""
    if not isinstance(pattern, Pattern):
        raise ProgramError(
            f"detect() takes a pattern, not {pattern!r}",
            hint='write .detect(rh.pattern.begin("a").where(...).followed_by("b").where(...))',
        )
    return pattern.tree()


def detected(
    written: PatternTree, schema: pa.Schema, keys: Sequence[str], program: Program
) -> tuple[PatternSpec, pa.Schema]:
    """Return the operator, and the columns of its matches.

    Raise ProgramError or SchemaError, with the line of the step that is wrong.
    """
    previous = previous_types(written.previous, schema)
    asked = pa.schema([*schema, *previous, *following_types(written.following, schema)])
    tree = replace(written, parts=tuple(_checked(part, schema, asked) for part in written.parts))
    automaton = compiled(tree)
    found = match_types(automaton, schema)
    for field in found:
        if field.name in keys:
            raise SchemaError(
                f"step {field.name!r} has the name of a key column; the output has a column for "
                "each step and each key",
                hint="rename the step",
            )
    columns = [*(schema.field(key) for key in keys), *found]
    spec = PatternSpec(tree, _automatic(automaton, schema, program))
    return spec, canonical_schema(pa.schema(columns))


def _automatic(automaton: Automaton, schema: pa.Schema, program: Program) -> dict[Function, Automatic]:
    """Return for each function that receives only a row how it is compiled, or why it is not."""
    found: dict[Function, Automatic] = {}
    for condition in automaton.conditions:
        for each in condition.functions:
            if each.sees_earlier or each in found:
                continue
            typing = predicate_typing(schema, each.record)
            found[each] = automatic_form(program, each.call, typing)
    return found


def _checked(part: Part, schema: pa.Schema, asked: pa.Schema) -> Part:
    """Return a part of the pattern with checked conditions. Expressions may use the columns of `asked`;
    the rows have those of `schema`."""
    if isinstance(part, Absence):
        return replace(part, condition=_fitted(part, "where", part.condition, schema, asked))
    quantifier = part.quantifier
    if quantifier.until is not None:
        quantifier = replace(quantifier, until=_fitted(part, "until", quantifier.until, schema, asked))
    match part:
        case PatternStep():
            condition = _fitted(part, "where", part.condition, schema, asked)
            return replace(part, condition=condition, quantifier=quantifier)
        case Group() | Choice():
            parts = tuple(_checked(inner, schema, asked) for inner in part.parts)
            return replace(part, parts=parts, quantifier=quantifier)


def _fitted(
    part: Part, method: Method, condition: Condition, schema: pa.Schema, asked: pa.Schema
) -> Condition:
    """Return a condition with expressions that fit the columns, and with the record classes of its
    functions."""
    exprs = condition.exprs
    with located(part.site):
        try:
            if exprs:
                exprs, _ = compile_expressions(method, exprs, {}, asked)
            functions = tuple(
                replace(f, record=input_record(f.call, schema)) for f in condition.functions
            )
        except RheosError as error:
            error.what = f"step {part.name!r}: {error.what}"
            raise
    return Condition(exprs, functions)
