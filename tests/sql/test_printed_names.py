"""Printed rows of SQL start with a name that the user wrote, or with the number of the query."""

from __future__ import annotations

import pytest

import rheos as rh

TABLE = "CREATE TABLE out (user STRING, n BIGINT) WITH ('connector' = 'print');"


def test_each_printed_result_has_its_own_name(capfd: pytest.CaptureFixture[str]) -> None:
    env = rh.Environment(1, runtime="simulated")
    rows = env.from_source(rh.collection([{"user": "a", "n": 1}]), name="clicks")
    env.register("events", rows)
    env.sql("SELECT * FROM events").print()
    env.sql("SELECT user FROM events").print()
    env.sql_script(f"CREATE VIEW more AS SELECT user, n + 1 AS n FROM events; {TABLE}")
    env.sql("SELECT * FROM more").print()
    env.sql("SELECT * FROM more WHERE n > 1").print()
    env.sql("SELECT user FROM events").print("users")
    env.sql_script("INSERT INTO out SELECT user, n FROM events")
    rows.print()
    env.execute("names")
    printed = [line.partition("[0]> ")[0] for line in capfd.readouterr().out.splitlines()]
    assert sorted(printed) == sorted(
        ["events", "result-1", "more", "result-2", "users", "out", "clicks"]
    )
