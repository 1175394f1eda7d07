"""What an environment has of SQL: its tables, and the streams of its queries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rheos.errors import ConfigurationError, ProgramError

try:
    from sqlglot import exp
except ImportError:
    raise ConfigurationError("SQL needs the package sqlglot", hint="pip install 'rheos[sql]'") from None

from rheos.sql.catalog import Catalog, scan
from rheos.sql.dialect import parse
from rheos.sql.lowering import Lowering
from rheos.sql.query import Planner
from rheos.sql.ranking import check_bounded
from rheos.sql.text import SqlText

if TYPE_CHECKING:
    from rheos.api.environment import Environment
    from rheos.api.joins import TimeToLive
    from rheos.api.streams import DataStream

_NAME = re.compile(r"[^\W\d]\w*")


class SqlSession:
    """The SQL of one environment."""

    def __init__(self, env: Environment) -> None:
        self._catalog = Catalog()
        self._lowering = Lowering(env)

    def register(self, name: Any, stream: DataStream) -> None:
        """Makes a stream known to queries. Raises ProgramError."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ProgramError(
                f"the name of a table is a word, not {name!r}", hint='write env.register("bids", bids)'
            )
        if self._catalog.find(name) is not None:
            raise ProgramError(
                f"there is a table {name!r} already", hint="register the stream by another name"
            )
        self._catalog.add(name, scan(name, stream))

    def query(self, text: Any, ttl: TimeToLive | None = None) -> DataStream:
        """The stream of a query. Raises ProgramError, SchemaError."""
        sql = _text(text)
        with _shown(sql):
            statements = parse(sql)
            if len(statements) != 1:
                at = statements[1] if statements else None
                raise sql.error("sql() takes one query", at, "write each by itself: env.sql(...)")
            [statement] = statements
            if not isinstance(statement, exp.Query | exp.Values):
                raise sql.error("sql() takes a query", statement, "write SELECT ... FROM ...")
            plan = Planner(sql, self._catalog, ttl=ttl).query(statement)
            check_bounded(sql, plan)
            return self._lowering.stream(plan)


def _text(text: Any) -> SqlText:
    if not isinstance(text, str) or not text.strip():
        raise ProgramError(
            f"sql() takes a text, not {text!r}", hint='write env.sql("SELECT user, price FROM bids")'
        )
    return SqlText(text)


@contextmanager
def _shown(sql: SqlText) -> Iterator[None]:
    """Errors of the streams that a query becomes show its text, too."""
    try:
        yield
    except ProgramError as error:
        if error.detail is None:
            error.detail = sql.text.strip()
        raise
