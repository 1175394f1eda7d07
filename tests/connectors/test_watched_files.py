"""Watched folders: which files are discovered, when, in which order, and which are refused."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors import files
from rheos.core.connectors.contract import EndOfSplit, Pending, Split
from rheos.core.errors import InputError, ProgramError
from rheos.runtimes.simulated.faults import Requests
from rheos.runtimes.simulated.runtime import SimulatedRuntime
from rheos.testing import Faults, simulate
from tests.connectors.ports import HeldIo, Probe, read

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])


def put(folder: Path, name: str, *numbers: int, at: int | None = None) -> Path:
    """Write a file and rename it, as a careful writer does."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}")
    half.write_text("".join(json.dumps({"n": n}) + "\n" for n in numbers))
    if at is not None:
        os.utime(half, (at, at))
    half.rename(path)
    return path


def watched(folder: Path, **how: Any) -> files.FileSource:
    return files.source(folder, schema=SCHEMA, **{"discover": "1s", **how})


def names(splits: Sequence[Split]) -> list[str]:
    return [Path(split.id).name for split in splits]


# --- what is found -----------------------------------------------------------------------------------


def test_existing_files_are_read_at_once_and_new_ones_when_stable(
    tmp_path: Path,
) -> None:
    put(tmp_path, "a.jsonl", 1)
    source = watched(tmp_path)
    assert names(source.splits()) == ["a.jsonl"]
    put(tmp_path, "b.jsonl", 2)
    assert names(list(source.discover())) == ["a.jsonl"]
    put(tmp_path, "day=2/c.jsonl", 3)
    assert names(list(source.discover())) == ["a.jsonl", "b.jsonl"]
    assert names(list(source.discover())) == ["a.jsonl", "b.jsonl", "c.jsonl"]


def test_a_file_that_is_still_written_is_not_discovered(tmp_path: Path) -> None:
    source = watched(tmp_path)
    assert source.splits() == []
    growing = tmp_path / "a.jsonl"
    for row in range(4):
        with growing.open("a") as file:
            file.write(f'{{"n": {row}}}\n')
        assert list(source.discover()) == []
    assert names(list(source.discover())) == ["a.jsonl"]


def test_an_empty_file_is_not_discovered_yet(tmp_path: Path) -> None:
    source = watched(tmp_path)
    (tmp_path / "a.jsonl").touch()
    assert [list(source.discover()) for _ in range(3)] == [[], [], []]


def test_hidden_names_and_unknown_extensions_are_ignored(tmp_path: Path) -> None:
    for name in (".a.jsonl", "_a.jsonl", "a.jsonl.tmp", "_half/a.jsonl", "readme"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"n": 1}\n')
    source = watched(tmp_path)
    assert source.splits() == []
    assert [list(source.discover()) for _ in range(2)] == [[], []]


def test_a_glob_may_be_empty_and_a_folder_too(tmp_path: Path) -> None:
    source = watched(tmp_path / "*.jsonl")
    assert source.splits() == []
    put(tmp_path, "a.jsonl", 1)
    source.discover()
    assert names(list(source.discover())) == ["a.jsonl"]


def test_files_are_ordered_by_name_or_time(tmp_path: Path) -> None:
    for name, at in (("b", 100), ("c", 300), ("a", 200), ("d", 100)):
        put(tmp_path, f"{name}.jsonl", 1, at=at)
    assert names(watched(tmp_path).splits()) == ["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"]
    by_time = watched(tmp_path, order="time")
    assert names(by_time.splits()) == ["b.jsonl", "d.jsonl", "a.jsonl", "c.jsonl"]


# --- what is refused ---------------------------------------------------------------------------------


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the file or folder"):
        watched(tmp_path / "logs").splits()


def test_a_single_file_cannot_be_watched(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a file") as caught:
        watched(put(tmp_path, "a.jsonl", 1)).splits()
    assert "folder" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"discover": "0s"}, "is too short"),
        ({"order": "size"}, "order='size'"),
        ({"discover": None, "order": "time"}, "discover="),
        ({"replay": rh.Replay(on="n", speed="60x")}, "replay"),
        ({"forget": "1d"}, "forget= needs a folder that is watched in order of time"),
        ({"forget": "1d", "order": "time", "discover": None}, "forget= needs a folder that is"),
    ],
)
def test_invalid_settings_are_refused(tmp_path: Path, how: dict[str, Any], what: str) -> None:
    with pytest.raises(ProgramError, match=what):
        watched(tmp_path, **how)


# --- what has changed --------------------------------------------------------------------------------


def test_a_file_that_grows_after_it_was_found_is_an_error_of_the_listing(tmp_path: Path) -> None:
    a = put(tmp_path, "a.jsonl", 1)
    source = watched(tmp_path)
    source.splits()
    a.write_text('{"n": 1}\n{"n": 2}\n')
    with pytest.raises(InputError, match=r"had 9 bytes when it was found, but has 18 now: appended"):
        source.discover()


def test_a_file_that_grew_while_it_was_read_is_an_error_of_its_reader(tmp_path: Path) -> None:
    a = put(tmp_path, "a.jsonl", 1)
    source = watched(tmp_path)
    (split,) = source.splits()
    probe = Probe(io=HeldIo())
    reader = source.open(split, None, probe.context())

    def to_its_end() -> object:
        while True:
            polled = reader.poll(10)
            if isinstance(polled, EndOfSplit):
                return polled
            if isinstance(polled, Pending):
                assert probe.io.held
                probe.io.run()
            else:
                a.write_text('{"n": 1}\n{"n": 2}\n')

    with pytest.raises(InputError, match="write the file under a temporary name that begins with a"):
        to_its_end()


def test_a_file_may_be_deleted_after_it_was_read(tmp_path: Path) -> None:
    a = put(tmp_path, "a.jsonl", 1)
    source = watched(tmp_path)
    (split,) = source.splits()
    reader = source.open(split, None, Probe().context())
    first = reader.poll(10)
    a.unlink()
    assert isinstance(first, pa.RecordBatch)
    assert read(reader) == []


def test_a_file_that_changed_between_runs_is_an_error_at_the_start(tmp_path: Path) -> None:
    a = put(tmp_path, "a.jsonl", 1)
    known = {split.id: split.payload for split in watched(tmp_path).splits()}
    again = watched(tmp_path)
    assert again.resumed(again.splits(), known) == again.splits()
    a.write_text('{"n": 1}\n{"n": 2}\n')
    with pytest.raises(InputError, match="has 18 now"):
        again.resumed(again.splits(), known)


# --- whole jobs --------------------------------------------------------------------------------------


def test_each_row_is_read_once_despite_crashes_while_files_arrive(tmp_path: Path) -> None:
    """Check this with a new file at every listing, crashes of workers and drivers, and a savepoint from
    which the job resumes at another parallelism. (The faults of a seed depend on the length of paths,
    too.)"""
    drivers = 0
    for seed in range(3):
        folder = tmp_path / f"{seed}"
        put(folder, "000.jsonl", 0, 1)
        done = simulate(
            lambda env, folder=folder: env.from_source(Filling.of(folder, 12)).filter("n >= 0"),  # type: ignore[misc]
            seed=seed,
            faults=Faults(crash_slot=3.0, crash_driver=3.0, zombie=0.5, until_us=900_000),
            parallelism=3,
            parallelisms=(3, 1, 2),
            requests=Requests(stop=2.0, resume_from_savepoint=0.5, until_us=900_000),
            until_read=lambda splits, now_ms: splits == 13,
        )
        assert sorted(done.out["n"].to_pylist()) == list(range(26))
        drivers += done.drivers
    assert drivers > 3


class Filling(files.WatchedFiles):
    """Folder in which a file is written at each listing."""

    @classmethod
    def of(cls, folder: Path, most: int) -> Filling:
        source = cls((str(folder),), SCHEMA, discovery_ms=50)
        object.__setattr__(source, "fill", (folder, most))
        return source

    def discover(self) -> Sequence[Split]:
        folder, most = self.fill  # type: ignore[attr-defined]
        count = len(list(folder.glob("*.jsonl")))
        if count <= most:
            put(folder, f"{count:03d}.jsonl", 2 * count, 2 * count + 1)
        return super().discover()


class Sweeping(Filling):
    """Folder from which old files are removed, too."""

    def discover(self) -> Sequence[Split]:
        folder, most = self.fill  # type: ignore[attr-defined]
        names = sorted(each.stem for each in folder.glob("*.jsonl"))
        count = int(names[-1]) + 1
        if count <= most:
            put(folder, f"{count:03d}.jsonl", 2 * count, 2 * count + 1, at=86_400 * count)
        for name in names[:-6]:
            (folder / f"{name}.jsonl").unlink()
        return files.WatchedFiles.discover(self)


def test_deleted_files_are_forgotten_and_each_row_is_read_once(tmp_path: Path) -> None:
    """Check this with a new file at every listing, a day after the one before. Only the last six files
    exist, and two days are remembered."""
    source = Sweeping.of(tmp_path, 12)
    object.__setattr__(source, "order", "time")
    object.__setattr__(source, "forget_ms", 2 * 86_400_000)
    put(tmp_path, "000.jsonl", 0, 1, at=0)
    remembered: list[int] = []

    def until_read(splits: int, now_ms: int) -> bool:
        remembered.append(splits)
        # All have come by then, and nothing fails any more.
        return now_ms >= 5_000

    done = simulate(
        lambda env: env.from_source(source).filter("n >= 0"), parallelism=2, until_read=until_read
    )
    assert max(remembered) < 13
    assert remembered[-1] == 6
    assert sorted(done.out["n"].to_pylist()) == list(range(26))
    assert len(list(tmp_path.glob("*.jsonl"))) == 6
    assert len(source.seen._found) <= 6


def test_files_have_a_time_only_if_they_are_forgotten(
    tmp_path: Path,
) -> None:
    put(tmp_path, "a.jsonl", 1, at=1_700_000_000)
    for how, made_ms in (({"forget": "1d"}, 1_700_000_000_000), ({}, None)):
        source = watched(tmp_path, order="time", **how)
        [split] = source.splits()
        assert source.made_ms(split) == made_ms
        assert source.resumed([split], {split.id: watched(tmp_path).splits()[0].payload}) == [split]


def test_a_job_resumes_from_positions_of_an_unwatched_folder(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", 1, 2)
    whole = files.source(tmp_path, schema=SCHEMA)
    assert whole.positions() == watched(tmp_path).positions()
    (split,) = whole.splits()
    reader = watched(tmp_path).open(split, None, Probe().context())
    assert read(reader) == [{"n": 1}, {"n": 2}]


def test_a_batch_job_over_a_watched_folder_is_refused_at_its_line(tmp_path: Path) -> None:
    env = rh.Environment(1, runtime="batch")
    env.from_source(watched(tmp_path)).collect("rows")
    with pytest.raises(ProgramError, match="never ends") as caught:
        env.execute("job")
    assert caught.value.site is not None


def test_a_simulated_job_reads_new_files_until_its_time_ends(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", 1)
    env = rh.Environment(2, runtime=SimulatedRuntime(until_ms=5_000))
    env.from_source(watched(tmp_path)).collect("rows")
    assert env.execute("job").collected["rows"]["n"].to_pylist() == [1]
