"""Supervision of the query that runs alongside the job, whatever it dies of. The tests act as Spark."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException

from rheos.connectors.spark import stream_query
from rheos.connectors.spark.staging_manifest import Manifest
from rheos.connectors.spark.stream import stream_settings
from rheos.connectors.spark.stream_query import StreamQuery
from rheos.core.errors import CheckpointError, InputError, JobFailedError, RheosError, UnavailableError
from rheos.core.protocol.splits import LISTING_TRIES

SCHEMA = pa.schema([pa.field("id", pa.int64())])
STAGING = "0123456789ab"


class SparkQuery:
    """Query that was started. It dies with the given error."""

    id = "query"

    def __init__(self, world: World) -> None:
        self._world = world
        self.error: Exception | None = None
        self.isActive = True

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.isActive = False

    def awaitTermination(self, timeout_s: int) -> bool:  # noqa: N802
        if self.isActive:
            self._world.run()
        if self.error is not None:
            raise self.error
        return not self.isActive

    def die(self, error: Exception) -> None:
        self.isActive, self.error = False, error


class World:
    """Spark, with the data that it reads and writes; also the DataFrame and the writer of the query."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queries: list[SparkQuery] = []
        self.kills: Callable[[], Exception | None] = lambda: None
        """What a query dies of that comes to its next batch."""
        self.stages: Callable[[], None] = lambda: None
        """Raises what staging does."""
        self.staged: list[str] = []
        self.on_start: Callable[[], None] = lambda: None
        self._take: Callable[[Any, int], None] | None = None
        monkeypatch.setattr(stream_query, "stage", self._stage)

    def run(self) -> None:
        """Let Spark begin the next batch, if the query is alive."""
        query = self.queries[-1]
        if not query.isActive:
            return
        error = self.kills()
        try:
            assert self._take is not None
            if error is None:
                self._take(self, len(self.staged))
        except JobFailedError as failed:
            error = StreamingQueryException(str(failed))
        if error is not None:
            query.die(error)

    def _stage(self, *given: Any, what: str, **named: Any) -> Manifest:
        self.stages()
        Path(given[3], STAGING).mkdir(parents=True)
        self.staged.append(what)
        return Manifest(of="", staging=STAGING, schema=b"", event_time=None, files=[], staged_ms=0)

    @property
    def writeStream(self) -> World:  # noqa: N802
        return self

    def foreachBatch(self, take: Callable[[Any, int], None]) -> World:  # noqa: N802
        self._take = take
        return self

    def queryName(self, name: str) -> World:  # noqa: N802
        return self

    def option(self, name: str, value: str) -> World:
        return self

    def trigger(self, **named: Any) -> World:
        return self

    def start(self) -> SparkQuery:
        self.on_start()
        self.queries.append(SparkQuery(self))
        return self.queries[-1]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def query_of(world: World, folder: Path, *, available_now: bool = False) -> StreamQuery:
    settings = stream_settings("1s", available_now, 1, 100, "1h")
    return StreamQuery(world, SCHEMA, None, settings, str(folder))


def checks(query: StreamQuery, world: World, most: int) -> list[RheosError]:
    """Check as the driver does in one attempt, which fails after several failures in a row. Return the
    errors."""
    errors: list[RheosError] = []
    row = 0
    for _ in range(most):
        world.run()
        try:
            query.check()
            row = 0
        except RheosError as error:
            errors.append(error)
            row += 1
        if row == LISTING_TRIES:
            break
    return errors


def away() -> None:
    raise OSError("the storage is away")


def dead() -> Exception:
    return StreamingQueryException("the bucket is away\nat java.lang.Thread")


@pytest.mark.parametrize(
    ("part", "what", "kind"),
    [("stages", away, CheckpointError), ("kills", dead, UnavailableError)],
)
def test_a_query_given_up_in_one_attempt_is_restarted_in_the_next(
    world: World,
    tmp_path: Path,
    part: str,
    what: Callable[[], Any],
    kind: type[RheosError],
) -> None:
    query = query_of(world, tmp_path)
    query.started()
    well = getattr(world, part)
    setattr(world, part, what)
    for attempt in (1, 2):
        errors = checks(query, world, most=100)
        assert [type(error) for error in errors] == [kind] * LISTING_TRIES
        assert len(world.queries) == 1 + 3 * attempt, "it is started again three times"
    # It comes back while the next attempt is begun, or the one after.
    setattr(world, part, well)
    errors = checks(query, world, most=10)
    assert len(errors) == 1
    assert len(world.queries) == 8
    assert world.staged[0] == "batch 0 of the stream"
    assert len(world.staged) == 9


def test_a_query_that_cannot_be_restarted_is_unavailable(world: World, tmp_path: Path) -> None:
    """Check this with a missing folder of Spark's own checkpoint."""
    query = query_of(world, tmp_path)
    query.started()
    world.queries[0].die(dead())

    def refuse() -> None:
        raise Py4JError("java.io.IOException: no such bucket")

    world.on_start = refuse
    errors = checks(query, world, most=100)
    assert len(errors) == LISTING_TRIES
    assert {(type(error), error.what) for error in errors} == {
        (UnavailableError, "Spark cannot start the stream: java.io.IOException: no such bucket")
    }
    world.on_start = lambda: None
    assert len(checks(query, world, most=10)) == 1
    assert world.queries[-1].isActive

    world.on_start = refuse
    with pytest.raises(InputError, match="Spark cannot start the stream"):
        query_of(world, tmp_path).started()


def test_a_new_attempt_may_begin_while_the_query_is_given_up(world: World, tmp_path: Path) -> None:
    """Check this with failures of several attempts, which do not count as consecutive."""
    query = query_of(world, tmp_path)
    query.started()
    world.kills = dead
    assert len(checks(query, world, most=4)) == 4
    world.kills = lambda: None
    assert len(checks(query, world, most=10)) == 2
    assert world.queries[-1].isActive


def test_the_error_states_whether_the_query_is_restarted(world: World, tmp_path: Path) -> None:
    query = query_of(world, tmp_path)
    query.started()
    world.kills = dead
    errors = checks(query, world, most=100)
    assert {error.what for error in errors} == {"the query of the stream failed: the bucket is away"}
    again = "the query is restarted; see Spark's log for details"
    assert [error.hint for error in errors] == [again] * 3 + ["see Spark's log for details"] * 2


def test_a_query_that_dies_slowly_is_given_up_too(world: World, tmp_path: Path) -> None:
    """Check this with a query that the driver finds alive between two failures."""
    query = query_of(world, tmp_path)
    query.started()
    run, looks = world.run, count()

    def runs_now_and_then() -> None:
        if next(looks) % 2:
            run()

    world.kills = dead
    world.run = runs_now_and_then  # type: ignore[method-assign]
    errors = checks(query, world, most=100)
    assert len(errors) == 3 + LISTING_TRIES
    assert len(world.queries) == 4


def test_a_failure_with_available_now_is_the_error_of_the_start(world: World, tmp_path: Path) -> None:
    bad = InputError("a record has no event time", record="{'id': 1}", hint="fill it in")

    def refuse() -> None:
        raise bad

    world.stages = refuse
    with pytest.raises(InputError) as caught:
        query_of(world, tmp_path, available_now=True).started()
    assert caught.value is bad

    world.stages, world.kills = lambda: None, dead
    with pytest.raises(UnavailableError, match="failed: the bucket is away"):
        query_of(world, tmp_path, available_now=True).started()


def test_a_query_that_is_started_as_the_job_ends_is_stopped(world: World, tmp_path: Path) -> None:
    query = query_of(world, tmp_path)
    query.started()
    world.queries[0].die(dead())
    world.on_start = query.end
    with pytest.raises(UnavailableError):
        query.check()
    assert [one.isActive for one in world.queries] == [False, False]
    query.check()
    assert len(world.queries) == 2
