"""FOR SYSTEM_TIME AS OF: versions of tables with a key, and of rows in order of arrival."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.sql.processing_time_joins import with_current_rows
from rheos.testing import OperatorExample, Right
from rheos.testing.harness import replay
from tests.patterns.test_operator import MODES

IN_ORDER = [mode for mode in MODES if not mode.together]
"""Modes that deliver the rows of both sides one by one."""
RATES = [
    ("insert", "EUR", 10, 0),
    ("insert", "USD", 7, 1_000),
    ("update_after", "EUR", 11, 10_000),
    ("delete", "USD", 7, 12_000),
    ("delete", "EUR", 11, 20_000),
    ("insert", "EUR", 12, 30_000),
]
ORDERS = [(1, "EUR", 5_000), (2, "EUR", 15_000), (3, "USD", 11_999), (4, "USD", 12_000)]
ORDERS += [(5, "EUR", 25_000), (6, "EUR", 31_000), (7, "GBP", 32_000)]


def environment() -> rh.Environment:
    env = rh.Environment(parallelism=2, runtime="simulated")
    names = ("op", "cur", "rate", "at")
    rates = [dict(zip(names, row, strict=True)) for row in RATES]
    watermark = rh.Watermark.bounded_out_of_orderness("60s", on="at")
    changes = env.from_source(rh.collection(rates), watermark=watermark, name="rates")
    env.register("rates", changes.upserts("cur"))
    orders = [dict(zip(("id", "cur", "ts"), row, strict=True)) for row in ORDERS]
    watermark = rh.Watermark.bounded_out_of_orderness("60s", on="ts")
    env.register("orders", env.from_source(rh.collection(orders), watermark=watermark, name="orders"))
    env.sql_script("CREATE VIEW doubled AS SELECT cur AS c, 2 * rate AS twice, at FROM rates")
    return env


def found(query: str) -> list[tuple[Any, ...]]:
    env = environment()
    env.sql(query).collect("found")
    rows = env.execute("versions").collected["found"].to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=str)


AS_OF = "JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.cur = r.cur"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"SELECT o.id, r.rate FROM orders o {AS_OF}", [(1, 10), (2, 11), (3, 7), (6, 12)]),
        (
            f"SELECT o.id, r.rate, r.cur FROM orders o LEFT {AS_OF}",
            [
                *((1, 10, "EUR"), (2, 11, "EUR"), (3, 7, "USD"), (4, None, None)),
                *((5, None, None), (6, 12, "EUR"), (7, None, None)),
            ],
        ),
        # The version is chosen before the condition, so order 2 has no older partner.
        (f"SELECT o.id, r.rate FROM orders o {AS_OF} AND r.rate <> 11", [(1, 10), (3, 7), (6, 12)]),
        (f"SELECT o.id FROM orders o {AS_OF} WHERE r.rate > 10", [(2,), (6,)]),
        (
            "SELECT o.id, v.twice FROM orders o JOIN doubled FOR SYSTEM_TIME AS OF o.ts AS v "
            "ON o.cur = v.c",
            [(1, 20), (2, 22), (3, 14), (6, 24)],
        ),
        (
            "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE (SELECT o.ts, r.rate FROM "
            f"orders o {AS_OF}), DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
            "GROUP BY window_start, window_end",
            None,
        ),
    ],
)
def test_a_row_meets_the_version_of_its_time(query: str, expected: Any) -> None:
    if expected is None:
        [(_, n)] = found(query)
        assert n == 4
    else:
        assert found(query) == expected


def test_a_table_with_a_primary_key_is_versioned(tmp_path: Any) -> None:
    lines = ['{"cur": "EUR", "rate": 10, "at": "2026-03-01 12:00:00"}']
    lines += ['{"cur": "EUR", "rate": 11, "at": "2026-03-01 12:00:10"}']
    (tmp_path / "rates.jsonl").write_text("\n".join(lines) + "\n")
    orders = "".join(f'{{"id": {n}, "ts": "2026-03-01 12:00:{n:02}"}}\n' for n in (5, 15))
    (tmp_path / "orders.jsonl").write_text(orders)
    env = rh.Environment(runtime="simulated")
    env.sql_script(
        f"""
        CREATE TABLE orders (id INT, ts TIMESTAMP(3), cur AS 'EUR', WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/orders.jsonl', 'format' = 'json');
        CREATE TABLE rates (
            cur STRING, rate INT, at TIMESTAMP(3), WATERMARK FOR at AS at,
            PRIMARY KEY (cur) NOT ENFORCED
        ) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/rates.jsonl', 'format' = 'json');
        CREATE TABLE found (id INT, rate INT) WITH ('connector' = 'collect');
        INSERT INTO found SELECT o.id, r.rate FROM orders o {AS_OF};
        """
    )
    rows = env.execute("rates").collected["found"].to_pylist()
    assert sorted((row["id"], row["rate"]) for row in rows) == [(5, 10), (15, 11)]


@pytest.mark.parametrize("mode", IN_ORDER, ids=lambda mode: mode.name)
@pytest.mark.parametrize(
    ("how", "expected"),
    [("inner", [(2, 10), (3, 11)]), ("left", [(1, None), (2, 10), (3, 11), (4, None)])],
)
def test_a_row_meets_the_row_that_has_arrived_last(mode: Any, how: str, expected: Any) -> None:
    example = OperatorExample(
        lambda orders, rates: {
            "found": with_current_rows(orders.key_by("cur"), rates.key_by("of"), how)
        },
        pa.schema([("id", pa.int64()), ("cur", pa.string())]),
        [
            {"id": 1, "cur": "EUR"},
            Right({"of": "EUR", "rate": 10}),
            {"id": 2, "cur": "EUR"},
            Right({"of": "EUR", "rate": 11}),
            {"id": 3, "cur": "EUR"},
            {"id": 4, "cur": "USD"},
        ],
        right=pa.schema([("of", pa.string()), ("rate", pa.int64())]),
    )
    rows = replay(example, mode)["found"]
    assert [(row["id"], row["rate"]) for row in rows] == expected


CURRENT = [
    "LEFT JOIN rates FOR SYSTEM_TIME AS OF PROCTIME() AS r ON o.cur = r.cur",
    "LEFT JOIN best FOR SYSTEM_TIME AS OF o.now AS r ON o.cur = r.cur",
    "JOIN high FOR SYSTEM_TIME AS OF o.now AS r ON o.cur = r.cur AND r.rate <> 11",
]


@pytest.mark.parametrize("join", CURRENT)
def test_current_rows_are_those_of_a_table_or_view(join: str) -> None:
    env = environment()
    env.sql_script(
        """
        CREATE VIEW clocked AS SELECT id, cur, PROCTIME() AS now FROM orders;
        CREATE VIEW best AS SELECT cur, MAX(rate) AS rate FROM rates GROUP BY cur;
        CREATE VIEW high AS SELECT cur, rate FROM rates WHERE rate > 10;
        """
    )
    query = f"SELECT o.id, r.rate FROM clocked o {join}"
    assert "with the current row" in env.explain_sql(query)
    env.sql(query).collect("found")
    rows = env.execute("current").collected["found"].to_pylist()
    ids = [row["id"] for row in rows]
    if join.startswith("LEFT"):
        assert sorted(ids) == [order[0] for order in ORDERS]
        assert {row["rate"] for row in rows} <= {None, 7, 10, 11, 12}
    else:
        assert len(ids) == len({*ids})
        assert {row["rate"] for row in rows} <= {12}


WRONG = [
    ("ON o.id = r.rate", "a join with the versions of a table compares its key"),
    ("ON o.cur = r.cur AND o.id = r.rate", "a join with the versions of a table compares its key"),
]


@pytest.mark.parametrize(("on", "what"), WRONG)
def test_a_join_with_versions_compares_their_key(on: str, what: str) -> None:
    with pytest.raises(rh.RheosError) as caught:
        environment().sql(f"SELECT o.id FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r {on}")
    assert what in caught.value.what
