"""`rheos why-not`: output as text and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rheos.cli.why_not import AwaitedFiring, WaitExplanation, _lines
from rheos.ops.control.watermark_delay import DelayedEdge, WatermarkDelay
from rheos.ops.savepoints.pending_by_key import OpenWindow, PendingForKey
from rheos.runtimes.health.moment import SplitStanding
from tests.cli.stand_ins import outline
from tests.cli.test_jobs import Start, rheos, start

__all__ = ["start"]

MAP = outline().chains[1].operators[0]


def answered(key: str | None = None, due: AwaitedFiring | None = None, **changes: Any) -> list[str]:
    held = {
        "operator": MAP,
        "watermark_ms": 59_999,
        "subtask": 1,
        "since_ms": 90_000,
        "holding": (SplitStanding("clicks", "p1", 1, 59_999, 12_000, False),),
        "idle": (SplitStanding("clicks", "p2", 0, None, 300_000, True),),
        "waiting_splits": 2,
        "delayed": (DelayedEdge("clicks", "map", 70_000, 59_999, 6, 0.97),),
        "late": 12,
        "late_goes_to": None,
    }
    kept = {
        "checkpoint": 15,
        "taken_ms": 99_000,
        "columns": ("user",),
        "rows": 3,
        "windows": (OpenWindow(0, 60_000), OpenWindow(60_000, 120_000)),
        "timers_ms": (),
        "window_size_ms": 60_000,
        "unread": (),
    }
    held |= {name: value for name, value in changes.items() if name in held}
    kept |= {name: value for name, value in changes.items() if name in kept}
    return list(
        _lines(WaitExplanation(100_000, WatermarkDelay(**held), key, PendingForKey(**kept), "", due))
    )


def test_the_answer_as_text() -> None:
    due = AwaitedFiring("window", 60_000, 120_000, asked=False)
    assert answered("ada", due) == [
        "operator 'map' (map-1), job.py:4",
        "its watermark is 1970-01-01T00:00:59.999Z in subtask 1, which has the lowest; it has not "
        "advanced since 1970-01-01T00:01:30.000Z or earlier (10.0 s)",
        "the window 1970-01-01T00:01:00.000Z to 1970-01-01T00:02:00.000Z fires at "
        "1970-01-01T00:01:59.999Z: the watermark must advance 1 min 0 s more",
        "held back by split 'p1' of 'clicks', subtask 1: it is at 1970-01-01T00:00:59.999Z, and has "
        "not advanced for 12.0 s",
        "held back by 2 splits that are not being read yet",
        "1 splits are idle and do not hold it back, 'p2' of 'clicks' for 5 min 0 s",
        "'clicks' is at 1970-01-01T00:01:10.000Z and 'map' at 1970-01-01T00:00:59.999Z: 6 batches are "
        "queued between them, and 'map' is busy 97%",
        "",
        "in checkpoint 15 (1.0 s ago) there are 1 open windows of key 'ada', 0 timers",
        "12 rows were late in this attempt, and went nowhere: dropped",
    ]


@pytest.mark.parametrize(
    ("due", "changes", "says"),
    [
        (
            AwaitedFiring("window", 0, 60_000, True),
            {},
            "is in the past: it has fired, unless all of its rows were late",
        ),
        (AwaitedFiring("window", 60_000, 120_000, True), {}, "the window has rows of key 'ada' there"),
        (
            AwaitedFiring("window", 120_000, 180_000, True),
            {},
            "the window has no row of key 'ada' there",
        ),
        (
            None,
            {"windows": (), "rows": 0},
            "there is no state of key 'ada': the row has not arrived, was late, or its window has",
        ),
        (None, {"windows": (), "window_size_ms": None}, "there is state of key 'ada', but no timer"),
        (None, {"watermark_ms": None}, "it has received no watermark yet"),
        (None, {"watermark_ms": 2**63 - 1}, "its input has ended"),
        (
            AwaitedFiring("timer", None, 80_000, False),
            {"timers_ms": (80_000,)},
            "the timer of 1970-01-01T00:01:20",
        ),
        (None, {"late": 0}, "no row was late in this attempt"),
        (None, {"late_goes_to": "late"}, "went to the side output 'late'"),
        (None, {"holding": (), "waiting_splits": 0}, "no split is known to hold it back: all are"),
        (None, {"unread": ("totals (files of a database)",)}, "not examined: totals"),
    ],
)
def test_explanations_of_single_windows(
    due: AwaitedFiring | None, changes: dict[str, Any], says: str
) -> None:
    assert says in "\n".join(answered("ada", due, **changes))


def test_a_job_without_a_checkpoint_is_explained(start: Start) -> None:
    start(directory=None)
    code, out, _ = rheos("why-not", "job", "--operator", "map")
    assert code == 0
    assert "its state is unknown: the job has no readable checkpoint directory" in out
    shown = json.loads(rheos("why-not", "job", "--operator", "map", "--json")[1])
    assert (shown["operator"]["id"], shown["late"], shown["state"]) == ("map-1", 3, None)


@pytest.mark.parametrize(
    ("window", "says"),
    [
        ("soon", "'soon' is not a window"),
        ("20/10", "the window '20/10' ends before it starts"),
        ("10", "the end of the window is unknown: windows of this operator differ in size, or there"),
    ],
)
def test_an_invalid_window_is_refused(start: Start, window: str, says: str) -> None:
    start(directory=None)
    code, _, err = rheos("why-not", "job", "--operator", "map", "--window", window)
    assert (code, says in err) == (2, True)


def test_a_window_is_found_by_start_and_end(start: Start) -> None:
    start(directory=None)
    asked = "2026-11-24T04:00:00Z/2026-11-24T04:01:00+00:00"
    shown = rheos("why-not", "job", "--operator", "map", "--window", asked, "--json")[1]
    assert json.loads(shown)["due"]["fires_at_ms"] == json.loads(shown)["due"]["end_ms"] - 1
