"""Parser of Flink's forms that Spark lacks: CASE x WHEN 1, 2 THEN."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from rheos.sql.expressions.choices import ANY_OF
from rheos.sql.table_arguments import TableArgumentParser


class FlinkParser(TableArgumentParser):
    """The parser of Flink's forms."""

    def _parse_when(self) -> exp.Expr | None:
        """Parse what follows WHEN: a value, or values of which one is equal."""
        values = self._parse_csv(self._parse_disjunction)
        if len(values) < 2:
            return values[0] if values else None
        made = exp.Tuple(expressions=values)
        made.meta[ANY_OF] = True
        return made

    def _parse_case(self) -> exp.Expr | None:
        if self._match(TokenType.DOT, advance=False):
            made: exp.Expr | None = super()._parse_case()
            return made
        value, branches, default = self._parse_disjunction(), [], None
        while self._match(TokenType.WHEN):
            when = self._parse_when() if value is not None else self._parse_disjunction()
            self._match(TokenType.THEN)
            branches.append(self.expression(exp.If(this=when, true=self._parse_disjunction())))
        if self._match(TokenType.ELSE):
            default = self._parse_disjunction()
        if not self._match(TokenType.END):
            self.raise_error("Expected END after CASE", self._prev)
        return self.expression(exp.Case(this=value, ifs=branches, default=default))
