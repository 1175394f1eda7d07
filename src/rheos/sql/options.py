"""Options of SQL, which are strings, as arguments of the functions that programs call.

The type of an argument decides how its option is read. `'format' = 'avro'` creates a format, whose own
options begin with its name: `'avro.registry' = 'http://...'`.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from sqlglot import exp

from rheos.connectors.registration import ConnectorRegistration
from rheos.connectors.sql_options import NO_EFFECT, SqlOption
from rheos.core.errors import RheosError
from rheos.core.formats.contract import Format
from rheos.formats.registration import FORMATS, FormatRegistration
from rheos.sql.text import SqlText


def call_with_options(
    sql: SqlText,
    function: Callable[..., Any],
    options: Mapping[str, exp.Expr],
    at: exp.Expr,
    *,
    given: Mapping[str, Any],
) -> Any:
    """Call a function with the options of a statement.

    Args:
        sql: the statement.
        function: a function for programs, such as `rh.kafka.source`.
        options: the options by name, in small letters.
        at: the place of errors that belong to no option.
        given: further arguments. Those that the function does not have are left out.

    Raises:
        ProgramError: an option is unknown, missing, or has a value that does not fit.
    """
    parameters = inspect.signature(function).parameters
    known = {name: each for name, each in parameters.items() if name not in given}
    arguments = {name: value for name, value in given.items() if name in parameters}
    of_formats = {option: node for option, node in options.items() if "." in option}
    for option, node in options.items():
        if "." in option:
            continue
        name = option.replace("-", "_")
        if name not in known:
            raise sql.unknown("option", option, node, [*known], "the options are")
        arguments[name] = _value(
            sql, node, _kinds(function, known[name]), of_formats, given.get("key_columns", ())
        )
    for option, node in of_formats.items():
        raise sql.error(f"no format of this table has the option {option!r}", node)
    required = (
        name
        for name, each in known.items()
        if each.default is inspect.Parameter.empty
        and each.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        and name not in arguments
    )
    for name in required:
        raise sql.error(f"the option {name!r} is missing", at, f"add '{name}' = '...'")
    try:
        return function(**arguments)
    except RheosError as error:
        # If the message contains the value of an option, the error is at that option.
        values = (node for node in options.values() if repr(node.name) in error.what)
        raise sql.error(error.what, next(values, at), error.hint) from None


def for_function(
    sql: SqlText, connector: ConnectorRegistration, what: str, options: Mapping[str, exp.Expr]
) -> tuple[dict[str, exp.Expr], dict[str, dict[str, str]]]:
    """Return the options of one of a connector's functions under the names of its arguments, and its
    mappings of several options. Options of the connector's other functions are left out.

    Raises:
        ProgramError: an option has a value that its argument does not have.
    """
    parameters = {
        each: inspect.signature(connector.function(each)).parameters for each in connector.functions
    }
    own = {option.replace("_", "-"): node for option, node in options.items()}
    own |= {
        name: exp.Literal.string(value)
        for name, value in connector.sql_defaults.items()
        if name not in options and "format" in own and name.startswith(f"{own['format'].name}.")
    }
    found: dict[str, exp.Expr] = {}
    several: dict[str, dict[str, str]] = {}
    for option, node in own.items():
        prefix = next((each for each in connector.sql_options if _begins(option, each)), None)
        description = connector.sql_options.get(
            option if option in connector.sql_options else prefix or ""
        )
        of = description if isinstance(description, SqlOption) else SqlOption(description or option)
        name, value = of.argument, node.copy()
        if of.values is not None:
            known = {each.casefold(): to for each, to in of.values.items()}
            if value.name.casefold() not in known:
                listed = f"the values of {option!r} are"
                raise sql.unknown("value", node.name, node, [*of.values], listed)
            value.set("this", known[value.name.casefold()])
        if name == NO_EFFECT or (description is None and _of_others(name, what, parameters)):
            continue
        if description is not None and name not in parameters[what] and "." not in name:
            if option not in parameters[what]:
                continue
            name = option
        if prefix is not None and option not in connector.sql_options:
            several.setdefault(name, {})[option.removeprefix(prefix)] = value.name
        else:
            found[name] = value
    return found, several


def _begins(option: str, prefix: str) -> bool:
    return prefix.endswith(".") and option.startswith(prefix)


def _of_others(name: str, what: str, parameters: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether an option is an argument of a connector's other functions alone."""
    name = name.replace("-", "_")
    return name not in parameters[what] and any(name in each for each in parameters.values())


def _value(
    sql: SqlText,
    node: exp.Expr,
    kinds: Sequence[Any],
    of_formats: dict[str, exp.Expr],
    key: Sequence[str],
) -> Any:
    """Return an option's string as a value of one of the types that its argument takes. Formats of
    changes receive the `key` of the table.
    """
    text = node.name
    literals = [value for kind in kinds for value in get_args(kind) if get_origin(kind) is Literal]
    named = text.lower()
    prefix = f"{named.replace('_', '-')}."
    own = [option for option in of_formats if option.replace("_", "-").startswith(prefix)]
    if any(inspect.isclass(kind) and issubclass(kind, Format) for kind in kinds):
        if text in literals and not own:
            return text
        options = {option: of_formats.pop(option) for option in own}
        return _format(sql, node, options, literals, key)
    if bool in kinds:
        if named not in ("true", "false"):
            raise sql.error(f"{text!r} is neither true nor false", node)
        return named == "true"
    if str in kinds or literals or not kinds:
        return text
    for number in (int, float):
        if number in kinds:
            try:
                return number(text)
            except ValueError:
                what = "an integer" if number is int else "a number"
                raise sql.error(f"{text!r} is not {what}", node) from None
    if bytes in kinds:
        try:
            return Path(text).read_bytes()
        except OSError as error:
            raise sql.error(f"the file of this option cannot be read: {error}", node) from None
    if any(get_origin(kind) is Sequence for kind in map(_abstract, kinds)):
        return tuple(part.strip() for part in text.split(","))
    if any(get_origin(kind) is Mapping for kind in map(_abstract, kinds)):
        raise sql.error("this option cannot be set as a string", node, "read the table in Python")
    return text


def _format(
    sql: SqlText,
    node: exp.Expr,
    options: Mapping[str, exp.Expr],
    others: Sequence[str],
    key: Sequence[str],
) -> Format:
    """Return the format that an option names, created with the options that begin with its name."""
    name = node.name.lower()
    found = _registered(sql, node)
    if found is None:
        known = [*others, *(each for each in FORMATS.names() if each not in others)]
        raise sql.unknown("format", node.name, node, known, "the formats are")
    own = {option.partition(".")[2]: each for option, each in options.items()}
    made: Format = call_with_options(sql, found.make(), own, node, given={"key": key} if key else {})
    if not isinstance(made, Format):
        raise sql.error(f"the format {name!r} created a {type(made).__name__}", node)
    return made


def _registered(sql: SqlText, node: exp.Expr) -> FormatRegistration | None:
    try:
        return FORMATS.find(node.name.lower().replace("-", "_"))
    except RheosError as error:
        raise sql.error(error.what, node, error.hint) from error


def _kinds(function: Callable[..., Any], parameter: inspect.Parameter) -> Sequence[Any]:
    """Return the types that an argument takes, without None: the members of a union one by one."""
    hint: Any = parameter.annotation
    if hint is inspect.Parameter.empty:
        return [] if parameter.default in (parameter.empty, None) else [type(parameter.default)]
    if isinstance(hint, str):
        written = inspect.unwrap(function)
        names = vars(sys.modules[written.__module__])
        try:
            hint = eval(hint, dict(names))  # As `typing.get_type_hints` does, but one at a time.
        except Exception:  # A name that is imported for type checkers only.
            return []
    return [each for each in _members(hint) if each not in (type(None), Any)]


def _members(hint: Any) -> list[Any]:
    if get_origin(hint) in (Union, types.UnionType):
        return [each for member in get_args(hint) for each in _members(member)]
    return [hint]


def _abstract(kind: Any) -> Any:
    """Return `list[str]` as a sequence and `dict` as a mapping; other types as they are."""
    origin = get_origin(kind) or kind
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return Mapping[Any, Any]
    if inspect.isclass(origin) and issubclass(origin, Sequence) and origin not in (str, bytes):
        return Sequence[Any]
    return kind
