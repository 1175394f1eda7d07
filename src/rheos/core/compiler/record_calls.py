"""The arguments of the creation of a dataclass, by field."""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

from rheos.core.compiler.constants import constant_of
from rheos.core.compiler.values import CannotCompile, Value
from rheos.core.state.columnar.string_codes import StringCodes


def fields_of_call(cls: Any, node: ast.Call, texts: StringCodes) -> dict[str, ast.expr | Value]:
    """Return the arguments by field, in the order of their evaluation, and then the defaults.

    Args:
        cls: Dataclass that only sets its fields.
        node: Call that creates it.
        texts: Receives the strings among the defaults.

    Raises:
        CannotCompile: Some arguments are not fields, or a field is missing.
    """
    name = ast.unparse(node.func)
    fields = [field for field in dataclasses.fields(cls) if field.init]
    positional = [field for field in fields if not field.kw_only]
    if len(node.args) > len(positional) or any(isinstance(each, ast.Starred) for each in node.args):
        raise CannotCompile(f"{name}() has arguments that are not fields", node.lineno)
    given: dict[str, ast.expr | Value] = {
        field.name: part for field, part in zip(positional, node.args, strict=False)
    }
    for keyword in node.keywords:
        known = any(field.name == keyword.arg for field in fields)
        if keyword.arg is None or keyword.arg in given or not known:
            raise CannotCompile(f"the arguments of {name}() cannot be compiled", node.lineno)
        given[keyword.arg] = keyword.value
    for field in dataclasses.fields(cls):
        if field.name not in given:
            if field.default is dataclasses.MISSING:
                raise CannotCompile(f"{name}() lacks {field.name}", node.lineno)
            given[field.name] = constant_of(field.default, texts, node.lineno)
    return given
