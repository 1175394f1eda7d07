"""SQL text as an expression of the columns of a stream.

A word that is a column is that column, also where SQL has a meaning of its own for it: `user` is a
function there, `order` the begin of a clause, `current_date` a constant. So such words are quoted.
Where the text makes no sense so, as `CASE ... END` with a column `END`, it is read as it stands.
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
    """The expression. Raises ProgramError where it cannot be read."""
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
        hint = f"write {names} in double quotes, as it is a word of SQL, too"
    raise ProgramError(f"{text!r} is neither a column nor SQL: {failure}", hint=hint) from None


def _words(text: str) -> Iterator[str]:
    """The words of the text that stand in no quotes, and are not called."""
    for found in _WORD.finditer(text):
        if found["word"] is not None:
            yield found["word"]


def _quoted(found: re.Match[str], meant: Collection[str]) -> str:
    return f'"{found["word"]}"' if found["word"] in meant else found[0]


def _is_column(word: str) -> bool:
    """Whether SQL reads the word alone as the column of that name, or as a constant that it is."""
    if word.casefold() in _CONSTANTS:
        return True
    try:
        return pl.sql_expr(word).meta.is_column()
    except FAILURES:
        return False
