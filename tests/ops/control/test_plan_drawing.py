"""The picture of a job in a notebook: its graph with metrics, as self-contained HTML."""

from __future__ import annotations

import threading
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from rheos.core.metrics.health import Severity, simple_health
from rheos.core.plan.outline import PlanOutline
from rheos.core.protocol.readings import Reading
from rheos.ops.control.controlled_jobs import LiveDisplay
from rheos.ops.control.plan_drawing import picture
from tests.cli.stand_ins import METRICS, STATUS, outline


def texts(html: str) -> list[str]:
    found = ET.fromstring(html).iter("text")
    return [each.text or each[0].tail or "" for each in found]


def test_the_picture_has_operators_and_rates() -> None:
    sent = [Reading("sent_rows", ("0", str(n)), 1, rate) for n, rate in enumerate((1000.0, 500.0))]
    metrics = msgspec.structs.replace(METRICS, readings=[*METRICS.readings, *sent])
    html = picture(outline(), STATUS, metrics)
    assert texts(html) == ["1,500/s", "clicks", "map"]
    titles = [title.text for title in ET.fromstring(html).iter("title")]
    assert "busy 50%, held 0%, idle 50%" in titles
    assert "map, job.py:4" in titles
    assert "running for 4 s, 1,000,000 rows/s, checkpoints 4 (1 failed), restarts 1" in html


def test_health_findings_are_above_the_graph() -> None:
    stuck = simple_health(
        Severity.STUCK, 9_000, what="the sink '<b>' waits", what_to_do="start it", since_ms=1_000
    )
    html = picture(outline(), replace(STATUS, health=stuck), METRICS)
    (item,) = ET.fromstring(html).iter("li")
    assert item.text == "the sink '<b>' waits (since 1970-01-01T00:00:01.000Z)"
    assert item[1].text == "start it"
    assert ET.fromstring(html)[1].text == "stuck"


def test_names_of_the_program_are_escaped() -> None:
    evil: PlanOutline = msgspec.structs.replace(outline("<script>alert(1)</script>"))
    evil.chains[0].operators[0] = msgspec.structs.replace(
        evil.chains[0].operators[0], name="<b>&", site="'\"><i>:1"
    )
    html = picture(evil, STATUS, METRICS)
    assert "<script" not in html
    assert "<i>" not in html
    assert "<b>&" in texts(html)


def test_a_loop_is_drawn_and_a_large_plan_is_not() -> None:
    plan = outline()
    back = msgspec.structs.replace(plan.edges[0], id="1", source="1", target="0", feedback=True)
    looped = msgspec.structs.replace(plan, edges=[*plan.edges, back])
    assert len(list(ET.fromstring(picture(looped, STATUS, METRICS)).iter("path"))) == 2
    wide = msgspec.structs.replace(plan, chains=plan.chains * 30)
    assert "60 chains: see the dashboard" in picture(wide, STATUS, METRICS)


class Screen:
    def __init__(self) -> None:
        self.shown: list[str] = []
        self.came = threading.Semaphore(0)

    def update(self, obj: Any, **_: Any) -> None:
        self.shown.append(obj["text/plain"])
        self.came.release()


def test_only_the_newest_picture_updates_until_the_job_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    display = pytest.importorskip("IPython.display", reason="IPython is not installed")
    screens: list[Screen] = []

    def displayed(bundle: Any, **_: Any) -> Screen:
        screens.append(Screen())
        return screens[-1]

    monkeypatch.setattr(display, "display", displayed)
    second, over = threading.Event(), threading.Event()

    def ended(_: float) -> bool:
        """The first one waits until there is a second; that one sees the end."""
        if len(screens) == 1:
            assert second.wait(20)
            return False
        return over.wait(20)

    live = LiveDisplay(lambda: {"text/plain": "ended" if over.is_set() else "runs"}, ended)
    live.show()
    live.show()
    second.set()
    over.set()
    assert screens[1].came.acquire(timeout=20)
    assert (screens[0].shown, screens[1].shown) == ([], ["ended"])
