"""A tool that explains SQL: the plan of a script, or of a query over its tables."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import msgspec

from rheos.api.environment import Environment
from rheos.core.errors import ConfigurationError, Site
from rheos.core.site import done_for

_MAX_CHARS = 64_000
_ONE_AT_A_TIME = threading.Lock()


class SqlExplanation(msgspec.Struct, frozen=True):
    plan: str


class ExplainSqlTool:
    """Plans SQL in this process. Nothing runs; a connector may ask its system for columns."""

    name = "explain_sql"
    description = (
        "The plan of a SQL script: operators, keys, state and watermarks. The script creates its "
        "tables, and ends with INSERT INTO or with EXPLAIN SELECT."
    )
    changes_nothing = True
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"sql": {"type": "string", "description": "The script"}},
        "required": ["sql"],
        "additionalProperties": False,
    }

    def run(self, arguments: Mapping[str, Any]) -> bytes:
        """Return the plan, as JSON. Raise RheosError if the script is wrong."""
        text = arguments.get("sql")
        if set(arguments) != {"sql"} or not isinstance(text, str) or len(text) > _MAX_CHARS:
            raise ConfigurationError(
                f"explain_sql takes one argument, sql, of at most {_MAX_CHARS} characters"
            )
        with _ONE_AT_A_TIME:
            return msgspec.json.encode(SqlExplanation(_plan(text)))


def _plan(text: str) -> str:
    with done_for(Site("sql", 1)):
        env = Environment()
        session = env._sql_session()
        printed: list[str] = []
        session.say = printed.append
        session.script(text, "sql")
        if session.written:
            printed.append(env.explain("text"))
    if not printed:
        raise ConfigurationError(
            "the script contains nothing to explain",
            hint="end it with INSERT INTO a table, or with EXPLAIN SELECT ...",
        )
    return "\n".join(printed)
