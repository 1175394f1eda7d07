"""Flink's hint for the options of one use of a table: FROM t /*+ OPTIONS('on_error' = 'skip') */.

The tokenizer reads a hint after a table as a comment. `with_option_hints` puts its tokens in the place
of the comment, so that the parser reads the options and errors point to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from rheos.sql.syntax_errors import HINT_BEHIND_ALIAS
from rheos.sql.table_arguments import TableArgumentParser

_HINT = re.compile(r"/\*\+(\s*OPTIONS\s*\(.*?\)\s*)\*/", re.IGNORECASE | re.DOTALL)
_OPTIONS = "options of the hint"
"""Key of a table's metadata."""


def with_option_hints(
    tokens: Sequence[Token], text: str, tokenize: Callable[[str], list[Token]]
) -> list[Token]:
    """Return tokens with those of the hints between them, each of which begins with a HINT."""
    if not _HINT.search(text):
        return [*tokens]
    found: list[Token] = []
    for token, stop in pairwise([*tokens, None]):
        assert token is not None, "only the last one is None"
        found.append(token)
        if not any(each.strip().upper().startswith("OPTIONS") for each in token.comments):
            continue
        end = len(text) if stop is None else stop.start
        if (hint := _HINT.search(text, token.end + 1, end)) is not None:
            before = re.sub(r"[^\n]", " ", text[: hint.start(1)])
            first, *others = tokenize(before + hint[1])
            first.token_type = TokenType.HINT
            found += [first, *others]
    return found


def hinted_options(table: exp.Expr) -> Sequence[exp.Expr]:
    """Return the options that a hint sets for this use of a table."""
    options: Sequence[exp.Expr] = table.meta.get(_OPTIONS, ())
    return options


class OptionHintParser(TableArgumentParser):
    """The parser of tables with hints."""

    def _parse_table_parts(self, *args: Any, **kwargs: Any) -> Any:
        table = super()._parse_table_parts(*args, **kwargs)
        if table is not None and self._match(TokenType.HINT):
            table.meta[_OPTIONS] = self._parse_wrapped_csv(self._parse_property)
        return table

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        table: exp.Expr | None = super()._parse_table(*args, **kwargs)
        if self._curr and self._curr.token_type == TokenType.HINT:
            self.raise_error(HINT_BEHIND_ALIAS)
        return table
