"""The public surface of a version: what users write that later versions must still accept.

A *surface* has a line for each Python name and parameter, command and option, REST operation, and
metric with its unit.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import EnumType
from functools import cache
from types import ModuleType
from typing import Any

import typer.main

import rheos as rh
from rheos import testing
from rheos.cli.main import app
from rheos.core.metrics.declarations import METRICS
from rheos.ops.dashboard.openapi import document


@cache
def surface() -> set[str]:
    rest = (
        f"rest {method} {path}"
        for path, methods in document()["paths"].items()
        for method in methods
        if method != "parameters"
    )
    return {
        *_module("rh", rh),
        *_module("rheos.testing", testing),
        *_commands(typer.main.get_command(app)),
        *rest,
        *(f"metric {metric.name} ({metric.unit.value})" for metric in METRICS.values()),
    }


def _module(path: str, module: ModuleType) -> Iterator[str]:
    for name in _public(module):
        value = getattr(module, name)
        place = f"{path}.{name}"
        yield place
        if isinstance(value, ModuleType) and path == "rh":
            yield from _module(place, value)
        elif inspect.isclass(value) and value.__module__.startswith("rheos."):
            if not name.endswith(
                ("Stream", "Streams", "Context")
            ):  # Users receive these, and make none.
                yield from _parameters(place, value)
            for member, function in inspect.getmembers(value, inspect.isfunction):
                if not member.startswith("_") and function.__module__.startswith("rheos."):
                    yield f"{place}.{member}"
                    yield from _parameters(f"{place}.{member}", function)
        elif inspect.isfunction(value) and value.__module__.startswith("rheos."):
            yield from _parameters(place, value)


def _public(module: ModuleType) -> Iterator[str]:
    """Yield the exported names; without `__all__`, the functions that the package itself defines."""
    if exported := getattr(module, "__all__", None):
        yield from exported
        return
    for name, value in vars(module).items():
        own = inspect.isfunction(value) and value.__module__.startswith(module.__name__)
        if own and not name.startswith("_"):
            yield name


def _parameters(place: str, called: Any) -> Iterator[str]:
    if isinstance(called, EnumType):
        called = EnumType.__call__  # Python 3.12 shows another signature for the class itself.
    try:
        parameters = inspect.signature(called).parameters.values()
    except ValueError:
        return
    for each in parameters:
        if each.name not in ("self", "cls") and each.kind in (
            each.POSITIONAL_OR_KEYWORD,
            each.KEYWORD_ONLY,
        ):
            yield f"{place}({each.name}=)"


def _commands(command: Any, path: str = "rheos") -> Iterator[str]:
    if getattr(command, "hidden", False):
        return
    yield path
    for parameter in command.params:
        yield from (f"{path} {option}" for option in parameter.opts if option.startswith("--"))
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, f"{path} {name}")
