"""Errors for invalid SQL: they replace the parser's message by one about the place."""

from __future__ import annotations

import difflib
import re

from sqlglot import exp

from rheos.core.errors import ProgramError
from rheos.sql.clause_names import foreign_hint
from rheos.sql.text import Span, SqlText

WINDOWS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
"""Functions that return a table with windows."""

READ_AS = "the SQL dialect is Spark's"
NOTHING_BEHIND_COMMA = "expected an item after this comma"
NO_COLUMNS = "SELECT has no columns"
HINT_BEHIND_ALIAS = "the hint OPTIONS must follow the name of a table"
NOTHING_BEHIND = "the SQL ends too early after this"
_OPERAND_MISSING = "an operand or an argument is missing here, or before it"
_NO_QUERY_AFTER_WITH = "Failed to parse any statement following CTE"

_PIECE = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`""", re.DOTALL
)
_BEGIN = re.compile(r"""['"`]|/\*""")
_NOT_HEXADECIMAL = re.compile(r"\b[xX]'[^']*[^'0-9a-fA-F][^']*'")
_MISSING = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]*?(\w+)'>")
_TOO_MANY = re.compile(r"The number of provided arguments \((\d+)\) is greater than .* \((\d+)\)")
_GOES_ON = (
    *("SELECT", "FROM", "JOIN", "ON", "BY", "WHERE", "HAVING", "SET", "INTO", "VALUES", "AS", "AND"),
    *("OR", "NOT", "IN", "TABLE", "VIEW", "UNION", "DESCRIBE", "DESC", "SHOW"),
)
"""Words that need something after them."""
_CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "JOIN", "UNION", "VALUES", "WINDOW")
_LATER = ("ASC", "DESC", "LIMIT", "OFFSET", "ORDER", "LEFT", "INNER", "UNION", "BETWEEN")
_BEGINS = ("SELECT", "INSERT", "CREATE", "EXPLAIN", "DESCRIBE", "WITH")


def unfinished(sql: SqlText) -> ProgramError | None:
    """Return the error for a string, name or comment that does not end."""
    found = _BEGIN.search(_bare(sql.text))
    if found is None:
        wrong = _NOT_HEXADECIMAL.search(sql.text)
        if wrong is None:
            return None
        what = "a BINARY literal has hexadecimal digits"
        return sql.error(what, Span(*wrong.span()), "write X'1F'")
    span = Span(found.start(), len(sql.text.rstrip()))
    if found[0] == "/*":
        return sql.error("the comment that starts here is not closed", span, "write */ after it")
    return sql.error(
        f"the {found[0]} that starts here is not closed", span, f"write {found[0]} after it"
    )


def unreadable(sql: SqlText, message: str, span: Span) -> ProgramError:
    """Return the error for the place that the parser could not read."""
    bare, word = _bare(sql.text), sql.text[span.start : span.stop]
    if message == NOTHING_BEHIND_COMMA:
        return sql.error(message, span, "remove the comma, or add the next item")
    if message == NO_COLUMNS:
        return sql.error(message, span, "write SELECT * FROM ...")
    if message == HINT_BEHIND_ALIAS:
        return sql.error(message, span, "write FROM t /*+ OPTIONS('a' = 'b') */ AS x")
    if (missing := _MISSING.match(message)) is not None:
        call = _call(bare, span.start) if word == ")" else None
        if call is not None and issubclass(getattr(exp, missing[1], exp.Expr), exp.Func):
            name = _name(sql, call)
            return sql.error(
                f"{name}() is missing an argument", call, f"write {name}(...) with all of its arguments"
            )
        is_last = not bare[span.stop :].strip(" \n\t;")
        return sql.error(NOTHING_BEHIND if is_last else _OPERAND_MISSING, span, READ_AS)
    if message == NOTHING_BEHIND:
        return sql.error(message, span, READ_AS)
    if message == _NO_QUERY_AFTER_WITH:
        return sql.error("WITH needs a query after it", span, "write WITH a AS (...) SELECT ... FROM a")
    if (count := _TOO_MANY.match(message)) is not None:
        call = _call(bare, span.start) or span
        what = f"{_name(sql, call)}() takes at most {count[2]} argument{'s' * (count[2] != '1')}"
        return sql.error(f"{what}, but has {count[1]}", call, "remove the others")
    if message.startswith("Expecting )"):
        return _not_closed(sql, bare, span)
    if message.startswith("Expecting"):
        # What is wanted stands ahead of the word at which it was missed.
        return sql.error(f"this is not valid SQL: {message.lower()} here, or before it", span, READ_AS)
    if message.endswith("is not computed in PATTERN"):
        return sql.error(message, span, "a pattern consists of variables, groups and quantifiers")
    if message.startswith("Expected TYPE after CAST") and word == ")":
        return sql.error("CAST is missing its type", span, "write CAST(x AS INT)")
    if message.startswith(("unknown type", "Expected TYPE after CAST")):
        return sql.error(
            f"unknown type {word}",
            span,
            "use the types of Spark SQL: STRING, BIGINT, TIMESTAMP(3), ...",
        )
    if message.startswith("Expected END after CASE"):
        return sql.error(
            "CASE is missing its WHEN or its END here", span, "write CASE WHEN a > 0 THEN 1 ELSE 0 END"
        )
    if message.endswith("does not take these arguments"):
        return sql.error(message, span, "see the functions in docs/sql-reference.md")
    if message.endswith("is not supported here"):
        return sql.error(message, span, "write a query, as in SELECT ... FROM ...")
    return _from_here_on(sql, bare, span)


def without_comments(text: str) -> str:
    """Return the SQL with blanks in place of comments."""
    return _PIECE.sub(lambda piece: " " * len(piece[0]) if piece[0][0] in "-/" else piece[0], text)


def _bare(text: str) -> str:
    """Return the SQL with blanks in place of comments and quoted parts."""
    return _PIECE.sub(lambda piece: " " * len(piece[0]), text)


def _call(bare: str, end: int) -> Span | None:
    """Return the call whose bracket closes there, from its name on."""
    depth = 0
    for place in range(end, -1, -1):
        depth += {")": 1, "(": -1}.get(bare[place], 0)
        if depth == 0:
            name = re.search(r"\w+\s*$", bare[:place])
            return None if name is None else Span(name.start(), end + 1)
    return None


def _name(sql: SqlText, call: Span) -> str:
    return sql.text[call.start : call.stop].partition("(")[0].strip().upper()


def _not_closed(sql: SqlText, bare: str, span: Span) -> ProgramError:
    """Return the error for a bracket that is not closed."""
    # What comes is a word that stands behind it, or the last one, where nothing does.
    ends = not bare[span.stop :].strip(" \n\t;")
    last = ends and bare[span.start : span.stop].upper() not in _CLAUSES
    stop = span.stop if last else span.start
    opened: list[int] = []
    for place, char in enumerate(bare[:stop]):
        if char == "(":
            opened.append(place)
        elif char == ")" and opened:
            opened.pop()
    if not opened:
        return sql.error("this is not valid SQL: expecting ) here, or before it", span, READ_AS)
    begin = opened[-1]
    inside = Span(begin, begin + len(sql.text[begin:stop].rstrip()))
    where = "at the end" if last else f"before {sql.text[span.start : span.stop]!r}"
    return sql.error(
        "the parenthesis that is opened here is not closed", inside, f"write ) {where}, or earlier"
    )


def _from_here_on(sql: SqlText, bare: str, span: Span) -> ProgramError:
    word = sql.text[span.start : span.stop]
    before = bare[: span.start]
    if word == ")" and before.count("(") <= before.count(")"):
        return sql.error(
            "this closing parenthesis has no opening one", span, "remove it, or add the missing ("
        )
    if word.upper() in _GOES_ON and not bare[span.stop :].strip(" \n\t;"):
        return sql.error(NOTHING_BEHIND, span, READ_AS)
    return sql.error("this is not valid SQL from here on", span, _meant(before, word) or READ_AS)


def _meant(before: str, word: str) -> str | None:
    """Return a hint that corrects the misspelt word before the unreadable place, or at it."""
    words = re.findall(r"\w+", before.rpartition(";")[2])
    if not words:
        return None
    foreign = foreign_hint(word) or foreign_hint(words[-1])
    if foreign:
        return f"{foreign}{READ_AS}"
    if words[-1].upper() in ("GROUP", "ORDER", "PARTITION"):
        return f"write {words[-1].upper()} BY"
    for words_seen, known in ((words[-1], _CLAUSES), (word, _LATER), (words[0], _BEGINS)):
        close = difflib.get_close_matches(words_seen.upper(), known, n=1, cutoff=0.7)
        if close and close[0] != words_seen.upper():
            return f"did you mean {close[0]} instead of {words_seen!r}? {READ_AS}"
    return None
