"""The state of a job is looked up in its checkpoints: it equals the state that a debugger restores."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from rich.console import Console

import rheos as rh
from rheos.cli.shell.session import ShellSession
from rheos.core.errors import ConfigurationError, SchemaError
from rheos.core.protocol.state_config import Backend
from rheos.ops.dashboard.operations import RestRequest, operations
from rheos.ops.dashboard.served_jobs import ServedJobs
from rheos.runtimes.operation_contract import Role
from tests.ops.debugging.jobs import PROGRAM, run_job, write_input

JOB = "orders@kept"
USERS = [f"user {number}" for number in range(40)]
JOINED = (
    "SELECT p.user, p.n, total.value FROM (SELECT user, SUM(n) AS n FROM pairs GROUP BY user) p "
    "JOIN sessions.total ON p.user = total.user"
)
TOTALS = """
totals = keyed.running(n=rh.agg.count(), amount=rh.agg.sum("amount")).uid("totals")
totals.sink_to(rh.print_sink(), name="totals-out", uid="totals-out")
pairs = orders.key_by("user", "amount").running(n=rh.agg.count()).uid("pairs")
pairs.sink_to(rh.print_sink(), name="pairs-out", uid="pairs-out")
env.execute"""


def ran(folder: Path, patch: pytest.MonkeyPatch, rows: int = 240, **given: Any) -> int:
    """Run the job in a folder, and return the number of its checkpoints."""
    patch.chdir(folder)
    patch.setenv("RHEOS_HOME", str(folder / "home"))
    Path("job.py").write_text(PROGRAM.replace("\nenv.execute", TOTALS))
    write_input("0", *((USERS[n * n % 40], 1 + n % 9, 20 + n // 8) for n in range(rows)))
    with contextlib.redirect_stdout(io.StringIO()):
        return len(run_job(interval_ms=40, **given))


@pytest.fixture(scope="module", autouse=True)
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        assert ran(tmp_path_factory.mktemp("job"), patch) > 3
        yield


def debugged(user: str, operator: str = "sessions") -> Any:
    found = rh.debug("orders", user, operator=operator, checkpoint_dir="kept", against="job.py")
    return {name: [dict(row) for row in of.rows] for name, of in found.state.items()}


def looked_up(user: str, state: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = rh.query(JOB).state("sessions", state).get(user).table.to_pylist()
    assert {row.pop("user") for row in rows} <= {user}
    return rows


def test_each_kind_of_state_is_looked_up() -> None:
    seen = 0
    for user in USERS[:12]:
        try:
            expected = debugged(user)
        except ConfigurationError:
            expected = {}
        for state in ("total", "last", "amounts", "by_size", "timers"):
            assert looked_up(user, state) == expected.get(state, [])
            seen += len(expected.get(state, []))
    assert seen > 20


def test_running_aggregates_are_looked_up() -> None:
    query = rh.query(JOB)
    amounts: dict[str, int] = {}
    for n in range(240):
        user = USERS[n * n % 40]
        amounts[user] = amounts.get(user, 0) + 1 + n % 9
    for user, amount in amounts.items():
        (row,) = query.state("totals").get(user).table.to_pylist()
        assert (row["user"], row["amount"]) == (user, amount)
    pairs = query.state("pairs").scan().table.to_pylist()
    assert sum(row["n"] for row in pairs) == 240
    for row in pairs[:20]:
        assert query.state("pairs").get(row["user"], row["amount"]).table.to_pylist() == [row]
        assert query.state("pairs").get(amount=row["amount"], user=row["user"]).table.num_rows == 1
    assert query.state("pairs").get("nobody", 1).table.num_rows == 0


def test_a_scan_has_the_rows_of_all_keys_of_one_checkpoint() -> None:
    state = rh.query(JOB).state("sessions", "total")
    scan = state.scan()
    by_key = [state.get(user) for user in USERS]
    assert {rows.checkpoint for rows in by_key} == {scan.checkpoint}
    expected = [row for rows in by_key for row in rows.table.to_pylist()]
    assert sorted(map(repr, scan.table.to_pylist())) == sorted(map(repr, expected))
    assert state.scan(limit=3).table.equals(scan.table.slice(0, 3).combine_chunks())
    lists = rh.query(JOB).state("sessions", "amounts").scan().table
    assert pa.types.is_integer(lists.schema.field("position").type)


@pytest.mark.parametrize(
    ("state", "of"), [("sessions", "by_size"), ("sessions", "amounts"), ("pairs", None)]
)
def test_pages_have_the_rows_of_a_scan(state: str, of: str | None) -> None:
    """A page may end between the elements of a list."""
    table = rh.query(JOB).state(state, of)
    whole = table.scan()
    for rows in (1, 7):
        pages = list(table.pages(rows=rows))
        assert {page.checkpoint for page in pages} == {whole.checkpoint}
        assert max(page.table.num_rows for page in pages) <= rows
        assert pa.concat_tables([page.table for page in pages]).equals(whole.table)


def test_a_scan_has_a_condition_and_columns() -> None:
    state = rh.query(JOB).state("pairs")
    rows = state.scan().table.to_pylist()
    busy = state.scan("n >= 2 AND amount < 5", columns=["n", "user"]).table
    assert busy.column_names == ["n", "user"]
    expected = [(row["n"], row["user"]) for row in rows if row["n"] >= 2 and row["amount"] < 5]
    assert expected
    assert [(row["n"], row["user"]) for row in busy.to_pylist()] == expected


def test_the_states_of_a_job_are_listed() -> None:
    listed = {info.name: info for info in rh.query(JOB).states()}
    assert {*listed} == {
        "totals",
        "pairs",
        "sessions.total",
        "sessions.last",
        "sessions.amounts",
        "sessions.by_size",
    }
    assert listed["pairs"].key == ["user", "amount"]
    assert [*listed["sessions.by_size"].columns] == ["user", "map_key", "value"]


def test_sql_joins_states_at_one_checkpoint() -> None:
    both = rh.query(JOB).scans("pairs", "sessions.total")
    assert both["pairs"].checkpoint == both["sessions.total"].checkpoint
    sums: dict[str, int] = {}
    for row in both["pairs"].table.to_pylist():
        sums[row["user"]] = sums.get(row["user"], 0) + row["n"]
    totals = {row["user"]: row["value"] for row in both["sessions.total"].table.to_pylist()}
    expected = [[user, sums[user], totals[user]] for user in sorted(totals)]
    assert len(expected) > 1
    rows = rh.query(JOB).sql(JOINED)
    assert rows.checkpoint == both["pairs"].checkpoint
    assert sorted([*row.values()] for row in rows.table.to_pylist()) == expected
    console = Console(file=io.StringIO(), width=100)
    session = ShellSession(
        rh.Environment(runtime="simulated"), console, live=False, views=rh.query(JOB)
    )
    assert session.tables()["sessions.total"] == ["user", "value"]
    session.run(JOINED)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    found = re.findall(r"^ *(user \d+) +(\d+) +(\d+) *$", shown, re.MULTILINE)
    assert sorted([user, int(n), int(value)] for user, n, value in found) == expected


def test_rest_reads_state_of_a_stored_job() -> None:
    jobs = ServedJobs(["kept"])
    (key,) = [job["key"] for job in jobs.listed()]
    by_name = {operation.name: operation for operation in operations()}

    def asked(name: str, **query: str) -> Any:
        operation = by_name[name]
        given = {each: [query[each]] if each in query else [] for each in operation.query}
        replays: Any = None
        answer = operation.run(RestRequest(jobs, jobs.find(key), given, None, replays))
        return msgspec.json.decode(msgspec.json.encode(answer))

    assert (by_name["state"].role, by_name["states"].role) == (Role.READ, Role.LOOK)
    assert {state["name"] for state in asked("states")} > {"totals", "sessions.by_size"}
    rows = rh.query(JOB).state("pairs").scan()
    page = asked("state", state="pairs", limit="100", where="n > 0")
    assert page["checkpoint"] == rows.checkpoint
    found = page["rows"]
    while page["next"] is not None:
        page = asked("state", state="pairs", limit="100", where="n > 0", after=page["next"])
        found += page["rows"]
    assert found == rows.table.to_pylist()
    (row,) = asked("state", state="pairs", key=json.dumps([found[0]["user"], found[0]["amount"]]))[
        "rows"
    ]
    assert row == found[0]
    with pytest.raises(ConfigurationError, match="has 4 keyed states"):
        asked("state", state="sessions")


@pytest.mark.parametrize(
    ("read", "error", "what"),
    [
        (
            lambda job: job.state("nothing").scan(),
            ConfigurationError,
            "no state of an operator 'nothing'",
        ),
        (lambda job: job.state("sessions").scan(), ConfigurationError, "has 4 keyed states"),
        (lambda job: job.state("sessions", "x").scan(), ConfigurationError, "has no state 'x'"),
        (lambda job: job.state("windows", "totals").scan(), SchemaError, "content of windows"),
        (lambda job: job.state("orders").scan(), ConfigurationError, "has no keyed states"),
        (lambda job: job.state("totals").get(), ConfigurationError, r"'totals', whose key is \(user\)"),
        (lambda job: job.state("totals").get("a", "b"), ConfigurationError, "is not a key of"),
        (lambda job: job.state("totals").get("a", user="a"), ConfigurationError, "both by position"),
        (lambda job: job.state("totals").get(usr="a"), ConfigurationError, "is not a key of"),
        (
            lambda job: job.state("totals").get(7),
            ConfigurationError,
            "'user' of the state 'totals' is a string, not 7",
        ),
        (
            lambda job: job.state("totals").get(None),
            ConfigurationError,
            "'user' of the state 'totals' is null",
        ),
        (
            lambda job: job.state("totals").scan("n = 1", columns=["x"]),
            ConfigurationError,
            "column 'x'",
        ),
        (lambda job: job.state("totals").scan("m = 1"), ConfigurationError, "no column is named 'm'"),
        (lambda job: job.state("pairs").get("a", "x"), ConfigurationError, "is an integer, not 'x'"),
    ],
)
def test_wrong_reads_are_refused(read: Any, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        read(rh.query(JOB))


def test_state_in_rocksdb_has_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = ("sessions.total", "sessions.amounts", "sessions.by_size", "sessions.timers", "totals")

    def read() -> list[list[dict[str, Any]]]:
        job = rh.query(JOB)
        found = [job.state(*name.split(".")) for name in states]
        scans = [sorted(map(repr, state.scan().table.to_pylist())) for state in found]
        paged = [sorted(repr(r) for p in s.pages(rows=7) for r in p.table.to_pylist()) for s in found]
        assert paged == scans
        looked = [state.get(user).table.to_pylist() for state in found for user in USERS[:9]]
        return [*scans, looked]

    expected = read()
    assert all(expected)
    assert ran(tmp_path, monkeypatch, backend=Backend.ROCKSDB) > 3
    assert {info.name for info in rh.query(JOB).states()} >= {"sessions.total", "totals"}
    assert read() == expected
