"""Conditions of a scan: comparisons of columns with constants, joined by AND.

    page = 'home' AND n >= 10 AND seen IS NOT NULL

They are a part of SQL, so that a query can pass its own condition on. A comparison with null is not
true. `rheos sql --job` computes everything else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import ConfigurationError
from rheos.core.known_names import names_hint
from rheos.core.safe_strings import shown
from rheos.runtimes.views.values import scalar

_COMPARE: dict[str, Callable[[pa.ChunkedArray, pa.Scalar], pa.ChunkedArray]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><>|!=|<=|>=|=|<|>)
    )\s*""",
    re.VERBOSE,
)
_TRUTHS = {"true": True, "false": False}
_OF_TEXT = ("date", "timestamp", "time")
"""Keywords that may precede a string."""


@dataclass(frozen=True)
class ViewCondition:
    """One comparison. `value` is None for IS NULL and IS NOT NULL."""

    column: str
    sign: str
    value: Any = None

    def holds(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return for each row whether it fulfils the condition; null counts as no.

        Raises:
            ConfigurationError: The value does not have the type of the column.
        """
        column = rows.column(self.column)
        match self.sign:
            case "is null":
                return pc.is_null(column)
            case "is not null":
                return pc.is_valid(column)
        value = scalar(self.value, column.type, f"the column {self.column!r}")
        return _COMPARE[self.sign](column, value)


def conditions_of(text: str, columns: Sequence[str]) -> list[ViewCondition]:
    """Return the conditions of a string.

    Args:
        text: The text.
        columns: Columns of the table.

    Raises:
        ConfigurationError: The text is not a condition, or names an unknown column.
    """
    tokens = _tokens(text)
    found: list[ViewCondition] = []
    while True:
        found.append(_condition(text, tokens, columns))
        if not tokens:
            return found
        if tokens.pop(0) != ("word", "AND"):
            raise _unknown(text)


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unknown(text)
        kind = str(match.lastgroup)
        written = match[kind]
        if kind == "word" and written.casefold() in ("and", "is", "not", "null"):
            written = written.upper()
        found.append((kind, written))
        at = match.end()
    return found


def _condition(text: str, tokens: list[tuple[str, str]], columns: Sequence[str]) -> ViewCondition:
    """Take the tokens of one condition, and return it."""
    match tokens[:3]:
        case [("word" | "quoted" as kind, name), ("word", "IS"), ("word", "NULL")]:
            del tokens[:3]
            return ViewCondition(_column(kind, name, columns), "is null")
        case [("word" | "quoted" as kind, name), ("word", "IS"), ("word", "NOT")]:
            if tokens[3:4] != [("word", "NULL")]:
                raise _unknown(text)
            del tokens[:4]
            return ViewCondition(_column(kind, name, columns), "is not null")
        case [("word" | "quoted" as kind, name), ("sign", sign), _]:
            del tokens[:2]
            return ViewCondition(_column(kind, name, columns), sign, _constant(text, tokens))
    raise _unknown(text)


def _constant(text: str, tokens: list[tuple[str, str]]) -> Any:
    kind, written = tokens.pop(0)
    if kind == "word" and written.casefold() in _OF_TEXT and tokens[:1] and tokens[0][0] == "text":
        kind, written = tokens.pop(0)
    match kind:
        case "text":
            return written[1:-1].replace("''", "'")
        case "number":
            return int(written) if re.fullmatch(r"-?\d+", written) else float(written)
        case "word" if written.casefold() in _TRUTHS:
            return _TRUTHS[written.casefold()]
    raise _unknown(text)


def _column(kind: str, written: str, columns: Sequence[str]) -> str:
    name = written[1:-1].replace("``", "`") if kind == "quoted" else written
    found = [each for each in columns if each.casefold() == name.casefold()]
    if not found:
        raise ConfigurationError(
            f"no column is named {name!r}", hint=names_hint(name, columns, "the columns are")
        )
    return found[0]


def _unknown(text: str) -> ConfigurationError:
    return ConfigurationError(
        f"{shown(text)} is not a condition of a scan",
        hint="write comparisons of columns with constants, joined by AND: page = 'home' AND n >= 10",
    )
