"""SET and RESET: settings of queries, and settings of Flink and Spark that scripts contain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from rheos.api.time_to_live import FOREVER
from rheos.core.errors import ProgramError
from rheos.core.protocol.durations import duration_ms
from rheos.sql.text import SourceDialect, SqlText, dialect_of

if TYPE_CHECKING:
    from rheos.sql.session import SqlSession

_TIME_TO_LIVE = ("state_ttl", "table.exec.state.ttl")
_TIME_ZONES = ("table.local-time-zone", "spark.sql.session.timeZone")
_OF_JOBS = {
    "parallelism.default": "--parallelism",
    "execution.checkpointing.interval": "--checkpoint-interval",
    "execution.checkpointing.dir": "--checkpoint-dir",
    "state.checkpoints.dir": "--checkpoint-dir",
    "execution.runtime-mode": "--runtime",
}
"""Settings of Flink's jobs, and the equivalent options of `rheos run`."""


def set_setting(sql: SqlText, session: SqlSession, node: exp.Set) -> None:
    """Apply SET to the following statements. A setting of Flink or Spark that concerns only how a job
    runs is ignored with a note. Raise ProgramError."""
    if not node.expressions:
        raise sql.error("SET needs a name and a value", node, "write SET state_ttl = '7d'")
    pair = node.expressions[0].this
    name, value = pair.this.name, pair.expression
    if name == "dialect":
        try:
            session.dialect = dialect_of(value.name)
        except ProgramError as error:
            raise sql.error(error.what, value, error.hint) from None
    elif name in _TIME_TO_LIVE:
        session.ttl = time_to_live(sql, value, of_flink=name != "state_ttl")
    elif name in _TIME_ZONES:
        if value.name.upper() not in ("UTC", "ETC/UTC", "Z", "GMT", "+00:00"):
            raise sql.error(
                f"times are computed in UTC, not in {value.name}",
                value,
                "convert times where they are shown",
            )
    elif name == "spark.sql.ansi.enabled" and value.name.casefold() == "true":
        raise sql.error(
            "expressions have Spark's meaning without its ANSI mode",
            value,
            "leave this statement out; a value that cannot be computed is null",
        )
    elif "." in name or "-" in name:
        option = _OF_JOBS.get(name)
        hint = "" if option is None else f"; pass {option} to rheos run instead"
        session.note(sql, node, f"SET {name!r} has no effect{hint}")
    else:
        raise sql.error(
            f"{name!r} is not a setting of a query",
            pair.this,
            "the settings are state_ttl and dialect; pass settings of the job to rheos run",
        )


def time_to_live(sql: SqlText, value: exp.Expr, *, of_flink: bool) -> str:
    """Return the time that a string names; of Flink, a bare number is in milliseconds. Raise
    ProgramError."""
    text = value.name
    if of_flink and text.isdecimal():
        text = f"{text}ms"
    try:
        if text == FOREVER or (duration_ms(text) == 0 and of_flink):
            # Flink keeps state forever by default, and spells that as 0.
            return FOREVER
    except ProgramError as error:
        raise sql.error(error.what, value, "write '7d', or 'forever'") from None
    return text


def reset_setting(session: SqlSession, node: exp.Expr) -> None:
    """Return one setting, or all of them, to the default."""
    if node.this is None or node.this.name in _TIME_TO_LIVE:
        session.ttl = None
    if node.this is None or node.this.name == "dialect":
        session.dialect = SourceDialect.SPARK
