"""SQL over the views of a job returns the rows of the result, and not its changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.api import overrides, partial_settings
from rheos.api.overrides import Overrides
from rheos.core.errors import ConfigurationError, ProgramError, RheosError, Site
from rheos.core.graph.changelog import Changes
from rheos.ops.views.job_views import JobViews
from rheos.ops.views.view_queries import final_rows
from tests.runtimes.views.jobs import USERS, reached, started


@pytest.fixture(scope="module")
def job() -> JobViews:
    return rh.query(reached(started(), 3))


def rows_of(job: JobViews, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = job.sql(query).table.to_pylist()
    return rows


def test_a_result_has_each_row_once(job: JobViews) -> None:
    raw = job.view("raw").scan()
    per_user = Counter(row["user"] for row in raw.table.to_pylist())
    counted = job.sql("SELECT user, COUNT(*) AS n FROM raw GROUP BY user")
    assert counted.checkpoint == raw.checkpoint
    assert {row["user"]: row["n"] for row in counted.table.to_pylist()} == per_user
    assert rows_of(job, "SELECT COUNT(*) AS n FROM raw") == [{"n": raw.table.num_rows}]
    assert rows_of(job, "SELECT v FROM raw WHERE v < 0") == []
    top = rows_of(
        job, "SELECT u.user FROM users u JOIN latest l USING (user) ORDER BY l.v DESC LIMIT 2"
    )
    last = max(row["v"] for row in raw.table.to_pylist())
    assert [row["user"] for row in top] == [f"u{v % USERS}" for v in (last, last - 1)]


ORDERS = {
    "a column": ("v DESC", lambda row: -row["v"]),
    "several": ("user DESC, v", lambda row: (-ord(row["user"][1]), row["v"])),
    "an expression": ("v % 10, -v", lambda row: (row["v"] % 10, -row["v"])),
    "nulls": (
        "NULLIF(user, 'u3') NULLS LAST, v",
        lambda row: (row["user"] == "u3", row["user"], row["v"]),
    ),
    "a position": ("2, 1 DESC", lambda row: (row["user"], -row["v"])),
}


@pytest.mark.parametrize("kind", ORDERS)
def test_rows_are_in_order(job: JobViews, kind: str) -> None:
    order, key = ORDERS[kind]
    rows = job.view("raw").scan().table.to_pylist()
    assert rows_of(job, f"SELECT v, user FROM raw ORDER BY {order}") == sorted(rows, key=key)


def test_changes_are_applied_before_rows_are_sorted(
    job: JobViews, capsys: pytest.CaptureFixture[str]
) -> None:
    users = job.view("users").scan().table.to_pylist()
    most = sorted(users, key=lambda row: (-row["n"], row["user"]))
    counted = "SELECT user FROM raw GROUP BY user ORDER BY COUNT(*) DESC, user"
    assert rows_of(job, counted) == [{"user": row["user"]} for row in most]
    first = rows_of(job, f"WITH raw AS (SELECT * FROM raw) {counted} LIMIT 3 OFFSET 1")
    assert first == [{"user": row["user"]} for row in most[1:4]]
    both = "SELECT user, n FROM users UNION SELECT 'z' AS user, n FROM users ORDER BY user DESC, n"
    assert [row["user"] for row in rows_of(job, both)][-USERS:] == sorted(
        (row["user"] for row in users), reverse=True
    )
    assert capsys.readouterr().out == ""


def test_names_are_those_of_sql(job: JobViews) -> None:
    assert (
        len(
            rows_of(
                job,
                'SELECT "user" FROM USERS AS "Users"',
            )
        )
        == USERS
    )


def test_options_of_the_command_are_for_the_program(job: JobViews) -> None:
    made: list[object] = []
    continuous = partial_settings.from_program({"runtime": "continuous"}, Site("job.py", 1))
    with overrides.applied(Overrides(settings=(continuous,), made=made.append)):
        assert len(rows_of(job, "SELECT user FROM users")) == USERS
        assert overrides.current().made is not None
    assert made == []


@pytest.mark.parametrize(
    ("query", "error", "what"),
    [
        ("SELECT 1 AS n", ConfigurationError, "reads no view and no state"),
        ("SELECT * FROM user", ConfigurationError, r"(?s)reads no view.*users"),
        ("SELECT nothing FROM users", ProgramError, "nothing"),
        ("SELECT FROM", ProgramError, "SELECT"),
        ("DROP TABLE users", ProgramError, "takes a query"),
        ("SELECT 1 AS a; SELECT 2 AS a", ProgramError, "takes one query"),
    ],
)
def test_wrong_queries_are_refused(
    job: JobViews, query: str, error: type[RheosError], what: str
) -> None:
    with pytest.raises(error, match=what) as refused:
        job.sql(query)
    assert refused.value.site is not None
    assert refused.value.site.file == __file__


def test_changes_without_a_key_leave_equal_rows() -> None:
    ops = ["insert", "insert", "insert", "update_before", "update_after", "delete"]
    lists = [[1], [1], [2], [2], [3], [3]]
    rows = pa.table({"op": ops, "v": lists})
    assert final_rows(rows, Changes((), retracts=True)).to_pylist() == [{"v": [1]}, {"v": [1]}]
    by_key = rows.append_column("k", pa.array([0, 1, 2, 2, 2, 1]))
    found = final_rows(by_key, Changes(("k",), retracts=True))
    assert found.to_pylist() == [{"v": [1], "k": 0}, {"v": [3], "k": 2}]
    assert final_rows(rows.slice(0, 0), Changes((), retracts=True)).schema == rows.schema.remove(0)
    assert final_rows(rows, None) is rows
