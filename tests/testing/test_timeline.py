"""Timelines: programs are checked against them, and errors name the invalid place."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import ProgramError
from rheos.testing import check_timeline

COLUMNS = {"user": str, "at": datetime}


def counted(visits: rh.DataStream) -> dict[str, rh.DataStream]:
    windows = visits.key_by("user").window(rh.Tumbling("10s")).aggregate(n=rh.agg.count())
    return {"out": windows, "late": windows.side_output("late")}


STORY = """
    ada@0s ada@4s bob@5s     # all of the first window
    ada@12s
    w10s                     > ada,0s,10s,2 bob,0s,10s,1
    ada@3s                   > late:ada,3s
    end                      > ada,10s,20s,1
"""


def test_a_correct_program_follows_its_timeline() -> None:
    check_timeline(counted, STORY, COLUMNS, event_time="at")


def test_differences_are_shown_in_the_actual_timeline() -> None:
    wrong = STORY.replace("bob,0s,10s,1", "eve,0s,10s,1").replace("> late:ada,3s", "")
    with pytest.raises(AssertionError) as found:
        check_timeline(counted, wrong, COLUMNS, event_time="at")
    assert str(found.value).splitlines() == [
        "the program returned other rows than the timeline specifies",
        "line 4: w10s",
        "    missing:       eve,0s,10s,1",
        "    not expected:  bob,0s,10s,1",
        "line 5: ada@3s",
        "    not expected:  late:ada,3s",
        "",
        "as it ran:",
        "ada@0s ada@4s bob@5s",
        "ada@12s",
        "w10s                 > ada,0s,10s,2 bob,0s,10s,1",
        "ada@3s               > late:ada,3s",
        "end                  > ada,10s,20s,1",
    ]


class Forgetful(rh.KeyedProcessFunction):
    def __init__(self) -> None:
        self.n = 0

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Any:
        self.n += 1
        yield {"n": self.n}


def test_a_restart_reveals_attributes_used_as_state() -> None:
    def forgetful(rows: rh.DataStream) -> rh.DataStream:
        return rows.key_by("user").process(Forgetful(), returns={"n": int})

    check_timeline(forgetful, "ada ada > 1 2", {"user": str}, restarts=False)
    with pytest.raises(AssertionError, match="with a restart after each step") as found:
        check_timeline(forgetful, "ada ada > 1 2", {"user": str})
    assert "    missing:       2\n    not expected:  1\n" in str(found.value)


def test_the_watermark_of_a_join_is_the_lesser_one() -> None:
    def paid(orders: rh.DataStream, payments: rh.DataStream) -> rh.DataStream:
        return orders.key_by("id").interval_join(
            payments.key_by("id"), between=("0s", "5s"), how="left", suffix="_paid"
        )

    order = {"id": int, "at": datetime}
    check_timeline(
        paid,
        """
        orders:1@0s orders:2@0s
        payments:2@4s          > 2,0s,4s
        orders:w20s
        payments:w4s
        payments:w5s           > 1,0s,null
        """,
        {"orders": order, "payments": order},
        event_time="at",
    )


@pytest.mark.parametrize(
    ("timeline", "what"),
    [
        ("\nada@1s bob", "line 2 of the timeline: 'bob' has no event time"),
        ("ada@1s > bob,1s", "line 1 of the timeline: 'bob,1s' has 2 values, but the row has 4 columns"),
        ("w5x", "line 1 of the timeline: '5x' is not a duration"),
        ("+", "line 1 of the timeline: '' is not a duration"),
        ("> ada,0s,10s,1", "line 1 of the timeline: no input leads to ada,0s,10s,1"),
        ('ada@1s "bob', "line 1 of the timeline: 'ada@1s \"bob' has an unclosed quote"),
        ("end ada@1s", "the input has ended"),
    ],
)
def test_an_invalid_timeline_is_refused(timeline: str, what: str) -> None:
    with pytest.raises(ProgramError) as found:
        check_timeline(counted, timeline, COLUMNS, event_time="at")
    assert found.value.what == what
    assert found.value.site is not None
    assert found.value.site.file == __file__


def test_rows_of_several_streams_name_their_stream() -> None:
    def both(a: rh.DataStream, b: rh.DataStream) -> rh.DataStream:
        return a.union(b)

    with pytest.raises(ProgramError, match="'ada' does not name its stream"):
        check_timeline(both, "ada", {"a": {"user": str}, "b": {"user": str}})
    check_timeline(both, "a:ada b:bob > ada bob", {"a": {"user": str}, "b": {"user": str}})
