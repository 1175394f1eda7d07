"""Reads of views: consistent with one checkpoint, page by page, by key, and after whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.savepoint import read_savepoint
from rheos.core.errors import CheckpointError, ConfigurationError, RheosError, TransportError
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.snapshots import IN_FLIGHT_INPUT
from rheos.runtimes.job import JobState
from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.runtime import SimulatedJob
from rheos.runtimes.simulated.store import StoreFolder
from rheos.runtimes.views import checkpoint_reads
from rheos.runtimes.views import reader as reading
from rheos.runtimes.views.answers import MAX_PAGE_ROWS, ViewRequest
from rheos.runtimes.views.files import FileCache
from rheos.runtimes.views.reader import ViewReader
from tests.runtimes.views.jobs import ROWS, USERS, reached, started

CRASHES = Faults(crash_slot=2.0, crash_driver=1.0, store_error=0.05, lose_message=0.05)


def entries(job: SimulatedJob) -> tuple[CheckpointCompleted, ...]:
    return tuple(job.master.views.reads.retained())


def reader_of(job: SimulatedJob, *, cache: int = 0, **options: Any) -> ViewReader:
    """Return a reader of its own, without the files that the job's reader has in its cache."""
    retained = options.pop("retained", lambda: entries(job))
    return ViewReader(job.world.store, retained, FileCache(cache), **options)


def scanned(reader: ViewReader, view: str, **asked: Any) -> list[dict[str, Any]]:
    """Return the rows of all pages."""
    page = reader.view_page(ViewRequest(view=view, **asked))
    rows = [*page.rows]
    while page.next is not None:
        first, page = page, reader.view_page(ViewRequest(view=view, **asked, after=page.next))
        assert (page.checkpoint, page.completed_ms) == (first.checkpoint, first.completed_ms)
        rows += page.rows
    return rows


def check_prefix(reader: ViewReader, number: int | None = None) -> int:
    """Check that all views are those of the same first rows of the input. Return their number."""
    raw = scanned(reader, "raw", checkpoint=number)
    read = sorted(row["v"] for row in raw)
    assert read == list(range(len(read)))
    users = {row["user"]: row for row in scanned(reader, "users", checkpoint=number)}
    latest = {row["user"]: row["v"] for row in scanned(reader, "latest", checkpoint=number)}
    for user in {row["user"] for row in raw}:
        own = [v for v in read if f"u{v % USERS}" == user]
        assert users[user] == {"user": user, "n": len(own), "v": sum(own)}
        assert latest[user] == own[-1]
    assert sum(row["n"] for row in users.values()) == len(read)
    return len(read)


def _once(make: Callable[[], ViewReader]) -> Callable[[], ViewReader]:
    made: list[ViewReader] = []

    def found() -> ViewReader:
        if not made:
            made.append(make())
        return made[0]

    return found


@pytest.mark.parametrize("parallelism", [1, 3])
def test_each_checkpoint_has_the_views_of_one_prefix_of_the_input(parallelism: int) -> None:
    job = started(parallelism=parallelism)
    seen = []
    for number in range(1, 5):
        reader = reader_of(reached(job, number))
        seen.append(check_prefix(reader, entries(job)[-1].checkpoint))
    assert seen == sorted(set(seen))
    assert job.wait().status.state is JobState.FINISHED
    assert check_prefix(reader_of(job)) == ROWS
    assert check_prefix(job.master.views) == ROWS


@pytest.mark.thinned(2)
@pytest.mark.parametrize("seed", range(3))
def test_views_are_consistent_whatever_crashes(seed: int) -> None:
    job = started(faults=CRASHES, seed=seed)
    counts = []
    for _ in range(12):
        known = {entry.checkpoint for entry in entries(job)}

        def is_newer(known: set[CheckpointId] = known) -> bool:
            return not {entry.checkpoint for entry in entries(job)} <= known

        job.world.run_until(is_newer)
        if (kept := entries(job)) and not job.world.faulty:
            counts.append(check_prefix(reader_of(job), kept[-1].checkpoint))
    job.wait()
    assert check_prefix(reader_of(job)) == ROWS
    assert counts == sorted(counts)


def test_views_are_read_after_a_restore_at_another_parallelism() -> None:
    before = reached(started(), 2)
    folder = before.stop()
    rows = check_prefix(reader_of(before))
    store = StoreFolder(before.world.store, folder)
    savepoint = read_savepoint(store, folder)
    assert check_prefix(ViewReader(store, lambda: [savepoint.entry])) == rows
    after = started(parallelism=3, after=before, config={"from_savepoint": folder})
    reached(after, 1)
    assert rows <= check_prefix(reader_of(after)) <= ROWS
    after.wait()
    assert check_prefix(reader_of(after)) == ROWS


# --- pages --------------------------------------------------------------------------------------------


@pytest.mark.thinned(3)
@pytest.mark.parametrize("at_once", [1, 1 << 16])
@pytest.mark.parametrize("limit", [1, 7, 63, 150, 1000])
def test_pages_of_any_size_are_the_whole_scan(
    monkeypatch: pytest.MonkeyPatch, at_once: int, limit: int
) -> None:
    monkeypatch.setattr(checkpoint_reads, "ROWS_AT_ONCE", at_once)
    reader = PAGED()
    rows = scanned(reader, "raw", limit=limit)
    assert rows == scanned(reader, "raw")
    assert sorted(row["v"] for row in rows) == list(range(150))
    some = scanned(reader, "raw", limit=limit, where="v >= 20 AND user <> 'u3'", columns="v")
    assert some == [{"v": row["v"]} for row in rows if row["v"] >= 20 and row["user"] != "u3"]


def _paged() -> ViewReader:
    job = started(rows=150)
    job.wait()
    return reader_of(job, cache=1 << 20)


PAGED = _once(_paged)


def test_a_page_ends_early_if_it_is_large_or_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_reads, "ROWS_AT_ONCE", 1)
    job = started(rows=150)
    job.wait()
    now = iter(range(0, 1000, 6))
    late = reader_of(job, cache=1 << 20, now_s=lambda: next(now))
    assert late.view_page(ViewRequest(view="raw")).next is not None
    monkeypatch.setattr(reading, "_PAGE_BYTES", 100)
    page = reader_of(job).view_page(ViewRequest(view="raw"))
    assert page.next is not None
    assert 0 < len(page.rows) < 150
    assert len(scanned(reader_of(job), "raw")) == 150


def test_a_store_that_does_not_answer_ends_the_read() -> None:
    job = reached(started(), 2)
    now = iter(range(0, 10_000, 30))
    with pytest.raises(TransportError, match="not read within 20 s"):
        reader_of(job, now_s=lambda: next(now)).view_page(ViewRequest(view="raw"))


def test_a_later_page_reads_the_same_checkpoint_or_says_that_it_is_gone() -> None:
    job = reached(started(), 2)
    cached, bare = reader_of(job, cache=1 << 20), reader_of(job)
    asked = ViewRequest(view="raw", limit=10)
    pages = [cached.view_page(asked), bare.view_page(asked)]
    assert pages[0] == pages[1]
    whole = scanned(bare, "raw", limit=10)
    reached(job, 6)
    assert pages[0].checkpoint not in [entry.checkpoint for entry in entries(job)]
    rows, page = [*pages[0].rows], pages[0]
    while page.next is not None:
        page = cached.view_page(msgspec.structs.replace(asked, after=page.next))
        assert page.checkpoint == pages[0].checkpoint
        rows += page.rows
    assert rows == whole
    with pytest.raises(CheckpointError, match=f"checkpoint {pages[1].checkpoint} is gone") as caught:
        bare.view_page(msgspec.structs.replace(asked, after=pages[1].next))
    assert "start the scan again (the checkpoints are " in (caught.value.hint or "")


def test_a_new_read_that_meets_retention_uses_a_newer_checkpoint() -> None:
    job = reached(started(), 1)
    old = entries(job)
    reached(job, 6)
    listings = iter([old, entries(job)])
    reader = reader_of(job, retained=lambda: next(listings))
    assert reader.view_page(ViewRequest(view="users")).checkpoint == entries(job)[-1].checkpoint


# --- keys ---------------------------------------------------------------------------------------------


def test_a_look_up_reads_the_files_of_one_subtask_only() -> None:
    job = started(parallelism=3)
    job.wait()
    read: list[str] = []
    store = job.world.store

    class Counting:
        def get(self, path: str) -> bytes:
            read.append(path)
            return store.get(path)

    reader = ViewReader(Counting(), lambda: entries(job), FileCache(1 << 20))  # type: ignore[arg-type]
    for user in range(USERS):
        page = reader.view_page(ViewRequest(view="users", key=f"u{user}"))
        own = [v for v in range(ROWS) if v % USERS == user]
        assert page.rows == [{"user": f"u{user}", "n": len(own), "v": sum(own)}]
        assert page.next is None
    assert len(read) == len(set(read)), "each file is read once"
    read.clear()
    assert reader.view_page(ViewRequest(view="users", key="nobody")).rows == []
    assert len(read) <= 1 + max(
        sum(h.operator == "view users" and h.subtask == s for h in entries(job)[-1].handles)
        for s in range(3)
    )


SQL = """
CREATE MATERIALIZED VIEW two (PRIMARY KEY (user, v) NOT ENFORCED) AS SELECT user, v FROM clicks;
CREATE MATERIALIZED VIEW times (PRIMARY KEY (at) NOT ENFORCED) AS
    SELECT TIMESTAMP '2026-03-01 00:00:00' AS at, CAST(1.50 AS DECIMAL(10, 2)) AS cents, v FROM clicks;
CREATE MATERIALIZED VIEW nulls AS
    SELECT CASE WHEN v < 3 THEN user END AS user, COUNT(*) AS n FROM clicks
    GROUP BY CASE WHEN v < 3 THEN user END;
"""
OF_ROWS = "whose key is"


@pytest.mark.parametrize(
    ("view", "key", "wanted"),
    [
        ("two", '["u1", 8]', [{"user": "u1", "v": 8}]),
        ("two", '{"v": 8, "user": "u1"}', [{"user": "u1", "v": 8}]),
        ("two", '["u1", 9]', []),
        ("two", '["u1", null]', []),
        ("nulls", "u2", [{"user": "u2", "n": 1}]),
        ("nulls", "[null]", [{"user": None, "n": 17}]),
        ("times", "2026-03-01T00:00:00", 1),
        ("times", '["2026-03-01T01:00:00+01:00"]', 1),
        ("times", "2027-03-01", 0),
        ("two", "u1", "'u1' is not a key of the view 'two', whose key is (user, v)"),
        ("two", '["u1"]', "is not a key of the view 'two', whose key is (user, v)"),
        ("two", '{"user": "u1"}', "is not a key of the view 'two'"),
        ("two", '["u1", "8"]', "the key 'v' of the view 'two' is an integer, not '8'"),
        ("two", '["u1", true]', "the key 'v' of the view 'two' is an integer, not True"),
        ("two", '["u1", 99999999999999999999]', "is an integer, not 99999999999999999999"),
        ("two", "[7, 8]", "the key 'user' of the view 'two' is a string, not 7"),
        ("two", "[1", "'[1' is not a key of the view 'two'"),
        ("times", "noon", "is a time such as 2026-03-01T09:30:00Z, not 'noon'"),
    ],
)
def test_keys_are_checked_against_their_columns(view: str, key: str, wanted: Any) -> None:
    job = KEYED
    asked = ViewRequest(view=view, key=key)
    if isinstance(wanted, str):
        with pytest.raises(ConfigurationError) as caught:
            job().view_page(asked)
        assert wanted in caught.value.what
        return
    rows = job().view_page(asked).rows
    assert (len(rows) if isinstance(wanted, int) else rows) == wanted


def _keyed() -> ViewReader:
    job = started(SQL, rows=20)
    job.wait()
    return reader_of(job)


KEYED = _once(_keyed)


# --- refusals -----------------------------------------------------------------------------------------


def _in_flight(entry: CheckpointCompleted) -> CheckpointCompleted:
    overtaken = msgspec.structs.replace(entry.handles[0], state=f"{IN_FLIGHT_INPUT}0", rows=3)
    return msgspec.structs.replace(entry, handles=[*entry.handles, overtaken])


def test_a_checkpoint_with_rows_in_flight_is_passed_over() -> None:
    job = reached(started(), 4)
    older, newest = entries(job)
    reader = reader_of(job, retained=lambda: [older, _in_flight(newest)])
    assert reader.view_page(ViewRequest(view="users")).checkpoint == older.checkpoint
    reader = reader_of(job, retained=lambda: [_in_flight(newest)])
    with pytest.raises(CheckpointError, match="checkpoints have overtaken rows"):
        reader.views()


@pytest.mark.parametrize(
    ("asked", "error", "what", "hint"),
    [
        ({"view": "user"}, ConfigurationError, "the job has no view 'user'", "did you mean 'users'?"),
        ({"view": "raw", "key": "1"}, ConfigurationError, "the view 'raw' has no key", "scan it"),
        ({"limit": MAX_PAGE_ROWS + 1}, ConfigurationError, "10001 rows are too many", "up to 10000"),
        ({"limit": 0}, ConfigurationError, "a page cannot have 0 rows", "up to 10000"),
        ({"columns": "n,usr"}, ConfigurationError, "has no column 'usr'", "did you mean 'user'?"),
        ({"where": "m = 1"}, ConfigurationError, "no column is named 'm'", "the columns are"),
        ({"where": "n = 'x'"}, ConfigurationError, "the column 'n' is an integer, not 'x'", "pass an"),
        ({"checkpoint": 99}, CheckpointError, "checkpoint 99 is gone", "start the scan again"),
        ({"after": "1-2"}, ConfigurationError, "'1-2' does not continue a scan", "pass the token"),
        (
            {"after": "1-2-3", "key": "u1"},
            ConfigurationError,
            "'1-2-3' does not continue a scan",
            "and no key",
        ),
    ],
)
def test_wrong_reads(asked: dict[str, Any], error: type[RheosError], what: str, hint: str) -> None:
    with pytest.raises(error) as caught:
        WRONG().view_page(ViewRequest(**{"view": "users", **asked}))
    assert what in caught.value.what
    assert hint in (caught.value.hint or "")


def _wrong() -> ViewReader:
    job = started(rows=20)
    job.wait()
    return reader_of(job)


WRONG = _once(_wrong)


def test_a_job_without_checkpoints_or_views_says_so() -> None:
    job = started()
    with pytest.raises(CheckpointError, match="the job has no checkpoint yet"):
        job.master.views.views()
    job = started(
        "CREATE TABLE t (v BIGINT) WITH ('connector' = 'blackhole'); "
        "INSERT INTO t SELECT v FROM clicks",
        rows=5,
    )
    job.wait()
    assert job.master.views.views() == []
    with pytest.raises(ConfigurationError) as caught:
        job.master.views.view_page(ViewRequest(view="v"))
    assert "CREATE MATERIALIZED VIEW" in (caught.value.hint or "")


def test_a_cache_is_bounded() -> None:
    cache = FileCache(100)
    for name in "abc":
        cache.put(name, bytes(40))
    assert [cache.get(name) is not None for name in "abc"] == [False, True, True]
    cache.get("b")
    cache.put("d", bytes(40))
    cache.put("large", bytes(101))
    assert [cache.get(name) is not None for name in ("b", "c", "d", "large")] == [
        True,
        False,
        True,
        False,
    ]
