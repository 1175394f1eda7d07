"""Watermarks by a condition, or by a user's generator: late rows, and stored state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos import col
from rheos.core.errors import ProgramError, RheosError, SchemaError
from rheos.testing import Faults, simulate

SCHEMA = pa.schema([("i", pa.int64()), ("at", pa.int64()), ("mark", pa.bool_())])
COUNT, SPLITS = 300, 3


def row(split: int, number: int) -> dict[str, Any]:
    """Return row n. Rows are up to 30 ms out of order; each tenth marks the time up to its own."""
    at = 1000 + 5 * number + (number * 7 + split) % 31
    return {"i": SPLITS * number + split, "at": at, "mark": number % 10 == 9}


def numbered(block: rh.Block) -> pa.RecordBatch:
    numbers = range(block.start, block.start + block.rows)
    return pa.RecordBatch.from_pylist([row(block.split, n) for n in numbers], SCHEMA)


class Trailing(rh.WatermarkGenerator):
    """Python version of `bounded_out_of_orderness`."""

    latest = 0

    def __init__(self, bound_ms: int) -> None:
        self.bound_ms = bound_ms

    def on_event(self, record: Any, timestamp: int) -> int | None:
        self.latest = max(self.latest, timestamp)
        return self.latest - self.bound_ms - 1


Build = Callable[[rh.Environment], Mapping[str, rh.DataStream]]


def late_with(watermark: rh.Watermark, *, behind: bool = False, rate_per_s: int = 3000) -> Build:
    """Run a program that finds late rows, with event time assigned by the source or downstream of
    it."""

    def build(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        rate: dict[str, Any] = {"rate_per_s": rate_per_s, "splits": SPLITS, "block_rows": 8}
        source = rh.generator(numbered, count=COUNT, schema=SCHEMA, **rate)
        if behind:
            rows = env.from_source(source).filter("i >= 0").with_event_time(watermark)
        else:
            rows = env.from_source(source, watermark)
        counts = rows.key_by("mark").window(rh.Tumbling("10ms")).aggregate(n=rh.agg.count())
        return {"out": counts, "late": counts.side_output("late")}

    return build


def run(build: Build, **arguments: Any) -> rh.JobResult:
    env = rh.Environment(2, runtime="simulated", restart=rh.restart.none(), **arguments)
    for name, stream in build(env).items():
        stream.collect(name)
    return env.execute()


def late_rows(reach: Callable[[dict[str, Any]], int | None]) -> list[int]:
    """Return the rows whose window has ended before them, if a row advances its split to `reach`."""
    late = []
    for split in range(SPLITS):
        watermark = -1
        for number in range(COUNT // SPLITS):
            each = row(split, number)
            end = each["at"] - each["at"] % 10 + 10
            late += [each["i"]] if end - 1 <= watermark else []
            reached = reach(each)
            watermark = watermark if reached is None else max(watermark, reached)
    return sorted(late)


PUNCTUATED = rh.Watermark.punctuated(col("mark"), on="at", bound="4ms")
GENERATED = rh.Watermark.generator(Trailing(4), on="at")


@pytest.mark.parametrize("behind", [False, True])
def test_rows_before_the_marked_time_are_late(behind: bool) -> None:
    wanted = late_rows(lambda each: each["at"] - 5 if each["mark"] else None)
    assert 5 < len(wanted) < COUNT // 2
    done = run(late_with(PUNCTUATED, behind=behind))
    assert sorted(done.collected["late"]["i"].to_pylist()) == wanted
    as_text = rh.Watermark.punctuated("mark = true", on="at", bound="4ms")
    assert sorted(run(late_with(as_text)).collected["late"]["i"].to_pylist()) == wanted


@pytest.mark.parametrize("behind", [False, True])
def test_a_generator_agrees_with_the_built_in_one(behind: bool) -> None:
    wanted = late_rows(lambda each: each["at"] - 5)
    assert wanted
    done = run(late_with(GENERATED, behind=behind))
    assert sorted(done.collected["late"]["i"].to_pylist()) == wanted
    built_in = rh.Watermark.bounded_out_of_orderness("4ms", on="at")
    assert sorted(run(late_with(built_in)).collected["late"]["i"].to_pylist()) == wanted


@pytest.mark.parametrize("behind", [False, True])
def test_state_of_a_generator_survives_failures_and_rescaling(behind: bool) -> None:
    class Counting(rh.WatermarkGenerator):
        """Marks the time at each tenth row that it has seen, so that lost state would show."""

        seen = 0

        def __init__(self) -> None:
            self.times: list[int] = []

        def on_event(self, record: Any, timestamp: int) -> int | None:
            self.times = [*self.times, timestamp][-10:]
            self.seen += 1
            return max(self.times) - 5 if self.seen % 10 == 0 else None

    build = late_with(rh.Watermark.generator(Counting(), on="at"), behind=behind, rate_per_s=600)
    wanted = sorted(run(build).collected["late"]["i"].to_pylist())
    assert wanted
    faults = Faults(crash_after_checkpoint=1.0, until_us=500_000)
    done = simulate(build, seed=1, faults=faults, parallelisms=(2, 3, 1))
    assert done.crashes
    assert sorted(done.rows["late"]["i"].to_pylist()) == wanted


def test_a_periodic_generator_is_called_at_its_interval() -> None:
    asked: list[int] = []

    class Clock(rh.WatermarkGenerator):
        """Emits no watermarks for rows, so that no row is late."""

        def __deepcopy__(self, memo: object) -> Clock:
            return self

        def on_periodic(self, now_ms: int) -> int | None:
            asked.append(now_ms)
            return 1500

    for behind in (False, True):
        asked.clear()
        watermark = rh.Watermark.generator(Clock(), on="at", period="20ms")
        done = run(late_with(watermark, behind=behind))
        late = done.collected["late"].num_rows
        assert late + sum(done.collected["out"]["n"].to_pylist()) == COUNT
        assert late > 100
        spans = {b - a for a, b in zip(sorted(set(asked)), sorted(set(asked))[1:], strict=False)}
        assert max(spans) <= 25


# --- what goes wrong ----------------------------------------------------------------------------------


class Wrong(rh.WatermarkGenerator):
    def __init__(self, given: Any) -> None:
        self.given = given

    def on_event(self, record: Any, timestamp: int) -> int | None:
        if isinstance(self.given, Exception):
            raise self.given
        given: int = self.given
        return given


@pytest.mark.parametrize("given", [1.5, "soon", True, 2**63])
def test_an_invalid_watermark_is_an_error_with_the_record(given: Any) -> None:
    with pytest.raises(RheosError, match="the watermark generator returned") as raised:
        run(late_with(rh.Watermark.generator(Wrong(given), on="at")))
    assert raised.value.record is not None
    assert raised.value.record.startswith("Row(i=")


def test_an_error_of_a_generator_has_its_line() -> None:
    with pytest.raises(RheosError, match="KeyError") as raised:
        run(late_with(rh.Watermark.generator(Wrong(KeyError("user")), on="at")))
    assert raised.value.site is not None
    assert raised.value.site.line == inspect.getsourcelines(Wrong.on_event)[1] + 2


def test_state_of_a_generator_must_be_plain() -> None:
    class Hoarding(Trailing):
        def on_event(self, record: Any, timestamp: int) -> int | None:
            self.seen = {timestamp}
            return None

    with pytest.raises(RheosError, match="the state of Hoarding cannot be stored"):
        run(late_with(rh.Watermark.generator(Hoarding(0), on="at")), checkpoint_interval="10ms")


def test_invalid_strategies_are_refused_at_their_line() -> None:
    class Periodic(rh.WatermarkGenerator):
        def on_periodic(self, now_ms: int) -> int | None:
            return now_ms

    env = rh.Environment()
    source = rh.generator(numbered, count=COUNT, schema=SCHEMA)
    with pytest.raises(SchemaError, match="unknown column 'marked'"):
        env.from_source(source, rh.Watermark.punctuated(col("marked"), on="at"))
    with pytest.raises(SchemaError, match="needs a condition"):
        env.from_source(source, rh.Watermark.punctuated(col("i"), on="at"))
    with pytest.raises(ProgramError, match="is not a watermark generator"):
        env.from_source(source, rh.Watermark.generator(5, on="at"))  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match=r"Periodic defines on_periodic\(\), but period is None"):
        env.from_source(source, rh.Watermark.generator(Periodic(), on="at"))
    with pytest.raises(
        ProgramError, match=r"Trailing does not define on_periodic\(\), but period is '1s'"
    ):
        env.from_source(source, rh.Watermark.generator(Trailing(1), on="at", period="1s"))
