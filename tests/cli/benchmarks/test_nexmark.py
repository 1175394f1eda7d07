"""Results of the Nexmark programs equal those of an independent SQL engine on the same events."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import numpy as np
import polars as pl
import pytest

import rheos as rh
from benchmarks.nexmark import measure, sql
from benchmarks.nexmark.__main__ import PAGE, RESULTS, experiment, footnote
from benchmarks.nexmark.check import Found, check, found_by_duckdb, found_by_rheos, found_by_sql
from benchmarks.nexmark.events import SCHEMA, Events, frames
from benchmarks.nexmark.market import market
from benchmarks.nexmark.queries import QUERIES
from benchmarks.paper.page import rewrite
from benchmarks.paper.sampling import Sampler
from rheos.core.operators.window.spec import WindowSpec

EVENTS, PER_SECOND = 4_000, 50
CHECKED = [name for name, query in QUERIES.items() if query.sql is not None]


@pytest.fixture(scope="module")
def ours() -> Found:
    return found_by_rheos(QUERIES.values(), EVENTS, PER_SECOND)


@pytest.fixture(scope="module")
def theirs() -> Found:
    return found_by_duckdb(QUERIES.values(), EVENTS, PER_SECOND)


@pytest.mark.parametrize("name", CHECKED)
def test_a_query_agrees_with_the_independent_engine(name: str, ours: Found, theirs: Found) -> None:
    assert check(name, ours, theirs) > 0


@pytest.fixture(scope="module")
def in_sql() -> Found:
    return found_by_sql(CHECKED, EVENTS, PER_SECOND)


@pytest.mark.parametrize("name", CHECKED)
def test_a_query_in_rheos_sql_agrees_too(name: str, in_sql: Found, theirs: Found) -> None:
    assert check(name, in_sql, theirs) > 0


def test_every_query_is_in_sql() -> None:
    assert {*sql.QUERIES} == {*QUERIES}


def test_the_processing_time_query_has_the_programs_windows() -> None:
    env = rh.Environment(runtime="simulated")
    house = market(env, rh.generator(Events(PER_SECOND), count=100, schema=SCHEMA))
    sql.registered(env, house)
    sql.stream_of(env, "q12").collect("in SQL")
    QUERIES["q12"].program(house).collect("program")
    specs = [operator.spec for operator in env.plan().operators()]
    windows = [spec for spec in specs if isinstance(spec, WindowSpec)]
    assert [spec.window.time for spec in windows] == ["processing_time"] * 2
    assert [str(spec.window) for spec in windows] == ["0:00:10", "10s"]
    assert {*env.execute("q12").collected} == {"in SQL", "program"}


def test_lost_duplicated_and_wrong_rows_are_found(theirs: Found) -> None:
    rows = theirs["q4"]
    other = rows.with_columns(average=pl.col("average") * 1.000001)
    for wrong in (rows[1:], pl.concat([rows, rows[:1]]), other):
        with pytest.raises(AssertionError):
            check("q4", {"q4": wrong}, theirs)


def test_every_query_except_that_in_processing_time_is_checked() -> None:
    assert [name for name in QUERIES if name not in CHECKED] == ["q12"]


def test_events_do_not_depend_on_block_boundaries() -> None:
    events = Events(PER_SECOND)
    whole = events.made(np.arange(300), seed=7)
    assert events.made(np.arange(40, 300, 3), seed=7).equals(whole.take(np.arange(40, 300, 3)))
    assert not events.made(np.arange(300), seed=8).equals(whole)


def test_events_follow_the_published_rules() -> None:
    person, auction, bid = frames(100_000, PER_SECOND).values()
    assert (person.height, auction.height, bid.height) == (2_000, 6_000, 92_000)
    assert person["id"].to_list() == list(range(1_000, 3_000))
    assert auction["id"].to_list() == list(range(1_000, 7_000))
    shares = {
        "hot auctions": (bid["auction"] % 100 == 0).mean(),
        "hot bidders": (bid["bidder"] % 100 == 1).mean(),
        "hot sellers": (auction["seller"] % 100 == 0).mean(),
        "large channels": (~bid["channel"].str.starts_with("channel")).mean(),
        "category 10": (auction["category"] == 10).mean(),
        "under ten dollars": (bid["price"] < 1_000).mean(),
    }
    published = {
        "hot auctions": 1 / 2,
        "hot bidders": 3 / 4,
        "hot sellers": 3 / 4,
        "large channels": 1 / 2,
        "category 10": 1 / 5,
        "under ten dollars": 1 / 6,
    }
    assert shares == pytest.approx(published, abs=0.015)
    assert bid["price"].is_between(100, 100_000_000).all()
    assert (auction["expires"] > auction["date_time"]).all()


def test_the_page_matches_the_results(tmp_path: Path) -> None:
    page = Path(shutil.copy(PAGE, tmp_path))
    rewrite([experiment()], RESULTS, page, footnote)
    assert page.read_text() == PAGE.read_text(), "run: python -m benchmarks.nexmark page"


def test_processor_time_of_ended_workers_counts() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True); input()"
    with Sampler(every_s=60) as sampler:
        worker = subprocess.Popen([sys.executable, "-c", busy], stdin=PIPE, stdout=PIPE)
        assert worker.stdout is not None
        worker.stdout.readline()
        sampler.look()
        worker.communicate(b"\n")
        sampler.look()
    used = [sample.cpu_s for sample in sampler.samples]
    assert used[0] >= 0.25
    # The system counts in ticks of 10 ms, and the time of the sampler itself is subtracted.
    assert used[-1] >= used[0] - 0.03


def test_processor_time_of_the_sampler_does_not_count() -> None:
    def busy() -> dict[str, float]:
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass
        return {}

    with Sampler(every_s=60, also=busy) as sampler:
        sampler.look()
    assert sampler.samples[-1].cpu_s < 0.1


def test_metrics_are_shown_next_to_those_of_flink() -> None:
    runs = [
        {"query": query, "events_per_s": rate, "events_per_core_s": rate / 2}
        for query, rate in (*(("q0", rate) for rate in (1e6, 1.5e6, 2e6, 2.5e6, 3e6)), ("q6", 2e4))
    ]
    assert measure.show({"runs": runs}).splitlines()[2:] == [
        "| q0, pass through | 2.00 M (1.00 M to 3.00 M) | 1.00 M (500 k to 1.50 M) | 155 k | 378 k "
        "| 2.6 (1.3 to 4.0) |",
        "| q6, average selling price by seller | ~20 k | ~10 k | none | none |  |",
    ]
