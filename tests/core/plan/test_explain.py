"""Programs and plans as text, as `explain` returns them."""

# ruff: noqa: E501 -- What is shown stands here as it is shown.

from __future__ import annotations

import re

import rheos as rh
from rheos.core.graph import render
from rheos.core.plan import explain
from rheos.core.plan.planner import make_plan
from tests.api.programs import Validate, environment, events, refused


def program() -> rh.Environment:
    env = environment()
    rows = events(env)
    rows.select("user").name("forgotten")
    counts = (
        rows.filter("value > 0")
        .key_by("user")
        .window(rh.Tumbling("1m"))
        .allowed_lateness("30s")
        .aggregate(n=rh.agg.count(), total=rh.agg.sum("value"))
        .name("counts")
    )
    counts.collect("out")
    counts.side_output("late").key_by("user").process(Validate()).uid("alerts").print()
    return env


PROGRAM = """\
Program
  events
    does      reads a collection of 3 rows (bounded); event time: at, at most 5s late
    columns   user: string, kind: string, value: int64, at: timestamp[us, tz=UTC]
    written   here
  forgotten   (unused: it has no sink)
    reads     events
    does      col("user")
    columns   user: string
    written   here
  filter
    reads     events
    does      [(col("value")) > (0)]
    columns   user: string, kind: string, value: int64, at: timestamp[us, tz=UTC]
    written   here
  counts
    reads     filter, keyed by user
    does      1m windows, 30000 ms of lateness allowed: n=count(), total=sum(value)
    columns   user: string, window_start: timestamp[ms, tz=UTC], window_end: timestamp[ms, tz=UTC], n: int64, total: int64
    'late'    user: string, kind: string, value: int64, at: timestamp[us, tz=UTC]
    written   here
  out
    reads     counts
    does      writes collect
    written   here
  process(Validate)
    reads     counts, side output 'late', keyed by user
    does      takes Event
    columns   user: string, value: int64
    uid       alerts
    written   here
  print
    reads     process(Validate)
    does      writes print
    written   here
"""

PLAN = """\
Plan of 'visitors': 1 subtask of each chain, 128 key groups; runtime: batch
  chain 0
    events [source-1]
      emits: user: string, kind: string, value: int64, at: timestamp[us, tz=UTC]; event time from at (carries __ts, __wm)
        -> filter
    filter [filter-1]
      emits: user: string, kind: string, value: int64, at: timestamp[us, tz=UTC]; event time (carries __ts, __wm)
        -> chain 1: counts (by hash of user)
  chain 1, reads chain 0 by hash of user
    counts [window-1]
      emits: user: string, window_start: timestamp[ms, tz=UTC], window_end: timestamp[ms, tz=UTC], n: int64, total: int64; event time (carries __ts)
        -> out
      emits 'late': user: string, kind: string, value: int64, at: timestamp[us, tz=UTC]; event time (carries __ts, __swm)
        -> chain 2: process(Validate) (by hash of user)
    out [sink-1]
  chain 2, reads chain 1 by hash of user
    process(Validate) [alerts]
      emits: user: string, value: int64; event time (carries __ts)
        -> print
    print [sink-2]
"""

DRAWING = """\
flowchart LR
  subgraph chain0["chain 0"]
    c0o0["events"]
    c0o1["filter"]
  end
  subgraph chain1["chain 1"]
    c1o0["counts"]
    c1o1["out"]
  end
  subgraph chain2["chain 2"]
    c2o0["process(Validate)"]
    c2o1["print"]
  end
  c0o0 --> c0o1
  c0o1 -->|"hash(user)"| c1o0
  c1o0 --> c1o1
  c1o0 -->|"late: hash(user)"| c2o0
  c2o0 --> c2o1
"""


def test_a_program_as_text() -> None:
    # Without a compiler, no function is compiled.
    told = render.text(program()._program.graph()).replace("; compiled", "")
    assert re.sub(r"written   .*:\d+", "written   here", told) == PROGRAM


def test_a_plan_as_text() -> None:
    plan = make_plan(program()._program.graph(), name="visitors", parallelism=1, max_parallelism=128)
    assert explain.text(plan, "batch") == PLAN


def test_a_plan_as_a_diagram() -> None:
    plan = make_plan(program()._program.graph(), name="visitors", parallelism=1, max_parallelism=128)
    assert explain.mermaid(plan) == DRAWING


def test_the_environment_explains_in_three_formats() -> None:
    env = program()
    assert env.explain().startswith("Program\n")
    assert env.explain().endswith(env.explain("plan"))
    assert env.explain("mermaid").startswith("flowchart LR\n")
    refused(lambda: env.explain("xml"), rh.ProgramError, "format='xml' is not known", "mermaid")
