"""Scripts as they are written for Flink: their statements, columns, connectors and settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rheos as rh
from rheos.cli.main import app
from rheos.sql.set_statement import _OF_JOBS
from tests.sql.data import registered
from tests.sql.script_rows import rows_of

ORDERS = """
CREATE TEMPORARY TABLE IF NOT EXISTS orders (
    `id` BIGINT COMMENT 'number of the order',
    price DECIMAL(10, 2),
    ts STRING,
    note VARCHAR(20),
    at AS CAST(ts AS TIMESTAMP(3)),
    cents AS CAST(price * 100 AS BIGINT),
    WATERMARK FOR at AS at - INTERVAL '5' SECOND
) COMMENT 'all orders' WITH (
    'connector' = 'filesystem', 'path' = '{folder}/orders.csv', 'format' = 'csv',
    'csv.field-delimiter' = ';', 'csv.ignore-parse-errors' = 'true'
);
"""

LINES = [
    "1;2.50;2026-03-01 12:00:01;a",
    "2;3.25;2026-03-01 12:00:02;b",
    "not a number;1;;",
    "3;4.00;2026-03-01 12:01:05;c",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.csv").write_text("\n".join(LINES) + "\n")
    return tmp_path


def collected(script: str, folder: Path) -> dict[str, list[dict[str, Any]]]:
    env = rh.Environment(runtime="simulated")
    env.sql_script(script.replace("{folder}", str(folder)))
    found = env.execute("script").collected
    return {name: table.to_pylist() for name, table in found.items()}


def test_computed_columns_have_types_and_event_time(folder: Path) -> None:
    found = collected(
        ORDERS
        + """
        CREATE TABLE minutes (until TIMESTAMP(3), cents BIGINT) WITH ('connector' = 'collect');
        INSERT INTO minutes SELECT window_end, SUM(cents)
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end;
        """,
        folder,
    )
    assert [(f"{row['until']:%H:%M}", row["cents"]) for row in found["minutes"]] == [
        ("12:01", 575),
        ("12:02", 400),
    ]


def test_a_statement_set_is_one_job(folder: Path) -> None:
    sinks = "CREATE TABLE a (n BIGINT) WITH ('connector' = 'collect'); CREATE TABLE b LIKE a;"
    for begin, end in (("EXECUTE STATEMENT SET BEGIN", "END"), ("BEGIN STATEMENT SET;", "END;")):
        found = collected(
            f"{ORDERS} {sinks} {begin} INSERT INTO a SELECT id FROM orders; "
            f"INSERT INTO b SELECT cents FROM orders; {end}",
            folder,
        )
        assert {name: [row["n"] for row in rows] for name, rows in found.items()} == {
            "a": [1, 2, 3],
            "b": [250, 325, 400],
        }


def test_rows_are_inserted_by_name_and_into_a_partition(folder: Path) -> None:
    found = collected(
        ORDERS
        + """
        CREATE TABLE t (day STRING, note STRING, id BIGINT) WITH ('connector' = 'collect');
        INSERT INTO t BY NAME SELECT id, note FROM orders WHERE id = 1;
        CREATE TABLE u LIKE t;
        INSERT INTO u PARTITION (day = 'x') SELECT note, id FROM orders WHERE id = 2;
        """,
        folder,
    )
    assert [tuple(row.values()) for row in found["t"]] == [(None, "a", 1)]
    assert [tuple(row.values()) for row in found["u"]] == [("x", "b", 2)]


def test_a_table_of_a_query_has_its_columns(folder: Path) -> None:
    found = collected(
        ORDERS + "CREATE TABLE t WITH ('connector' = 'collect') AS SELECT id AS n, note FROM orders",
        folder,
    )
    assert found["t"][0] == {"n": 1, "note": "a"}


def test_like_includes_and_excludes_parts(capsys: pytest.CaptureFixture[str]) -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(
        ORDERS.replace("{folder}", "x")
        + """
        CREATE TABLE all_of_it (more INT) LIKE orders;
        CREATE TABLE columns_only WITH ('connector' = 'blackhole') LIKE orders (EXCLUDING ALL);
        CREATE TABLE no_time LIKE orders (EXCLUDING WATERMARKS);
        DESCRIBE all_of_it; DESCRIBE columns_only; DESCRIBE no_time;
        """
    )
    said = capsys.readouterr().out
    assert said.count("TIMESTAMP, computed") == 2
    assert said.count("event time") == 1
    assert said.count("more") == 1


def test_views_and_tables_are_replaced_and_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(
        """
        CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1 AS a;
        CREATE VIEW IF NOT EXISTS v AS SELECT 2 AS b;
        CREATE OR REPLACE VIEW v (c COMMENT 'x') COMMENT 'y' AS SELECT 3;
        CREATE MATERIALIZED VIEW m AS SELECT c FROM v;
        DROP VIEW v;
        DROP TEMPORARY TABLE IF EXISTS nothing;
        SHOW VIEWS; SHOW CREATE TABLE m; SHOW COLUMNS FROM m; DESCRIBE EXTENDED m;
        EXPLAIN PLAN FOR SELECT c FROM m;
        """
    )
    said = capsys.readouterr().out
    assert said.startswith("m\nCREATE MATERIALIZED VIEW m AS SELECT c FROM v\nc  INT\nc  INT\nproject")
    with pytest.raises(rh.SchemaError, match="unknown table 'v'"):
        env.sql("SELECT * FROM v")


def test_settings_of_flink_apply_or_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    env = rh.Environment()
    registered(env)
    env.sql_script(
        "SET 'table.exec.state.ttl' = '1 d';\n"
        "SET table.exec.mini-batch.enabled = true;\n"
        "SET 'parallelism.default' = '3';\n"
        "SET 'table.local-time-zone' = 'UTC';\n"
        "USE CATALOG default_catalog;\n"
        "CREATE VIEW pairs AS SELECT b.price FROM bids b JOIN sales s ON b.auction = s.auction;"
    )
    assert capsys.readouterr().out.splitlines() == [
        "note: SET 'table.exec.mini-batch.enabled' has no effect (line 2 of the SQL)",
        "note: SET 'parallelism.default' has no effect; pass --parallelism to rheos run instead "
        "(line 3 of the SQL)",
        "note: USE CATALOG has no effect: tables have plain names, and packages are installed "
        "(line 5 of the SQL)",
    ]
    with pytest.raises(rh.ProgramError, match="state_ttl"):
        env.sql_script(
            "RESET; CREATE VIEW p AS SELECT b.price FROM bids b JOIN sales s ON b.auction = s.auction"
        )


def test_a_key_makes_rows_replace_each_other(folder: Path) -> None:
    (folder / "rates.jsonl").write_text(
        '{"currency": "EUR", "rate": 1}\n{"currency": "USD", "rate": 2}\n'
        '{"currency": "EUR", "rate": 3}\n'
    )
    found = collected(
        """
        CREATE TABLE rates (currency STRING PRIMARY KEY NOT ENFORCED, rate BIGINT)
        WITH ('connector' = 'files', 'path' = '{folder}/rates.jsonl', 'format' = 'jsonl');
        CREATE TABLE total (n BIGINT) WITH ('connector' = 'collect');
        INSERT INTO total SELECT SUM(rate) FROM rates;
        """,
        folder,
    )
    assert found["total"][-1]["n"] == 5


def test_options_of_flink_reach_the_connector() -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(
        """
        CREATE TABLE t (id BIGINT, sent TIMESTAMP(3) METADATA FROM 'timestamp', o BIGINT METADATA
            FROM 'offset' VIRTUAL, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'upsert-kafka', 'topic' = 'orders',
            'properties.bootstrap.servers' = 'localhost:9', 'properties.group.id' = 'g',
            'properties.fetch.min.bytes' = '1', 'key.format' = 'raw', 'value.format' = 'json',
            'scan.startup.mode' = 'earliest-offset');
        CREATE TABLE out (id BIGINT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'upsert-kafka', 'topic' = 'counts', 'brokers' = 'localhost:9',
            'key.format' = 'raw', 'value.format' = 'json', 'sink.delivery-guarantee' = 'at-least-once');
        INSERT INTO out SELECT id, COUNT(*) FROM t GROUP BY id;
        """
    )
    plan = env.explain("plan")
    assert "emits: id: int64, n: int64, deleted: bool" in plan


WRONG = {
    "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 'x', 'brokers' = 'x', "
    "'scan.startup.mode' = 'newest', 'format' = 'json'); CREATE VIEW v AS SELECT * FROM t": (
        "unknown value 'newest'"
    ),
    "CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'fields.b.kind' = 'random'); "
    "CREATE VIEW v AS SELECT * FROM t": "'fields.b.kind' is not an option of a column",
    "CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'fields.a.kind' = 'sequence'); "
    "CREATE VIEW v AS SELECT * FROM t": "the sequence 'a' has no start",
    "CREATE TABLE t (a ARRAY<INT>) WITH ('connector' = 'datagen'); CREATE VIEW v AS SELECT * FROM t": (
        "which cannot be generated"
    ),
    "CREATE TABLE t (a INT METADATA FROM 'offset') WITH ('connector' = 'files', 'path' = 'x'); "
    "CREATE VIEW v AS SELECT * FROM t": "a source of this connector has no metadata",
    "CREATE TABLE t (a INT) WITH ('connector' = 'upsert-kafka', 'topic' = 'x', 'brokers' = 'x'); "
    "INSERT INTO t SELECT 1": "needs a PRIMARY KEY",
    "CREATE TABLE t (a INT, b AS a + 'x') WITH ('connector' = 'print')": "STRING",
    "CREATE TABLE t (a INT, b AS c + 1) WITH ('connector' = 'print')": "unknown column 'c'",
    "CREATE TABLE t (a INT) WITH ('connector' = 'print'); INSERT INTO t BY NAME SELECT 1 AS b": (
        "unknown column 'b'"
    ),
    "CREATE TABLE t (a INT, b AS a + 1) WITH ('connector' = 'print'); INSERT INTO t (b) SELECT 1": (
        "unknown column 'b'"
    ),
    "CREATE TABLE t (a INT) WITH ('connector' = 'print'); INSERT OVERWRITE t SELECT 1": (
        "'mode' = 'overwrite'"
    ),
    "CREATE TABLE t LIKE nothing": "unknown table 'nothing'",
    "SET 'table.local-time-zone' = 'Europe/Berlin'": "times are computed in UTC, not in Europe/Berlin",
    "SET 'spark.sql.ansi.enabled' = 'true'": "without its ANSI mode",
    "SHOW CREATE TABLE bids": "unknown table 'bids'",
}


@pytest.mark.parametrize("text", WRONG)
def test_an_invalid_statement_is_refused_at_its_place(text: str) -> None:
    env = rh.Environment()
    registered(env)
    with pytest.raises(rh.ProgramError) as caught:
        env.sql_script(text)
    assert WRONG[text] in str(caught.value)
    assert caught.value.detail is not None


def test_notes_on_settings_of_jobs_name_options_that_exist() -> None:
    shown = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).stdout
    assert _OF_JOBS
    for option in _OF_JOBS.values():
        assert re.search(rf"{option}\b", shown), option


def test_state_ttl_of_a_hint_limits_a_join(capsys: pytest.CaptureFixture[str]) -> None:
    env = rh.Environment()
    registered(env)
    join = "b.price FROM bids b JOIN sales s ON b.auction = s.auction"
    env.sql_script(
        f"CREATE VIEW pairs AS SELECT /*+ STATE_TTL('b' = '1d', 's' = '20d') */ {join};"
        "EXPLAIN SELECT * FROM pairs;"
        f"SET 'table.exec.state.ttl' = '3600000'; EXPLAIN SELECT {join};"
        f"SET 'table.exec.state.ttl' = '0'; EXPLAIN SELECT {join}"
    )
    said = capsys.readouterr().out
    kept = ["20d, the longest time", "kept for 20d)", "kept for 3600000ms)", "kept for forever)"]
    assert [text for text in kept if text in said] == kept


def test_an_empty_list_of_keys_is_one_group() -> None:
    env = rh.Environment(runtime="simulated")
    env.sql("SELECT SUM(n) AS n FROM (VALUES (1), (2)) t(n) GROUP BY () HAVING SUM(n) > 2").collect("n")
    assert env.execute("sum").collected["n"].to_pylist()[-1]["n"] == 3


def test_a_field_of_a_struct_is_named_by_itself() -> None:
    env = rh.Environment(runtime="simulated")
    row = "STRUCT(1 AS auction, STRUCT('web' AS channel) AS of) AS bid"
    env.sql(f"SELECT bid.auction, bid.of.channel FROM (SELECT {row})").collect("bids")
    assert env.execute("fields").collected["bids"].to_pylist() == [{"auction": 1, "channel": "web"}]


@pytest.mark.parametrize("option", ["'json.ignore-parse-errors' = 'true'", "'on_error' = 'skip'"])
def test_a_row_without_event_time_is_skipped_like_other_bad_rows(tmp_path: Path, option: str) -> None:
    times = ['"2026-03-01 12:00:01"', "null", '"noon"', '"2026-03-01 12:00:03"']
    lines = [f'{{"id": {n}, "at": {time}}}' for n, time in enumerate(times)]
    (tmp_path / "rows.jsonl").write_text("\n".join([*lines, '{"id": 4}', "no json"]) + "\n")
    env = rh.Environment(runtime="simulated")
    env.sql_script(
        f"""
        CREATE TABLE t (id BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH (
            'connector' = 'filesystem', 'path' = '{tmp_path}/rows.jsonl', 'format' = 'json', {option}
        );
        CREATE TABLE found (id BIGINT, at TIMESTAMP(3)) WITH ('connector' = 'collect');
        INSERT INTO found SELECT id, at FROM t;
        """
    )
    assert env.execute("skipping").collected["found"]["id"].to_pylist() == [0, 3]


TABLES = """
CREATE TABLE t (id INT, a STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '3');
CREATE VIEW v AS SELECT id FROM t;
CREATE TABLE s (id INT) WITH ('connector' = 'blackhole');
"""
NO_EFFECT = "has no effect: tables have plain names, and packages are installed"
SAID = {
    "EXPLAIN ESTIMATED_COST, CHANGELOG_MODE, JSON_EXECUTION_PLAN SELECT id FROM v": "project\n",
    "EXPLAIN EXECUTE STATEMENT SET BEGIN INSERT INTO s SELECT id FROM t; END": "project\n",
    "SHOW TABLES LIKE 't%'": "t  table, connector 'datagen'\n",
    "SHOW TABLES FROM db NOT ILIKE 'T_%'": "t  table, connector 'datagen'\nv",
    "SHOW VIEWS LIKE 'x'": "no views are registered",
    "SHOW USER FUNCTIONS": "no functions are registered",
    "SHOW FUNCTIONS LIKE 'ab_'": "abs\n",
    "SHOW COLUMNS IN c.d.t NOT LIKE 'i%'": "a  STRING\n",
    "SHOW CURRENT DATABASE": f"note: SHOW DATABASE {NO_EFFECT}",
    "SHOW CREATE CATALOG c": f"note: SHOW CATALOG {NO_EFFECT}",
    "SHOW JOBS": "note: SHOW JOBS has no effect: rheos jobs lists the running jobs",
    "DESC CATALOG EXTENDED c": f"note: DESC CATALOG {NO_EFFECT}",
    "DESCRIBE JOB 'x'": "note: DESCRIBE JOB has no effect: rheos status JOB",
    "DROP DATABASE IF EXISTS db CASCADE": f"note: DROP DATABASE {NO_EFFECT}",
    "ALTER DATABASE db SET ('a' = 'b')": f"note: ALTER DATABASE {NO_EFFECT}",
    "ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS": "note: ANALYZE has no effect",
    "SET 'sql-client.verbose' TO 'true'": "note: SET 'sql-client.verbose' has no effect",
    "SET table.dml-sync TO true": "note: SET 'table.dml-sync' has no effect",
    "ALTER TABLE t RENAME TO u; SHOW TABLES LIKE 'u'; SHOW CREATE TABLE u": "u  table, "
    "connector 'datagen'\nCREATE TABLE t (id INT, a STRING) "
    "WITH ('connector' = 'datagen', 'number-of-rows' = '3');\n"
    "ALTER TABLE t RENAME TO u\n",
    "ALTER VIEW v RENAME TO w; DESCRIBE w": "id  INT\n",
    "ALTER VIEW v AS SELECT a FROM t; DESCRIBE v": "a  STRING\n",
    "ALTER TABLE IF EXISTS x RENAME TO y; SHOW VIEWS": "v\n",
    "EXECUTE STATEMENT SET AS BEGIN INSERT INTO s SELECT id FROM t; END; SHOW VIEWS": "v\n",
    "EXECUTE INSERT INTO s SELECT id FROM t; SHOW VIEWS": "v\n",
    "/* a; b */ INSERT /* c */ INTO s -- d;\nSELECT /*+ BROADCAST(t) */ id FROM t": "note: hints have",
    "CREATE FUNCTION IF NOT EXISTS f AS 'tests.sql.test_flink_scripts.tripled' LANGUAGE PYTHON; "
    "CREATE TEMPORARY SYSTEM FUNCTION IF NOT EXISTS f AS 'no.thing' LANGUAGE PYTHON; "
    "SHOW USER FUNCTIONS": "f\n",
}


_COUNT = "SELECT COUNT(*) FROM"


@pytest.mark.parametrize(
    ("query", "counts"),
    [
        (f"{_COUNT} t /*+ OPTIONS('number-of-rows' = '5') */", [5]),
        (f"{_COUNT} t /*+ options('number-of-rows'='5')*/ AS x WHERE x.id IS NOT NULL", [5]),
        # The declared options stay as they are, and each use has its own.
        (f"{_COUNT} t; {_COUNT} t /*+ OPTIONS('number-of-rows' = '4') */; {_COUNT} t", [3, 4, 3]),
        (
            "SELECT x.n + y.n FROM "
            "(SELECT COUNT(*) AS n FROM t /*+ OPTIONS('number-of-rows' = '7') */) AS x, "
            "(SELECT COUNT(*) AS n FROM t) AS y",
            [10],
        ),
    ],
)
def test_the_hint_sets_options_of_one_use(query: str, counts: list[int]) -> None:
    found = rows_of(f"SET state_ttl = 'forever'; {TABLES} {query};")
    assert [rows for [rows] in found] == [(n,) for n in counts]


def test_the_hint_sets_options_of_one_insert(folder: Path) -> None:
    collected(
        "CREATE TABLE s (n INT) "
        "WITH ('connector' = 'files', 'path' = '{folder}/a', 'format' = 'jsonl');"
        "INSERT INTO s VALUES (1);"
        "INSERT INTO s /*+ OPTIONS('path' = '{folder}/b') */ (n) SELECT 2;",
        folder,
    )
    written = {name: "".join(f.read_text() for f in (folder / name).glob("*.jsonl")) for name in "ab"}
    assert written == {"a": '{"n":1}\n', "b": '{"n":2}\n'}


@pytest.mark.parametrize(
    ("query", "what", "place"),
    [
        ("SELECT id FROM t /*+ OPTIONS('rows' = '5') */", "unknown option 'rows'", "'5'"),
        ("SELECT id FROM t /*+ OPTIONS('a' = '1', 'a' = '2') */", "the option 'a' is set twice", "'a'"),
        ("SELECT id FROM t /*+ OPTIONS('a' =) */", "", ")"),
        ("SELECT a FROM v /*+ OPTIONS('a' = '1') */", "v has no options", "v"),
        ("SELECT a FROM tt /*+ OPTIONS('a' = '1') */", "unknown table 'tt'", "tt"),
        ("WITH c AS (SELECT 1 AS a) SELECT a FROM c /*+ OPTIONS('a' = '1') */", "c is a query", "c"),
        (
            "SELECT a FROM t AS x /*+ OPTIONS('a' = '1') */",
            "must follow the name of a table",
            "OPTIONS",
        ),
        ("INSERT INTO s /*+ OPTIONS('a' = 'b') */ SELECT id FROM t", "unknown option 'a'", "'b'"),
    ],
)
def test_a_wrong_hint_is_an_error_at_its_place(query: str, what: str, place: str) -> None:
    with pytest.raises(rh.RheosError) as caught:
        rows_of(f"{TABLES} {query};")
    assert what in caught.value.what
    assert caught.value.detail is not None
    line, marks = caught.value.detail.splitlines()[:2]
    assert line[marks.index("^") :].startswith(place)


def tripled(n: int) -> int:
    return 3 * n


@pytest.mark.parametrize("statement", SAID)
def test_a_statement_of_flink_answers_or_is_noted(
    statement: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rh.Environment(runtime="simulated").sql_script(f"{TABLES}\n{statement};")
    assert capsys.readouterr().out.startswith(SAID[statement])


def test_an_explained_statement_set_explains_each_insert(capsys: pytest.CaptureFixture[str]) -> None:
    env = rh.Environment(runtime="simulated")
    inserts = "INSERT INTO s SELECT id FROM t; INSERT INTO s SELECT id + 1 FROM t;"
    env.sql_script(f"{TABLES} EXPLAIN STATEMENT SET BEGIN {inserts} END; SHOW VIEWS")
    said = capsys.readouterr().out
    assert said.count("Plan of 'explain'") == 2
    assert said.endswith("v\n")


def test_altered_options_apply_to_later_statements() -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(
        f"{TABLES} CREATE TABLE few (id INT) WITH ('connector' = 'collect'); "
        "CREATE TABLE more LIKE few; INSERT INTO few SELECT id FROM t; "
        "ALTER TABLE t SET ('number-of-rows' = '7', 'fields.id.max' = '9'); "
        "ALTER TABLE t RESET ('fields.id.max'); INSERT INTO more SELECT id FROM t;"
    )
    found = env.execute("script").collected
    assert {name: rows.num_rows for name, rows in found.items()} == {"few": 3, "more": 7}


UNSUPPORTED = [
    ("ALTER TABLE t ADD b INT", "ALTER changes the name or the options of a table", "ADD"),
    ("ALTER TABLE t MODIFY WATERMARK FOR at AS at", "ALTER changes the name or the options", "MODIFY"),
    ("ALTER TABLE t RENAME TO v", "the table 'v' already exists", "v"),
    ("ALTER TABLE nothing RENAME TO w", "unknown table 'nothing'", "nothing"),
    ("ALTER TABLE v SET ('a' = 'b')", "v has no options", "v"),
    ("ALTER TABLE t RESET ('a')", "unknown option 'a'", "'a'"),
    (
        "CREATE TABLE r (a INT); ALTER TABLE r RENAME TO q",
        "only tables with a connector and views",
        "r",
    ),
    ("STOP JOB 'x' WITH SAVEPOINT", "a script cannot stop a job", "STOP"),
    ("CALL sys.compact('t')", "there are no procedures to call", "CALL"),
    ("COMPILE PLAN '/x.json' FOR INSERT INTO s SELECT id FROM t", "plans are not stored", "COMPILE"),
    ("EXECUTE PLAN '/x.json'", "plans are not stored in files", "EXECUTE"),
    ("ALTER FUNCTION f AS 'x.y'", "ALTER FUNCTION is not supported", "ALTER"),
    ("SHOW TABLES LIKE", "this is not valid SQL", "LIKE"),
    ("EXPLAIN SHOW TABLES", "EXPLAIN takes a query", "SHOW"),
]


@pytest.mark.parametrize(("statement", "what", "place"), UNSUPPORTED)
def test_a_statement_of_flink_is_refused_at_its_place(statement: str, what: str, place: str) -> None:
    with pytest.raises(rh.RheosError) as caught:
        rh.Environment(runtime="simulated").sql_script(f"{TABLES}\n{statement};")
    assert what in caught.value.what
    assert caught.value.detail is not None
    line, marks = caught.value.detail.splitlines()
    assert line[marks.index("^") :].startswith(place)
