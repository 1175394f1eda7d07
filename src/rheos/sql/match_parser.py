"""Parser of MATCH_RECOGNIZE to a tree: sqlglot keeps the pattern as a string, without places."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType


class MatchRecognize(exp.Expression):
    """The rows of a table that form a pattern."""

    arg_types = {
        "this": True,
        "partition_by": False,
        "order": False,
        "measures": False,
        "all_rows": False,
        "after": False,
        "pattern": True,
        "within": False,
        "subsets": False,
        "define": False,
        "alias": False,
    }


class RowSequence(exp.Expression):
    """Parts of a pattern, in sequence."""

    arg_types = {"expressions": True}


class RowVariable(exp.Expression):
    arg_types = {"this": True}


class RepeatedRowPart(exp.Expression):
    """A repeated part: bounds as whole numbers, with `most` None for no upper bound."""

    arg_types = {"this": True, "least": True, "most": False, "reluctant": False}


class RowAlternatives(exp.Expression):
    """A | B."""

    arg_types = {"expressions": True}


class ExcludedRowPart(exp.Expression):
    """{- A -}: what ALL ROWS PER MATCH leaves out."""

    arg_types = {"this": True}


class RowSubset(exp.Expression):
    """S = (A, B): a name for the rows of several variables."""

    arg_types = {"this": True, "expressions": True}


class AllRowsPerMatch(exp.Expression):
    """ALL ROWS PER MATCH; `unmatched` if it includes rows that are in no match."""

    arg_types = {"unmatched": True}


class SeenRows(exp.Expression):
    """FINAL and RUNNING before a call: whether all rows of the match count, or those up to the row that
    is shown."""

    arg_types = {"this": True, "final": True}


class AfterMatchSkip(exp.Expression):
    """`to` is PAST LAST ROW, TO NEXT ROW, TO FIRST or TO LAST; `this` the variable of the last two."""

    arg_types = {"to": True, "this": False}


_MOST_PERMUTED = 5
"""Maximum number of parts of PERMUTE: they have 120 orders."""

_UNBOUNDED: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def _offset_call(name: str, node: type[exp.Expr]) -> Any:
    """Parse FIRST and LAST with a number. Spark's functions take a condition there."""

    def made(args: list[exp.Expr]) -> exp.Expr:
        if len(args) == 2 and isinstance(args[1], exp.Literal):
            return exp.Anonymous(this=name, expressions=args)
        known: exp.Expr = SparkParser.FUNCTIONS[name](args)
        return known

    return made


class MatchParser(SparkParser):
    FUNCTIONS = {
        **SparkParser.FUNCTIONS,
        "FIRST": _offset_call("FIRST", exp.First),
        "LAST": _offset_call("LAST", exp.Last),
    }

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        table: exp.Expr | None = super()._parse_table(*args, **kwargs)
        if table is not None and self._match(TokenType.MATCH_RECOGNIZE):
            return self._parse_rows_of(table)
        return table

    def _parse_rows_of(self, table: exp.Expr) -> exp.Expr:
        token = self._prev
        self._match_l_paren()
        clauses: dict[str, Any] = {
            "partition_by": self._parse_partition_by(),
            "order": self._parse_order(),
        }
        if self._match_text_seq("MEASURES"):
            clauses["measures"] = self._parse_csv(self._parse_measure)
        if not self._match_text_seq("ONE", "ROW", "PER", "MATCH"):
            clauses["all_rows"] = self._parse_all_rows()
        if self._match_text_seq("AFTER", "MATCH", "SKIP"):
            clauses["after"] = self._parse_skip()
        if not self._match_text_seq("PATTERN"):
            self.raise_error("Expecting PATTERN")
        self._match_l_paren()
        clauses["pattern"] = self._parse_row_pattern()
        self._match_r_paren()
        if self._match_text_seq("WITHIN"):
            clauses["within"] = self._parse_interval()
        if self._match_text_seq("SUBSET"):
            clauses["subsets"] = self._parse_csv(self._parse_subset)
        if self._match_text_seq("DEFINE"):
            clauses["define"] = self._parse_csv(self._parse_name_as_expression)
        self._match_r_paren()
        made = MatchRecognize(this=table, alias=self._parse_table_alias(), **clauses)
        return made.update_positions(token)

    def _parse_measure(self) -> exp.Expr:
        value = self._parse_disjunction()
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expecting AS")
        name = self._parse_id_var()
        if name is None:
            self.raise_error("Expecting a name")
        return exp.Alias(this=value, alias=name)

    def _parse_unary(self) -> exp.Expr | None:
        if self._curr and self._curr.text.upper() in ("FINAL", "RUNNING"):
            behind = self._tokens[self._index + 1 : self._index + 3]
            if (
                len(behind) == 2
                and behind[1].token_type == TokenType.L_PAREN
                and behind[0].text.isidentifier()
            ):
                self._advance()
                word = self._prev
                made = SeenRows(this=super()._parse_unary(), final=word.text.upper() == "FINAL")
                return made.update_positions(word)
        found: exp.Expr | None = super()._parse_unary()
        return found

    def _parse_all_rows(self) -> exp.Expr | None:
        if not self._match_text_seq("ALL", "ROWS", "PER", "MATCH"):
            return None
        token = self._prev
        unmatched = False
        # Each match has a row at least, so that there are no empty ones to show or to omit.
        if not self._match_text_seq("SHOW", "EMPTY", "MATCHES") and not self._match_text_seq(
            "OMIT", "EMPTY", "MATCHES"
        ):
            unmatched = bool(self._match_text_seq("WITH", "UNMATCHED", "ROWS"))
        return AllRowsPerMatch(unmatched=unmatched).update_positions(token)

    def _parse_subset(self) -> exp.Expr:
        name = self._parse_id_var(any_token=True)
        if not self._match(TokenType.EQ):
            self.raise_error("Expecting =")
        of = self._parse_wrapped_csv(lambda: self._parse_id_var(any_token=True))
        return RowSubset(this=name, expressions=of)

    def _parse_skip(self) -> exp.Expr:
        for words in ("PAST LAST ROW", "TO NEXT ROW"):
            if self._match_text_seq(*words.split()):
                return AfterMatchSkip(to=words)
        if not self._match_text_seq("TO"):
            self.raise_error("Expecting PAST or TO")
        first = self._match_text_seq("FIRST")
        if not first:
            self._match_text_seq("LAST")
        variable = self._parse_id_var(any_token=True)
        return AfterMatchSkip(to="TO FIRST" if first else "TO LAST", this=variable)

    def _parse_row_pattern(self) -> exp.Expr:
        alternatives = [self._parse_row_sequence()]
        while self._match(TokenType.PIPE):
            alternatives.append(self._parse_row_sequence())
        return alternatives[0] if len(alternatives) == 1 else RowAlternatives(expressions=alternatives)

    def _parse_row_sequence(self) -> exp.Expr:
        parts: list[exp.Expr] = []
        ends = (TokenType.R_PAREN, TokenType.PIPE, TokenType.DASH, TokenType.COMMA)
        while self._curr and self._curr.token_type not in ends:
            parts.append(self._parse_row_repeated(self._parse_row_part()))
        if not parts:
            self.raise_error("Expecting a variable")
        return RowSequence(expressions=parts)

    def _parse_row_part(self) -> exp.Expr:
        if self._match(TokenType.L_PAREN):
            inner = self._parse_row_pattern()
            self._match_r_paren()
            return inner
        if self._match(TokenType.L_BRACE):
            if not self._match(TokenType.DASH):
                self.raise_error("Expecting {-")
            excluded = ExcludedRowPart(this=self._parse_row_pattern())
            if not self._match(TokenType.DASH) or not self._match(TokenType.R_BRACE):
                self.raise_error("Expecting -}")
            return excluded
        if not self._curr.text.isidentifier():
            self.raise_error(f"{self._curr.text!r} is not computed in PATTERN")
        if self._curr.text.upper() == "PERMUTE" and self._next.token_type == TokenType.L_PAREN:
            return self._parse_permuted()
        return RowVariable(this=self._parse_id_var(any_token=True))

    def _parse_permuted(self) -> exp.Expr:
        """Parse PERMUTE (A, B) as (A B | B A), in the order of positions."""
        self._advance()
        parts = self._parse_wrapped_csv(self._parse_row_pattern)
        if len(parts) > _MOST_PERMUTED:
            self.raise_error(f"PERMUTE of more than {_MOST_PERMUTED} parts is not computed in PATTERN")
        orders = [RowSequence(expressions=[p.copy() for p in order]) for order in permutations(parts)]
        return RowAlternatives(expressions=orders)

    def _parse_row_repeated(self, part: exp.Expr) -> exp.Expr:
        if self._match(TokenType.DQMARK):
            return RepeatedRowPart(this=part, least=0, most=1, reluctant=True)
        times = _UNBOUNDED.get(self._curr.text)
        if times is not None:
            self._advance()
        elif self._next.token_type != TokenType.DASH and self._match(TokenType.L_BRACE):
            times = self._parse_row_times()
        else:
            return part
        reluctant = self._match(TokenType.PLACEHOLDER)
        return RepeatedRowPart(this=part, least=times[0], most=times[1], reluctant=bool(reluctant))

    def _parse_row_times(self) -> tuple[int, int | None]:
        """Parse {n}, {n,}, {n,m} and {,m}, after the opening brace."""
        least = self._parse_whole()
        most: int | None = least
        if self._match(TokenType.COMMA):
            most = self._parse_whole()
        elif least is None:
            self.raise_error("Expecting a number")
        if not self._match(TokenType.R_BRACE):
            self.raise_error("Expecting }")
        return least or 0, most

    def _parse_whole(self) -> int | None:
        if self._curr.token_type != TokenType.NUMBER:
            return None
        if not self._curr.text.isdigit():
            self.raise_error("Expecting a whole number")
        self._advance()
        return int(self._prev.text)
