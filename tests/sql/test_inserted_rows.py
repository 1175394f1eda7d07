"""Tables without a connector: rows that statements insert, update and delete."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import rheos as rh
from tests.sql.script_rows import Rows, rows_of

FRUITS = """
CREATE TABLE fruits (name STRING, price INT NOT NULL, PRIMARY KEY (name));
INSERT INTO fruits VALUES ('kiwi', 2), ('fig', 3), ('pear', 4);
"""
PAIRS = "CREATE TABLE pairs (k INT, v STRING);"

SCRIPTS: dict[str, list[Rows]] = {
    f"{PAIRS} INSERT INTO pairs VALUES (1, 'a'), (2, NULL); SELECT * FROM pairs": [
        [(1, "a"), (2, None)]
    ],
    # A view shows the rows that later statements insert.
    f"{PAIRS} CREATE MATERIALIZED VIEW sums AS SELECT SUM(k) AS k, COUNT(*) AS n FROM pairs;"
    "SELECT * FROM sums; INSERT INTO pairs VALUES (1, 'a'); SELECT * FROM sums;"
    "INSERT INTO pairs (v, k) SELECT 'b', 5; SELECT * FROM sums;": [[(None, 0)], [(1, 1)], [(6, 2)]],
    f"{FRUITS} INSERT INTO fruits VALUES ('fig', 30); SELECT * FROM fruits;"
    "SELECT SUM(price) FROM fruits": [
        [("fig", 30), ("kiwi", 2), ("pear", 4)],
        [(36,)],
    ],
    f"{FRUITS} UPDATE fruits SET price = price * 10 WHERE name <> 'fig'; SELECT * FROM fruits;"
    "DELETE FROM fruits WHERE price > 20; SELECT * FROM fruits;"
    "UPDATE fruits SET name = UPPER(name); SELECT * FROM fruits": [
        [("fig", 3), ("kiwi", 20), ("pear", 40)],
        [("fig", 3), ("kiwi", 20)],
        [("FIG", 3), ("KIWI", 20)],
    ],
    # Without a key, each of several equal rows is changed.
    f"{PAIRS} INSERT INTO pairs VALUES (1, 'a'), (1, 'a'), (2, 'b');"
    "CREATE VIEW counts AS SELECT v, COUNT(*) AS n FROM pairs GROUP BY v;"
    "UPDATE pairs SET v = 'c', k = 3.0 WHERE k = 1; DELETE FROM pairs WHERE k = 2 OR k IS NULL;"
    "SELECT * FROM counts; SELECT * FROM pairs; TRUNCATE TABLE pairs; SELECT * FROM pairs": [
        [("c", 2)],
        [(3, "c"), (3, "c")],
        [],
    ],
    # Literals get the types of their columns.
    "CREATE TABLE t (a TIMESTAMP(3), b DATE, c DECIMAL(5, 2), d DOUBLE, e SMALLINT, f BIGINT);"
    "INSERT INTO t VALUES ('2026-03-01 12:00:00', '2026-03-02', 1.239, 1, -7, '12'),"
    "(TIMESTAMP '2026-03-01 12:00:01', NULL, 2, NULL, NULL, NULL);"
    "SELECT a, CAST(b AS STRING), CAST(c AS STRING), d, e, f FROM t": [
        [
            (datetime(2026, 3, 1, 12, tzinfo=UTC), "2026-03-02", "1.24", 1.0, -7, 12),
            (datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC), None, "2.00", None, None, None),
        ]
    ],
    # A query of such tables inserts the rows of its place; joins of them need no time to live.
    f"{PAIRS} CREATE TABLE more LIKE pairs; INSERT INTO pairs VALUES (1, 'a'), (2, 'b');"
    "INSERT INTO more SELECT k * 10, UPPER(v) FROM pairs WHERE k > 1;"
    "INSERT INTO pairs VALUES (3, 'c');"
    "SELECT * FROM more; SELECT p.v, m.v AS w FROM pairs p LEFT JOIN more m ON p.k * 10 = m.k;"
    "SELECT k FROM pairs WHERE k * 10 IN (SELECT k FROM more);"
    "SELECT k FROM pairs WHERE k > (SELECT MAX(k) / 10 FROM more)": [
        [(20, "B")],
        [("a", None), ("b", "B"), ("c", None)],
        [(2,)],
        [(3,)],
    ],
    # The rows of a stream arrive with those of the script.
    "CREATE TABLE made (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '4', "
    "'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '4');"
    "CREATE TABLE t (n BIGINT PRIMARY KEY, doubled BIGINT); INSERT INTO t VALUES (9, 9);"
    "INSERT INTO t SELECT n, n * 2 FROM made WHERE n > 2;"
    "SELECT * FROM t": [[(3, 6), (4, 8), (9, 9)]],
    # Event time.
    "CREATE TABLE t (at TIMESTAMP(3), n INT, m AS DATE_TRUNC('minute', at), WATERMARK FOR at AS at);"
    "INSERT INTO t VALUES ('2026-03-01 12:00:10', 1), ('2026-03-01 12:00:20', 2),"
    "('2026-03-01 12:01:00', 3);"
    "SELECT MINUTE(window_start), SUM(n) FROM TUMBLE(t, at, INTERVAL '1' MINUTE) "
    "GROUP BY window_start, window_end; SELECT MINUTE(m), n FROM t": [
        [(0, 3), (1, 3)],
        [(0, 1), (0, 2), (1, 3)],
    ],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_statements_insert_and_change_rows(script: str) -> None:
    assert rows_of(script) == SCRIPTS[script]


STREAM = (
    "CREATE TABLE made (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '4');"
    "CREATE TABLE t (n BIGINT);"
)
WRONG = {
    f"{FRUITS} INSERT INTO fruits VALUES (NULL, 1)": "'name' of fruits must not be null",
    f"{FRUITS} INSERT INTO fruits (name) VALUES ('a')": "'price' of fruits must not be null",
    f"{FRUITS} UPDATE fruits SET price = NULL": "'price' of fruits must not be null",
    f"{FRUITS} UPDATE fruits SET prize = 1": "did you mean 'price'?",
    f"{FRUITS} UPDATE fruits SET price = 'dear'": "'dear' is not a valid INT",
    f"{FRUITS} UPDATE fruits SET price = name": "'price' is INT, but this is STRING",
    f"{FRUITS} UPDATE fruits SET price = 1 WHERE name": "WHERE takes a condition",
    f"{FRUITS} DELETE FROM fruit": "did you mean 'fruits'?",
    f"{FRUITS} DELETE FROM fruits USING other WHERE a = b": "USING of DELETE is not computed yet",
    "CREATE TABLE t (at TIMESTAMP); INSERT INTO t VALUES ('noon')": "'noon' is not a valid TIMESTAMP",
    "CREATE TABLE t (a INT) WITH ('connector' = 'print'); DELETE FROM t": "t has the connector 'print'",
    f"{STREAM} INSERT INTO t SELECT n FROM made; DELETE FROM t": "also has those of a query",
    f"{STREAM} INSERT INTO t SELECT COUNT(*) FROM made": "write CREATE MATERIALIZED VIEW",
    f"{STREAM} INSERT INTO t SELECT m.n FROM t JOIN made AS m ON t.n = m.n": "forever",
    f"{STREAM} SET state_ttl = '1d'; INSERT INTO t SELECT m.n FROM t JOIN made AS m ON t.n = m.n": (
        "t would read its own rows"
    ),
}


@pytest.mark.parametrize("script", WRONG)
def test_wrong_changes_are_refused(script: str) -> None:
    with pytest.raises(rh.ProgramError) as caught:
        rows_of(script)
    assert WRONG[script] in str(caught.value)


def test_rows_that_queries_read_as_append_only_cannot_be_deleted() -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(f"{PAIRS} INSERT INTO pairs VALUES (1, 'a'); CREATE VIEW v AS SELECT * FROM pairs")
    with pytest.raises(rh.ProgramError, match="already read pairs as append-only rows") as caught:
        env.sql_script("DELETE FROM pairs")
    assert "PRIMARY KEY" in str(caught.value)
