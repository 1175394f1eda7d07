"""Statements as databases of materialized views have them."""

from __future__ import annotations

import pytest

import rheos as rh
from tests.sql.script_rows import Rows, rows_of

TAXI = """
CREATE TABLE taxi (
    id INT, km DOUBLE, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '1 minute'
) APPEND ONLY;
INSERT INTO taxi VALUES (1, 2, '2026-01-01 10:01:00'), (2, 3, '2026-01-01 10:02:00'),
    (3, 1, '2026-01-01 10:12:00');
"""
SCRIPTS: dict[str, list[Rows]] = {
    f"{TAXI} CREATE MATERIALIZED VIEW kms AS SELECT MINUTE(window_start) AS m, SUM(km) AS km FROM "
    "TUMBLE(taxi, at, INTERVAL '10 minutes') GROUP BY window_start EMIT ON WINDOW CLOSE; FLUSH;"
    "SELECT * FROM kms": [[(0, 5.0), (10, 1.0)]],
    f"{TAXI} CREATE INDEX of_id ON taxi (id); CREATE DEFAULT INDEX ON taxi; DROP INDEX of_id;"
    "SELECT COUNT(*) FROM taxi EMIT CHANGES": [[(3,)]],
    "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR DEFAULT 'none', n BIGINT DEFAULT 3);"
    "INSERT INTO t (id) VALUES (1); INSERT INTO t (n, id) VALUES (NULL, 2); SELECT * FROM t": [
        [(1, "none", 3), (2, "none", None)]
    ],
    "CREATE TABLE t (k INT, v STRING); INSERT INTO t VALUES (1, 'a'), (1, 'b');"
    "CREATE TABLE last (PRIMARY KEY (k) NOT ENFORCED) AS SELECT k, v FROM t; SELECT * FROM last;"
    "CREATE TABLE turned (v, k) AS SELECT k, v FROM t; SELECT * FROM turned": [
        [(1, "b")],
        [("a", 1), ("b", 1)],
    ],
    "CREATE TABLE t (m MAP<STRING, INT>, d JSONB); INSERT INTO t VALUES (MAP('a', 1), '{\"b\": 2}');"
    "SELECT m['a'], d->>'b' FROM t": [[(1, "2")]],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_of_a_database_runs(script: str) -> None:
    assert rows_of(script) == SCRIPTS[script]


def test_sinks_write_the_rows_of_views_and_queries() -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(
        """
        CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR);
        INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'b');
        CREATE MATERIALIZED VIEW counts AS SELECT v, COUNT(*) AS n FROM t WHERE k > 1 GROUP BY v;
        CREATE SINK of_view FROM counts WITH (connector = 'collect');
        CREATE SINK IF NOT EXISTS of_query AS SELECT k, v FROM t
        WITH (connector = 'collect', type = 'upsert', primary_key = 'k', force_append_only = true);
        """
    )
    found = env.execute("sinks").collected
    assert found["of_view"].to_pylist()[-1] == {"v": "b", "n": 2, "op": "update_after"}
    assert sorted(row["k"] for row in found["of_query"].to_pylist()) == [1, 2, 3]


def test_a_source_has_the_format_of_its_encoding(capsys: pytest.CaptureFixture[str]) -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(
        """
        CREATE SOURCE IF NOT EXISTS visits (id INT, at TIMESTAMPTZ, WATERMARK FOR at AS at)
        WITH (connector = 'kafka', topic = 'visits', properties.bootstrap.server = 'localhost:9092',
              scan.startup.mode = 'earliest')
        FORMAT PLAIN ENCODE JSON;
        CREATE TABLE n (n BIGINT) WITH (connector = 'collect');
        INSERT INTO n SELECT COUNT(*) FROM visits;
        DESCRIBE visits;
        """
    )
    assert "event time" in capsys.readouterr().out


WRONG = {
    "CREATE TABLE t (a INT) INCLUDE timestamp AS ts": "METADATA FROM 'timestamp'",
    "CREATE CONNECTION c TO KAFKA (BROKER 'localhost:9092')": "write the address in WITH (...)",
    "CREATE TABLE t AS SELECT 1 AS a DISTRIBUTED BY HASH(a)": "is not computed yet",
    "CREATE SINK s WITH (connector = 'print')": "expecting from here",
    "CREATE TABLE t (b) AS SELECT 1 AS a": "unknown column 'b'",
    "CREATE TABLE t (a) AS SELECT 1 AS a, 2 AS b": "takes all columns of its query",
    "CREATE TABLE t (c INT) AS SELECT 1 AS a": "CREATE TABLE AS takes the columns of its query",
    "CREATE TABLE t (at TIMESTAMP, n INT DEFAULT 'x'); INSERT INTO t (at) VALUES (NULL)": (
        "'x' is not a valid INT"
    ),
    "CREATE TABLE t (at TIMESTAMP); CREATE VIEW v AS SELECT * FROM t WHERE at > now()": (
        "write WATERMARK FOR"
    ),
    "CREATE TABLE t (at TIMESTAMP); CREATE VIEW v AS SELECT COUNT(*) FROM "
    "TUMBLE(t, at, INTERVAL '1' HOUR)": "write WATERMARK FOR",
}


@pytest.mark.parametrize("script", WRONG)
def test_what_is_not_computed_is_refused_with_a_hint(script: str) -> None:
    with pytest.raises(rh.ProgramError) as caught:
        rows_of(script)
    assert WRONG[script] in str(caught.value)
