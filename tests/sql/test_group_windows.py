"""Windows in GROUP BY have the rows of the same windows in FROM."""

from __future__ import annotations

import pytest

import rheos as rh
from tests.sql.compare import found_by_rheos
from tests.sql.data import registered

MINUTES = "INTERVAL '10' MINUTE"
SLIDE = f"INTERVAL '5' MINUTE, {MINUTES}"
FORMS = {
    f"TUMBLE(ts, {MINUTES})": f"TUMBLE(TABLE bids, DESCRIPTOR(ts), {MINUTES})",
    f"HOP(ts, {SLIDE})": f"HOP(TABLE bids, DESCRIPTOR(ts), {SLIDE})",
    f"SESSION(ts, {MINUTES})": (f"SESSION(TABLE bids PARTITION BY auction, DESCRIPTOR(ts), {MINUTES})"),
    "window(ts, '10 minutes')": f"TUMBLE(TABLE bids, DESCRIPTOR(ts), {MINUTES})",
    "window(ts, '10 minutes', '5 minutes')": f"HOP(TABLE bids, DESCRIPTOR(ts), {SLIDE})",
    "window(ts, '10 minutes', '10 minutes', '2 minutes')": (
        f"TUMBLE(TABLE bids, DESCRIPTOR(ts), {MINUTES}, INTERVAL '2' MINUTE)"
    ),
    "session_window(ts, '10 minutes')": (
        f"SESSION(TABLE bids PARTITION BY auction, DESCRIPTOR(ts), {MINUTES})"
    ),
}


def bounds(call: str) -> str:
    name, _, arguments = call.partition("(")
    if name.endswith("window"):
        return f"{name}.start, {name}.end"
    return f"{name}_START({arguments} AS s, {name}_END({arguments} AS e"


def test_a_window_of_group_by_is_the_one_of_from() -> None:
    queries = {}
    for place, (call, window) in enumerate(FORMS.items()):
        rest = "auction, COUNT(*) AS n, MAX(price) AS m"
        queries[f"by {place}"] = (
            f"SELECT {bounds(call)}, {rest} FROM bids WHERE price > 100 GROUP BY auction, {call}"
        )
        queries[f"from {place}"] = (
            f"SELECT window_start, window_end, {rest} FROM TABLE({window}) WHERE price > 100 "
            "GROUP BY auction, window_start, window_end"
        )
    found = found_by_rheos(queries)
    for place, call in enumerate(FORMS):
        assert found[f"by {place}"], call
        assert found[f"by {place}"] == found[f"from {place}"], call


SAME = {
    # One bound decides the window.
    f"SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), {MINUTES})) "
    "GROUP BY window_start": f"SELECT TUMBLE_START(ts, {MINUTES}) AS s, COUNT(*) AS n FROM bids "
    f"GROUP BY TUMBLE(ts, {MINUTES})",
    # Windows over windows.
    "SELECT TUMBLE_END(r, INTERVAL '20' MINUTE) AS e, SUM(n) AS n FROM (SELECT TUMBLE_ROWTIME(ts, "
    f"{MINUTES}) AS r, COUNT(*) AS n FROM bids GROUP BY TUMBLE(ts, {MINUTES})) AS t "
    "GROUP BY TUMBLE(r, INTERVAL '20' MINUTE)": "SELECT TUMBLE_END(ts, INTERVAL '20' MINUTE) AS e, "
    "COUNT(*) AS n FROM bids GROUP BY TUMBLE(ts, INTERVAL '20' MINUTE)",
    # A query as the argument.
    f"SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE (SELECT ts FROM bids WHERE price > 300)"
    f", DESCRIPTOR(ts), {MINUTES})) GROUP BY window_start, window_end": "SELECT TUMBLE_END(ts, "
    f"{MINUTES}) AS e, COUNT(*) AS n FROM bids WHERE price > 300 GROUP BY TUMBLE(ts, {MINUTES})",
    # Both bounds as a struct, and HAVING.
    "SELECT window, COUNT(*) AS n FROM bids GROUP BY window(ts, '10 minutes') HAVING COUNT(*) > 25 AND "
    "window.start > '2026-03-01'": "SELECT window(ts, '10 minutes') AS w, COUNT(*) AS n FROM bids "
    "GROUP BY window(ts, '10 minutes') HAVING COUNT(*) > 25",
    # As PostgreSQL's relatives write windows.
    f"SELECT window_end, COUNT(*) AS n FROM tumble(bids, ts, {MINUTES}) GROUP BY window_end": "SELECT "
    f"TUMBLE_END(ts, {MINUTES}) AS e, COUNT(*) AS n FROM bids GROUP BY TUMBLE(ts, {MINUTES})",
    f"SELECT window_end, COUNT(*) AS n FROM hop(bids, ts, {SLIDE}) AS h GROUP BY window_end": "SELECT "
    f"HOP_END(ts, {SLIDE}) AS e, COUNT(*) AS n FROM bids GROUP BY HOP(ts, {SLIDE})",
    # In sets of keys.
    f"SELECT auction, TUMBLE_START(ts, {MINUTES}) AS s, COUNT(*) AS n FROM bids GROUP BY "
    f"TUMBLE(ts, {MINUTES}), ROLLUP(auction)": "SELECT auction, window_start, COUNT(*) AS n FROM TABLE("
    f"TUMBLE(TABLE bids, DESCRIPTOR(ts), {MINUTES})) GROUP BY window_end, ROLLUP(auction)",
}


def test_forms_of_windows_mean_the_same() -> None:
    queries = {
        f"{side} {n}": text for n, pair in enumerate(SAME.items()) for side, text in enumerate(pair)
    }
    found = found_by_rheos(queries)
    for place, text in enumerate(SAME):
        assert found[f"0 {place}"], text
        assert found[f"0 {place}"] == found[f"1 {place}"], text


WRONG = {
    f"SELECT TUMBLE_START(ts, {MINUTES}) AS s FROM bids GROUP BY auction": (
        "TUMBLE_START() needs the same window in GROUP BY"
    ),
    f"SELECT TUMBLE_START(ts, INTERVAL '1' HOUR) AS s FROM bids GROUP BY TUMBLE(ts, {MINUTES})": (
        "TUMBLE_START() needs the same window in GROUP BY"
    ),
    "SELECT COUNT(*) AS n FROM bids GROUP BY window(ts, '10 minuts')": "is not a duration",
    "SELECT COUNT(*) AS n FROM bids GROUP BY window(price, '10 minutes')": "is not the event time of",
    "SELECT COUNT(*) AS n FROM bids GROUP BY TUMBLE(ts)": "TUMBLE takes a time and lengths",
    f"SELECT COUNT(*) AS n FROM bids GROUP BY TUMBLE(ts, {MINUTES}), HOP(ts, {SLIDE})": (
        "GROUP BY has two different windows"
    ),
    "SELECT COUNT(*) AS n FROM numbers GROUP BY window(n, '10 minutes')": "set watermark= on",
}


@pytest.mark.parametrize("text", WRONG)
def test_an_invalid_window_is_refused_at_its_place(text: str) -> None:
    env = rh.Environment()
    registered(env)
    with pytest.raises(rh.ProgramError) as caught:
        env.sql(text)
    assert WRONG[text] in str(caught.value)
    assert caught.value.detail is not None
