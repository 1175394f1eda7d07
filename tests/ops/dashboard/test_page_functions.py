"""Functions of the page that need no browser, run by Node: axes, durations, times, addresses."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

PAGE = Path(__file__).parents[3] / "src" / "rheos" / "ops" / "dashboard" / "page"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="there is no Node on this machine")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that returns the results of calls into the page's modules."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "package.json").write_text('{"type": "module"}')
    for module in ("text", "axes", "route"):
        shutil.copy(PAGE / f"{module}.js", folder)
    (folder / "run.js").write_text(
        """
        import * as axes from "./axes.js";
        import * as route from "./route.js";
        import * as text from "./text.js";
        const known = { ...axes, ...route, ...text };
        let given = "";
        for await (const part of process.stdin) given += part;
        const found = JSON.parse(given).map(([name, ...values]) => known[name](...values));
        console.log(JSON.stringify(found));
        """
    )

    def ran(*calls: tuple[Any, ...]) -> list[Any]:
        assert NODE is not None
        done = subprocess.run(
            [NODE, str(folder / "run.js")],
            input=json.dumps(calls),
            capture_output=True,
            text=True,
            check=True,
        )
        answers: list[Any] = json.loads(done.stdout)
        return answers

    return ran


TEXTS = [
    (("duration", 0), "0 ms"),
    (("duration", 0.25), "250 µs"),
    (("duration", 125), "125 ms"),
    (("duration", 59_940), "59.9 s"),
    (("duration", 59_960), "1 min"),
    (("duration", 119_700), "2 min"),
    (("duration", 200_000), "3 min 20 s"),
    (("duration", 3_599_800), "1 h"),
    (("duration", 7_500_000), "2 h 5 min"),
    (("duration", 329 * 86_400_000 + 15 * 3_600_000), "329 d 15 h"),
    (("duration", -1500), "-1.5 s"),
    (("ago", 300), "now"),
    (("ago", 3_900), "3 s ago"),
    (("ago", 95_000), "1 min 35 s ago"),
    (("moment", 1_795_536_000_000), "2026-11-24T16:00:00Z"),
    (("moment", 0), "1970-01-01T00:00:00Z"),
    (("moment", None), ""),
    (("count", 12_345), "12.3 k"),
    (("count", 0.25), "0.3"),
    (("counted", 1, "record"), "1 record"),
    (("counted", 1200, "record"), "1,200 records"),
    (("size", 1536), "1.5 KB"),
    (("printable", "a\u202eb\x07\nc"), "a\\u202eb\\x07\nc"),
    (("tickLabel", "ms", 90_000), "1 min 30 s"),
    (("tickLabel", "ms", 500), "500 ms"),
    (("tickLabel", "rows", 1500), "1,500"),
    (("tickLabel", "rows", 2_500_000), "2.5 M"),
    (("tickLabel", "bytes", 512 << 20), "512 MB"),
    (("tickLabel", "bytes", 0), "0"),
    (
        ("timeLabels", [1_795_564_740, 1_795_564_800, 1_795_564_860], 60),
        ["23:59\n2026-11-24", "2026-11-25", "00:01"],
    ),
    (
        ("routeOf", "#/job/shop-0f%2F3/operators/a%20b"),
        {"view": "job", "key": "shop-0f/3", "tab": "operators", "operator": "a b"},
    ),
    (
        ("routeOf", "#/job/%E0%A4%A/logs"),
        {"view": "job", "key": "%E0%A4%A", "tab": "logs", "operator": None},
    ),
    (("routeOf", ""), {"view": "jobs"}),
    (("jobAddress", "a/b", "operators", "x y"), "#/job/a%2Fb/operators/x%20y"),
]


def test_values_are_formatted(run: Any) -> None:
    for (call, expected), found in zip(TEXTS, run(*(call for call, _ in TEXTS)), strict=True):
        assert found == expected, call


AXES = [
    (("rows", 0, 2800), [0, 1000, 2000, 3000]),
    (("rows", 0, 0), [0, 0.5, 1]),
    (("rows", 0, 7), [0, 2, 4, 6, 8]),
    (("bytes", 0, 2.1 * (1 << 30)), [0, 1 << 30, 2 << 30, 3 << 30]),
    (("bytes", 0, 900 << 20), [n * (500 << 20) for n in range(3)]),
    (("ms", 0, 125), [0, 50, 100, 150]),
    (("ms", 0, 95_000), [0, 30_000, 60_000, 90_000, 120_000]),
    (("ms", 0, 5 * 3_600_000), [0, 7_200_000, 14_400_000, 21_600_000]),
    (("ms", -700, 1000), [-1000, -500, 0, 500, 1000]),
    (("ms", -4_266_000_000, -4_260_000_000), [n * 20 * 86_400_000 for n in (-3, -2, -1, 0)]),
    (("rows", 0, -5), [0, 0.5, 1]),
]


def test_axes_have_round_numbers(run: Any) -> None:
    for (call, ticks), found in zip(AXES, run(*(("axis", *call) for call, _ in AXES)), strict=True):
        assert found["ticks"] == ticks, call


@settings(max_examples=5, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["rows", "ms", "bytes"]),
            st.floats(-1e9, 0) | st.just(0.0),
            st.floats(1e-3, 1e15) | st.floats(-1e9, -1e-3),
        ),
        min_size=20,
        max_size=60,
    )
)
def test_an_axis_covers_its_values_with_few_even_ticks(
    run: Any, asked: list[tuple[str, float, float]]
) -> None:
    axes = run(*(("axis", *one) for one in asked))
    labels = run(
        *(
            ("tickLabel", unit, t)
            for (unit, _, _), axis in zip(asked, axes, strict=True)
            for t in axis["ticks"]
        )
    )
    at = iter(labels)
    for (unit, least, most), axis in zip(asked, axes, strict=True):
        ticks = axis["ticks"]
        slack = (ticks[1] - ticks[0]) * 1e-6
        assert axis["from"] <= min(0, least) + slack
        assert axis["to"] >= most - slack
        assert 2 <= len(ticks) <= 7
        steps = {round((b - a) / (ticks[1] - ticks[0]), 6) for a, b in pairwise(ticks)}
        assert steps == {1.0}
        own = [next(at) for _ in ticks]
        assert len(set(own)) == len(own), (unit, least, most, own)


def test_the_start_of_a_job_does_not_set_the_scale(run: Any) -> None:
    uptimes = [5.0, 65.0, 125.0, 185.0, 245.0]
    starting = [True, True, False, False, False]
    (found, both, only, outage, few) = run(
        ("startUps", [*uptimes, None]),
        ("highest", [[900, 5, 2, 3, 4], [1, 1, 1, 1, 1]], starting, 0, 4),
        ("highest", [[900, 5, 2, 3, 4]], starting, 0, 1),
        ("highest", [[9, 5, 2, 900, 4]], starting, 0, 4),
        ("highest", [[900, 5, 2, 3, 4]], starting, 0, 3),
    )
    assert found == [*starting, False]
    assert both == {"most": 4, "cut": 0, "peak": 900}
    assert only == {"most": 900, "cut": None, "peak": 900}
    assert outage == {"most": 900, "cut": None, "peak": 900}
    assert few == {"most": 900, "cut": None, "peak": 900}
