"""Parsing of an SQL string as an expression over the columns of a stream.

A word that is a column's name refers to that column, even if it has a meaning in SQL: `user` is a
function, `order` begins a clause, `current_date` is a constant. The parser receives such words in
quotes. If the result is not valid SQL, as for `CASE ... END` with a column `END`, the string is read
unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import polars as pl

from rheos.core.errors import ProgramError
from rheos.core.graph.expression_trees import FAILURES

_CONSTANTS = ("null", "true", "false")
_WORD = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w.])(?P<word>[^\W\d]\w*)(?!\w*\s*\()""")


def read_sql(text: str, columns: Collection[str], example: str) -> pl.Expr:
    """Return the expression of an SQL string. Raise ProgramError if it cannot be parsed."""
    meant = {word for word in _words(text) if word in columns and not _is_column(word)}
    quoted = _WORD.sub(lambda found: _quoted(found, meant), text)
    for each in dict.fromkeys((quoted, text)):
        try:
            return pl.sql_expr(each)
        except FAILURES as error:
            failure = str(error).strip().splitlines()[0]
    folded = {name.casefold(): name for name in columns}
    close = [folded[word.casefold()] for word in _words(text) if word.casefold() in folded]
    odd = [name for name in dict.fromkeys(close) if not _is_column(name)]
    hint = example
    if odd:
        names = " and ".join(f'"{name}"' for name in odd)
        hint = f"write {names} in double quotes, as it is a keyword of SQL"
    raise ProgramError(f"{text!r} is neither a column nor SQL: {failure}", hint=hint) from None


def _words(text: str) -> Iterator[str]:
    """Yield the words that are neither in quotes nor called as functions."""
    for found in _WORD.finditer(text):
        if found["word"] is not None:
            yield found["word"]


def _quoted(found: re.Match[str], meant: Collection[str]) -> str:
    return f'"{found["word"]}"' if found["word"] in meant else found[0]


def _is_column(word: str) -> bool:
    """Return whether SQL reads the word alone as the column of that name, or as a constant."""
    if word.casefold() in _CONSTANTS:
        return True
    try:
        return pl.sql_expr(word).meta.is_column()
    except FAILURES:
        return False
