"""CREATE MATERIALIZED VIEW: the rows that a job keeps are those of its query."""

from __future__ import annotations

from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import ProgramError, RheosError, SchemaError

ROWS = [
    {"page": page, "ms": ms, "tags": [page]}
    for page, ms in [("home", 1), ("cart", 2), (None, 5), ("home", 3), ("cart", 2), (None, 7)]
]


def job_of(script: str) -> rh.JobHandle:
    env = rh.Environment(runtime="simulated", parallelism=2)
    env.register("clicks", env.from_source(rh.collection(ROWS)))
    env.sql_script(script)
    job = env.execute_async("views")
    job.wait()
    return job


VIEWS: list[tuple[str, list[str], list[tuple[Any, ...]]]] = [
    (
        "v AS SELECT page, COUNT(*) AS n, SUM(ms) AS ms FROM clicks GROUP BY page",
        ["page"],
        [("home", 2, 4), ("cart", 2, 4), (None, 2, 12)],
    ),
    ("v AS SELECT ms, page FROM clicks WHERE ms = 2", [], [(2, "cart"), (2, "cart")]),
    ("v AS SELECT COUNT(*) AS n FROM clicks", [], [(6,)]),
    ("v AS SELECT tags FROM clicks WHERE ms > 4", [], [([None],), ([None],)]),
    (
        "v (PRIMARY KEY (page) NOT ENFORCED) AS SELECT page, ms FROM clicks",
        ["page"],
        [("home", 3), ("cart", 2), (None, 7)],
    ),
    (
        "v (p, longest, PRIMARY KEY (LONGEST)) AS SELECT page, MAX(ms) FROM clicks GROUP BY page",
        ["longest"],
        [("home", 3), ("cart", 2), (None, 7)],
    ),
    (
        "v AS SELECT ms FROM clicks EXCEPT ALL SELECT ms FROM clicks WHERE page = 'home'",
        ["ms"],
        [(2,), (2,), (5,), (7,)],
    ),
]


@pytest.mark.parametrize(("view", "key", "rows"), VIEWS, ids=range(len(VIEWS)))
def test_a_view_has_the_rows_of_its_query(
    view: str, key: list[str], rows: list[tuple[Any, ...]]
) -> None:
    found = rh.query(job_of(f"CREATE MATERIALIZED VIEW {view}")).view("V")
    if "EXCEPT" not in view:  # Its rows are repeated, so they have no key.
        assert found.info.key == key
    kept = [tuple(row.values()) for row in found.scan().table.to_pylist()]
    assert sorted(map(repr, kept)) == sorted(map(repr, rows))


def test_other_queries_read_a_materialized_view() -> None:
    job = job_of("""
        CREATE MATERIALIZED VIEW pages AS SELECT page, SUM(ms) AS ms FROM clicks GROUP BY page;
        CREATE MATERIALIZED VIEW largest AS SELECT MAX(ms) AS ms FROM pages;
        CREATE TABLE t (page STRING, ms BIGINT) WITH ('connector' = 'collect');
        INSERT INTO t SELECT page, ms FROM pages;
    """)
    query = rh.query(job)
    assert query.view("largest").scan().table.to_pylist() == [{"ms": 12}]
    assert query.view("pages").get(None).table.to_pylist() == [{"page": None, "ms": 12}]
    assert job.wait().collected["t"].num_rows >= 3


def test_a_view_that_was_dropped_or_replaced_is_not_kept() -> None:
    job = job_of("""
        CREATE MATERIALIZED VIEW a AS SELECT ms FROM clicks;
        CREATE MATERIALIZED VIEW b AS SELECT ms FROM clicks;
        CREATE MATERIALIZED VIEW IF NOT EXISTS b AS SELECT page FROM clicks;
        DROP VIEW a;
        CREATE OR REPLACE MATERIALIZED VIEW B AS SELECT page FROM clicks WHERE ms = 1;
        CREATE VIEW plain AS SELECT page FROM clicks;
    """)
    [info] = rh.query(job).views()
    assert (info.name, info.columns) == ("B", {"page": "string"})
    assert rh.query(job).view("b").scan().table.to_pylist() == [{"page": "home"}]


@pytest.mark.parametrize(
    ("view", "error", "what", "hint"),
    [
        (
            "MATERIALIZED VIEW v (PRIMARY KEY (pge)) AS SELECT page FROM clicks",
            SchemaError,
            "unknown column 'pge'",
            "did you mean 'page'?",
        ),
        (
            "VIEW v (PRIMARY KEY (page)) AS SELECT page FROM clicks",
            ProgramError,
            "only a materialized view has a PRIMARY KEY",
            "CREATE MATERIALIZED VIEW v",
        ),
        (
            "MATERIALIZED VIEW v AS SELECT page AS op FROM clicks",
            ProgramError,
            "a materialized view cannot have a column 'op'",
            "SELECT op AS op_",
        ),
    ],
)
def test_wrong_views(view: str, error: type[RheosError], what: str, hint: str) -> None:
    env = rh.Environment(runtime="simulated")
    env.register("clicks", env.from_source(rh.collection(ROWS)))
    with pytest.raises(error) as caught:
        env.sql_script(f"CREATE {view}")
    assert what in caught.value.what
    assert hint in (caught.value.hint or "")
