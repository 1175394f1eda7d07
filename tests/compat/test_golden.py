"""Snapshots of every released version are restored, and jobs resume from them. Rows published before
and after a snapshot are together those of a single run. The snapshots come from `make_golden.py`, and
are never written again."""

from __future__ import annotations

import ast
import json
import zipfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.core.checkpoint.compatibility import Finding, Verdict, compare_entry
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.savepoint import Savepoint, read_savepoint, verify_savepoint
from rheos.core.errors import CheckpointError
from rheos.core.operators.shapes import state_shapes
from rheos.core.protocol.snapshots import PartMode
from rheos.core.protocol.state_config import Backend
from rheos.runtimes.simulated.store import MemoryStore, StoreFolder
from tests.compat.make_golden import BACKENDS, PUBLISHED, with_checkpoints, with_savepoint
from tests.compat.programs import ROWS, Outputs, evolved, released
from tests.compat.worlds import JOB, Kept, Rows, begin

FOLDER = Path(__file__).parent
VERSIONS = sorted(folder.name for folder in FOLDER.iterdir() if folder.name[0].isdigit())
PLACE = "savepoints/kept"

MEMORY, ROCKSDB = Backend.MEMORY, Backend.ROCKSDB
Build = Callable[[rh.Environment], Outputs]
SUMS = ("sums", "row sums", "running", "new")
"""Outputs of which only the last row of a key does not depend on the order of arrival."""


@dataclass(frozen=True)
class Snapshot:
    files: dict[str, bytes]
    published: dict[str, dict[str, Rows]]
    """By output and committable."""

    def store(self) -> MemoryStore:
        store = MemoryStore()
        store.files.update(self.files)
        return store


def snapshot(version: str, kind: str) -> Snapshot:
    with zipfile.ZipFile(FOLDER / version / f"{kind}.zip") as packed:
        files = {path: packed.read(path) for path in packed.namelist()}
    return Snapshot(files, json.loads(files.pop(PUBLISHED)))


def from_savepoint(version: str, build: Build, **more: Any) -> Kept:
    kept = snapshot(version, "savepoint")
    return begin(
        build,
        files={f"{PLACE}/{path}": data for path, data in kept.files.items()},
        from_savepoint=PLACE,
        published=kept.published,
        **more,
    )


def settled(rows: dict[str, Rows]) -> dict[str, Any]:
    """Return the rows of each output, sorted if their order of arrival is not part of the result."""
    told: dict[str, Any] = {}
    for output, of in rows.items():
        if output in SUMS:
            last: dict[str, Any] = {}
            for row in sorted(of, key=lambda row: float(row["n"])):
                last[row["k"]] = row
            # Which row came last to a key is left to chance.
            told[output] = {
                key: {
                    name: row[name]
                    for name in row
                    if name not in ("i", "small", "price", "at", "extra")
                }
                | ({"price": row["price"]} if output == "sums" else {})
                for key, row in last.items()
            }
        else:
            told[output] = sorted(map(in_order, of))
    return told


def in_order(row: dict[str, Any]) -> str:
    """Return the row as a string that does not depend on the order of columns."""
    return repr(sorted(row.items()))


@cache
def whole(build: Build) -> dict[str, Rows]:
    """Return the rows that a single run publishes."""
    kept = begin(build)
    kept.world.run()
    return kept.rows()


def test_the_program_computes_the_expected_rows() -> None:
    rows = whole(released)
    assert {output: len(of) for output, of in rows.items() if output in SUMS} == {
        "sums": ROWS,
        "row sums": ROWS,
        "running": ROWS,
    }
    assert len(rows["watch"]) == 1 + ROWS // 40
    (hot,) = (ast.literal_eval(row["told"]) for row in rows["watch"] if row["k"] == "hot")
    assert hot[0] == len(hot[8]) == ROWS / 4
    assert dict(hot[9])["timers"] == ROWS / 4


# The snapshots were taken at a parallelism of 2.
NARROWER, WIDER = (1, MEMORY), (3, ROCKSDB)


def anywhere(parallelism: int, backend: Backend) -> Any:
    """Yield worlds with this parallelism in every run, and with the other one in slow tests."""
    return pytest.mark.parametrize(
        ("parallelism", "backend"),
        [
            pytest.param(*to, marks=[pytest.mark.slow] * (to != (parallelism, backend)))
            for to in (NARROWER, WIDER)
        ],
    )


@pytest.mark.parametrize("version", VERSIONS)
@anywhere(*NARROWER)
def test_a_job_resumes_from_a_savepoint(version: str, parallelism: int, backend: Backend) -> None:
    kept = from_savepoint(version, released, parallelism=parallelism, backend=backend)
    before = {output: len(of) for output, of in kept.rows().items()}
    assert 0 < before["sums"] < ROWS
    assert 0 < before["windows"] < len(whole(released)["windows"])
    kept.world.run()
    assert settled(kept.rows()) == settled(whole(released))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", BACKENDS)
@anywhere(*NARROWER)
def test_a_job_resumes_from_its_checkpoint_directory(
    version: str, kind: str, parallelism: int, backend: Backend
) -> None:
    before = snapshot(version, kind)
    kept = begin(
        released,
        files=before.files,
        published=before.published,
        parallelism=parallelism,
        backend=backend,
        interval_ms=50,
    )
    assert 0 < len(kept.rows()["sums"]) < ROWS
    kept.world.run()
    assert settled(kept.rows()) == settled(whole(released))


def changes(savepoint: Savepoint, build: Build) -> list[Finding]:
    env = rh.Environment(2, max_parallelism=16, runtime="simulated")
    for name, stream in build(env).items():
        stream.sink_to(rh.print_sink(), uid=f"sink of {name}")
    operators = env.plan("kept").operators()
    names = {operator.id: operator.name for operator in operators}
    return compare_entry(savepoint.entry, state_shapes(operators), names)


def savepoint_of(version: str) -> Savepoint:
    store = snapshot(version, "savepoint").store()
    savepoint = read_savepoint(store, version)
    verify_savepoint(store, savepoint, version)
    return savepoint


@pytest.mark.parametrize("version", VERSIONS)
def test_the_program_finds_all_its_state_unchanged(version: str) -> None:
    savepoint = savepoint_of(version)
    assert savepoint.version == version
    findings = changes(savepoint, released)
    told = {(finding.operator, finding.state): finding.verdict for finding in findings}
    assert set(told.values()) == {Verdict.SAME}
    assert {operator: {state for of, state in told if of == operator} for operator in STATES} == STATES


EXPECTED = {
    "watch/seen/events": Verdict.MIGRATES,
    "watch/seen/note": Verdict.DROPPED,
    "watch/seen/level": Verdict.MIGRATES,
    "watch/seen/detail/since": Verdict.MIGRATES,
    "watch/smalls/[]": Verdict.MIGRATES,
    "watch/least": Verdict.MIGRATES,
    "watch/spans/[].width": Verdict.MIGRATES,
    "watch/fresh": Verdict.NEW,
    "numbered/held/small": Verdict.MIGRATES,
    "numbered/held/extra": Verdict.MIGRATES,
    "sums/reduced/unit": Verdict.MIGRATES,
    "row sums": Verdict.DROPPED,
    "running/running/name": Verdict.DROPPED,
    "running/running/fresh": Verdict.NEW,
    "windows/fired/lateness": Verdict.MIGRATES,
    "windows/totals/max.small": Verdict.MIGRATES,
    "windows/values.price": Verdict.DROPPED,
    "contents/rows/extra": Verdict.MIGRATES,
    "new": Verdict.NEW,
}


@pytest.mark.parametrize("version", VERSIONS)
def test_changes_of_the_program_are_reported(version: str) -> None:
    findings = changes(savepoint_of(version), evolved)
    told = {
        "/".join(
            part for part in (one.operator, one.state, one.field.replace("detail.", "detail/")) if part
        ): one.verdict
        for one in findings
    }
    assert {place: told.get(place) for place in EXPECTED} == EXPECTED
    assert Verdict.UNREADABLE not in told.values()


@pytest.mark.parametrize("version", VERSIONS)
def test_dropping_state_is_refused_by_default(version: str) -> None:
    with pytest.raises(CheckpointError, match="row sums"):
        from_savepoint(version, evolved).world.run()


@pytest.mark.parametrize("version", VERSIONS)
@anywhere(*WIDER)
def test_the_changed_program_resumes_from_a_savepoint(
    version: str, parallelism: int, backend: Backend
) -> None:
    kept = from_savepoint(
        version, evolved, parallelism=parallelism, backend=backend, allow_dropped=True
    )
    before = len(kept.rows()["sums"])
    kept.world.run()
    # What is new has seen only what came since.
    new = settled(kept.rows())["new"]
    assert sum(row["n"] for row in new.values()) == ROWS - before
    counted = [row for row in kept.rows()["running"] if "fresh" in row]
    assert len(counted) == ROWS - before
    assert all(row["fresh"] <= row["n"] for row in counted)
    got, wanted = (settled(of_both(rows)) for rows in (kept.rows(), whole(evolved)))
    for output in BOTH:
        assert got[output] == wanted[output], output


BOTH = {
    "watch": {"k", "told"},
    "numbered": {"k", "i", "number"},
    "sums": {"k", "n", "price"},
    "running": {"k", "n", "total", "mean", "low"},
    "windows": {"k", "window_start", "window_end", "n", "total", "high", "kinds"},
    "contents": {"k", "start", "told"},
}


def of_both(rows: dict[str, Rows]) -> dict[str, Rows]:
    """Return the columns that the program has had since the first release."""
    return {
        output: [{name: row[name] for name in names} for row in rows[output]]
        for output, names in BOTH.items()
    }


# --- that the snapshots are worth keeping -------------------------------------------------------------


def stored_states(handles: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for handle in handles:
        if handle.rows:
            found[handle.operator].add(handle.state)
    return found


STATES = {
    "rows": {"splits"},
    "watch": {"seen", "least", "anything", "smalls", "counts", "spans", "timers"},
    "numbered": {"count", "held"},
    "sums": {"reduced"},
    "row sums": {"reduced"},
    "running": {"running"},
    "windows": {"fired", "totals", "sums", "values.price", "distinct.small"},
    "contents": {"fired", "rows"},
}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_kind_of_state_is_kept(version: str) -> None:
    expected = (
        STATES if version == "0.1.0" else {**STATES, "numbered": STATES["numbered"] | {"held behind"}}
    )
    assert stored_states(savepoint_of(version).entry.handles) == expected
    for kind in BACKENDS:
        check_worth_keeping(JobLog(snapshot(version, kind).store(), JOB), kind)


def check_worth_keeping(log: JobLog, kind: str) -> None:
    entry = log.read().completed[-1].entry
    stored = stored_states(entry.handles)
    modes = {handle.mode for handle in entry.handles}
    assert PartMode.DELTA in modes
    if kind == "rocksdb":
        assert PartMode.FILE in modes
    else:
        assert all(states <= stored[operator] for operator, states in STATES.items())


@pytest.mark.slow
def test_this_version_can_write_such_snapshots() -> None:
    taken, directory = with_savepoint()
    savepoint = read_savepoint(StoreFolder(taken.world.store, directory), directory)
    assert stored_states(savepoint.entry.handles) == STATES
    for kind, backend in BACKENDS.items():
        lost = with_checkpoints(backend)
        check_worth_keeping(JobLog(lost.world.store, JOB), kind)
        assert 0 < len(lost.rows()["sums"]) < ROWS
