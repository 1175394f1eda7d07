"""The SQL of a statement, and errors that show a place in it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from rheos.core.errors import ProgramError, SchemaError, Site
from rheos.core.known_names import meant, names_hint
from rheos.sql.clause_names import CLAUSES, KINDS, foreign_hint

_MOST_SHOWN = 96
"""Characters of a line that an error shows."""
_MOST_LINES = 6
_MOST_SPELLED = 40
"""Characters of a construct that an error repeats."""
SQLGLOT_FAILURES = (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError)
"""Errors that sqlglot raises for a call with unexpected arguments."""
WRITTEN_NAME = "written name"
"""Key of a call's metadata: the name of the function as the user wrote it."""
_DEPTHS = {"(": 1, ")": -1, "[": 1, "]": -1}
"""Change of the number of open brackets at a character."""


@dataclass(frozen=True)
class Span:
    """Characters of a string, from `start` up to `stop`."""

    start: int
    stop: int


def span_of(node: exp.Expr) -> Span | None:
    """Return the span of a node, from its first token with a position to its last. A node without such
    tokens has the span of its parent."""
    at: exp.Expr | None = node
    while at is not None:
        placed = [each.meta for each in at.walk() if "start" in each.meta]
        if placed:
            return Span(min(meta["start"] for meta in placed), max(meta["end"] for meta in placed) + 1)
        at = at.parent
    return None


class SourceDialect(Enum):
    """System whose meaning a query has."""

    SPARK = "spark"
    FLINK = "flink"
    POSTGRES = "postgres"


def dialect_of(name: str) -> SourceDialect:
    """Return the dialect of a name. Raise ProgramError."""
    known = {each.value: each for each in SourceDialect}
    if name.casefold() not in known:
        raise ProgramError(
            f"unknown dialect {name!r}", hint=names_hint(name, known, "the dialects are")
        )
    return known[name.casefold()]


@dataclass(frozen=True)
class SqlText:
    """SQL as the user wrote it."""

    text: str
    file: str | None = None
    """File that contains it; errors then begin with their line in the file."""
    dialect: SourceDialect = SourceDialect.SPARK
    """System whose meaning it has, up to its first SET dialect."""

    def error(self, what: str, at: exp.Expr | Span | None, hint: str | None = None) -> ProgramError:
        """Return the error for a place."""
        return ProgramError(
            self._placed(what, at), hint=hint, detail=self._underline(at), site=self._site(at)
        )

    def wrong_type(self, what: str, at: exp.Expr | Span | None, hint: str) -> SchemaError:
        return SchemaError(
            self._placed(what, at), hint=hint, detail=self._underline(at), site=self._site(at)
        )

    def unknown(
        self,
        what: str,
        name: str,
        at: exp.Expr | Span,
        known: Collection[str],
        listed: str,
        *,
        names_them: bool = True,
    ) -> SchemaError:
        """Return the error for an unknown name, with similar names, and all known names after `listed`
        unless there are too many."""
        hint = names_hint(name, known, listed) if names_them else meant(name, known) + listed
        hint = foreign_hint(name) + hint
        return self.wrong_type(f"unknown {what} {name!r}", at, hint)

    def only(self, node: exp.Expr, handled: Iterable[str], where: str = "") -> None:
        """Raise ProgramError if the node has more parts than those that are `handled`, so that no part
        of the SQL is silently ignored."""
        known = {*handled}
        for name, value in node.args.items():
            if name in known or value is None or value is False or value == []:
                continue
            part = value[0] if isinstance(value, list) else value
            place = part if isinstance(part, exp.Expr) and span_of_own(part) else node
            if name == "expressions" and isinstance(node, exp.Func):
                raise self.error(
                    f"{kind(node)} with this number of arguments is not supported yet", place
                )
            phrase, hint = CLAUSES.get(name, (name.strip("_").replace("_", " ").upper(), None))
            if isinstance(part, str):
                phrase = part.upper()
            elif isinstance(node, exp.Func) and phrase not in self.text.upper():
                phrase = f"the argument {self._spelled(place)}"
            raise self.error(f"{phrase}{where or f' of {kind(node)}'} is not computed yet", place, hint)

    def place(self, number: exp.Literal, columns: int) -> int:
        """Return the index of a column of SELECT that GROUP BY or ORDER BY gives by its position.
        Raise ProgramError."""
        place = int(number.name) if number.name.isdecimal() else 0
        if not 1 <= place <= columns:
            known = number_of(columns, "column")
            raise self.error(f"SELECT has {known}, so {number.name} is not one", number)
        return place - 1

    def not_computed(self, node: exp.Expr, hint: str | None = None) -> ProgramError:
        what = kind(node) if WRITTEN_NAME in node.meta else self._spelled(node)
        hint = hint or foreign_hint(node.meta.get(WRITTEN_NAME, "")).removesuffix("; ") or None
        return self.error(f"{what} is not computed yet", node, hint)

    def _spelled(self, node: exp.Expr) -> str:
        """Return a construct as the user wrote it, without its end if it is long."""
        return textwrap.shorten(self.written(node), _MOST_SPELLED, placeholder=" ...")

    def begin(self, at: exp.Expr | None = None) -> str:
        """Return the first lines of a statement, or of the SQL."""
        span = None if at is None else span_of(at)
        start = 0 if span is None else self.text.rfind("\n", 0, span.start) + 1
        lines = self.text[start:].strip().splitlines()
        return "\n".join(lines if len(lines) <= _MOST_LINES else [*lines[: _MOST_LINES - 1], "..."])

    def statement(self, at: exp.Expr) -> str:
        """Return the source text of a statement from its first word on."""
        span = _whole(self.text, span_of(at))
        assert span is not None, "a statement names something"
        return self.text[self.text.rfind(";", 0, span.start) + 1 : span.stop].strip()

    def written(self, at: exp.Expr) -> str:
        """Return the source text of a node, as the user wrote it."""
        span = _whole(self.text, self._span(at))
        return as_sql(at) if span is None else self.text[span.start : span.stop]

    def _span(self, at: exp.Expr | Span | None) -> Span | None:
        if not isinstance(at, exp.Func) or span_of_own(at):
            return span_of(at) if isinstance(at, exp.Expr) else at
        # A call without brackets says no place: its name does.
        named = [*re.finditer(rf"\b{re.escape(at.sql_name())}\b", self.text, re.IGNORECASE)]
        return Span(*named[0].span()) if len(named) == 1 else span_of(at)

    def placed(self, what: str, at: exp.Expr) -> str:
        """Return a message with the file and line of a place."""
        site = self._site(at)
        return self._placed(what, at) if site is None else f"{site.file}:{site.line}: {what}"

    def _placed(self, what: str, at: exp.Expr | Span | None) -> str:
        span = self._span(at)
        if span is None or "\n" not in self.text.strip() or self.file is not None:
            return what
        return f"{what} (line {self._line(span)} of the SQL)"

    def _line(self, span: Span) -> int:
        return self.text.count("\n", 0, span.start) + 1

    def _site(self, at: exp.Expr | Span | None) -> Site | None:
        span = self._span(at)
        return None if self.file is None or span is None else Site(self.file, self._line(span))

    def site_of(self, statement: exp.Expr) -> Site | None:
        """Return the place of a statement in its file; None if it is not from a file."""
        return self._site(statement)

    def _underline(self, at: exp.Expr | Span | None) -> str:
        """Return the line with the place underlined."""
        span = _whole(self.text, self._span(at))
        if span is None and at is not None:
            # No token of the node has a place: it is somewhere in the first line.
            first = self.text.lstrip().partition("\n")[0].rstrip()
            start = self.text.find(first)
            span = Span(start, start + len(first))
        if span is None:
            return self.begin()
        begin = self.text.rfind("\n", 0, span.start) + 1
        end = self.text.find("\n", span.start)
        line = self.text[begin : end if end >= 0 else None].replace("\t", " ")
        start, stop = span.start - begin, min(span.stop - begin, len(line))
        cut = max(0, start - _MOST_SHOWN // 2) if len(line) > _MOST_SHOWN else 0
        shown = line[cut : cut + _MOST_SHOWN]
        before = "... " if cut else ""
        after = " ..." if cut + _MOST_SHOWN < len(line) else ""
        marks = "^" * max(1, min(stop - cut, len(shown)) - (start - cut))
        return f"{before}{shown}{after}\n{' ' * (len(before) + start - cut)}{marks}"


def span_of_own(node: exp.Expr) -> bool:
    """Return whether a token of the node itself has a position."""
    return any("start" in each.meta for each in node.walk())


def as_sql(node: exp.Expr) -> str:
    """Return a node in Spark's SQL, without sqlglot's log messages about differences."""
    try:
        return str(node.sql("spark", unsupported_level=ErrorLevel.IGNORE, comments=False))
    except SQLGLOT_FAILURES:
        return repr(node)  # A call whose arguments are not those that sqlglot expects.


def with_alias(value: exp.Expr, name: str) -> exp.Alias:
    """Return a copy of a value as a column of SELECT with this name."""
    # exp.alias_ would set the alias of a scalar subquery as if it were a table's.
    return exp.Alias(this=value.copy(), alias=exp.to_identifier(name, quoted=True))


def kind(node: exp.Expr) -> str:
    """Return the kind of a node in SQL's words."""
    if isinstance(node, exp.Func) and not isinstance(node, exp.Cast | exp.Case | exp.If):
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        return f"{node.meta.get(WRITTEN_NAME, name).upper()}()"
    words = type(node).__name__
    if words in KINDS:
        return KINDS[words]
    return "".join(f" {c}" if c.isupper() and i else c for i, c in enumerate(words)).upper()


def _whole(text: str, span: Span | None) -> Span | None:
    """Return the span, extended by the bracket that closes a call."""
    if span is None:
        return None
    stop = span.stop
    depth = _open(text[span.start : stop])
    while depth > 0 and stop < len(text):
        depth += _DEPTHS.get(text[stop], 0)
        stop += 1
    return Span(span.start, stop) if depth == 0 else span


def _open(part: str) -> int:
    """Return the number of brackets that are open at the end, outside of quotes."""
    depth, quote = 0, ""
    for char in part:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"`":
            quote = char
        else:
            depth += _DEPTHS.get(char, 0)
    return depth


def number_of(count: int, what: str) -> str:
    """Return a number of things, such as "1 column" or "2 columns"."""
    return f"{count} {what}{'s' * (count != 1)}"
