"""Parser of the statements about models: CREATE, DROP, SHOW and DESCRIBE MODEL."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from rheos.sql.statement_parser import RefusedStatement, Show, StatementParser


class CreateModel(exp.Expression):
    """CREATE MODEL name INPUT (...) OUTPUT (...) WITH (...)."""

    arg_types = {
        **{"this": True, "inputs": False, "outputs": False, "properties": False},
        **{"exists": False, "replace": False},
    }


class DropModel(exp.Expression):
    """DROP MODEL name."""

    arg_types = {"this": True, "exists": False}


class ModelArgument(exp.Expression):
    """A model as the argument of a function: MODEL name."""

    arg_types = {"this": True}


class ModelParser(StatementParser):
    """Statements about models. MODEL is no keyword elsewhere."""

    def _parse_statement(self) -> exp.Expr | None:
        if not self._curr:
            return None
        first = self._curr
        words = [token.text.upper() for token in self._tokens[self._index : self._index + 5]]
        rest = [*words[1:]]
        replace = words[0] == "CREATE" and rest[:2] == ["OR", "REPLACE"]
        rest = rest[2:] if replace else rest
        rest = rest[1:] if rest[:1] in (["TEMPORARY"], ["TEMP"]) else rest
        begin = words[0], *rest[:1]
        after = len(words) - len(rest) + 1
        match begin:
            case "CREATE", "MODEL":
                self._advance(after)
                return self._parse_create_model(replace=replace).update_positions(first)
            case "DROP", "MODEL":
                self._advance(after)
                exists = self._parse_exists()
                return DropModel(this=self._parse_table_parts(), exists=exists).update_positions(first)
            case "ALTER", "MODEL":
                self._skip_statement()
                return RefusedStatement(
                    this="a model is not altered", hint="write CREATE OR REPLACE MODEL"
                ).update_positions(first)
            case (("DESCRIBE" | "DESC"), "MODEL") if len(words) > 2:
                self._advance(2)
                of = self._parse_table_parts()
                return Show(this="MODEL COLUMNS", of=of).update_positions(first)
            case _:
                statement: exp.Expr | None = super()._parse_statement()
                return statement

    def _parse_create_model(self, *, replace: bool) -> exp.Expr:
        exists = self._parse_exists(not_=True)
        name = self._parse_table_parts()
        listed: dict[str, exp.Expr | None] = {}
        for part, key in (("INPUT", "inputs"), ("OUTPUT", "outputs")):
            if self._match_text_seq(part):
                listed[key] = self._parse_schema(this=exp.to_identifier(part))
        properties = self._parse_properties()
        return CreateModel(this=name, **listed, properties=properties, exists=exists, replace=replace)

    def _parse_shown(self, first: Token) -> exp.Expr:
        words = [token.text.upper() for token in self._tokens[self._index + 1 : self._index + 3]]
        if words == ["CREATE", "MODEL"]:
            self._advance(3)
            return Show(this="CREATE MODEL", of=self._parse_table_parts()).update_positions(first)
        if words[:1] != ["MODELS"]:
            return super()._parse_shown(first)
        self._advance(2)
        of = self._parse_table_parts() if self._match_texts(("FROM", "IN")) else None
        return Show(this="MODELS", of=of, like=self._parse_name_pattern()).update_positions(first)

    def _parse_model_argument(self) -> exp.Expr | None:
        """Parse MODEL name; None if something else follows."""
        is_name = self._next and self._next.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
        if not is_name or not self._match_text_seq("MODEL"):
            return None
        return ModelArgument(this=self._parse_table_parts())
