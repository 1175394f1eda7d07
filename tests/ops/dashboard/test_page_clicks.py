"""The page in a real browser, over jobs that a test controls: clicks, slow presses, and typing.

Needs `pip install playwright pillow` and a Chromium of the system."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("starlette", reason="the extra rheos[dashboard] is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("PIL", reason="Pillow is not installed")

from tests.ops.dashboard import fed_jobs
from tests.ops.dashboard.conftest import CHROMIUM
from tests.ops.dashboard.fed import FedServer, fed_server
from tests.ops.dashboard.fed_jobs import FedJob
from tests.ops.dashboard.views import NARROW, TABS, VIEWS, WIDE, View, browser, go, opened_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]
SLOW_PRESS_MS = 1500
OF_JOBS = [view for view in VIEWS if view.jobs() and not view.dark]
CLICKABLE = "main a, main button, main select, main input, main [tabindex]"
MARK = f"""() => {{
    const all = [...document.querySelectorAll({CLICKABLE!r})];
    all.forEach((each, n) => {{ each.marked = n; }});
    return all.length;
}}"""
MARKED = f"() => [...document.querySelectorAll({CLICKABLE!r})].map((each) => each.marked ?? null)"
TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll("main *")]
    .filter((each) => !each.closest("pre, thead, .u-wrap") && !(each instanceof SVGElement)
        && getComputedStyle(each).display !== "inline" && each.scrollWidth > each.clientWidth + 1)
    .map((each) => `${each.tagName}.${each.className} ${each.scrollWidth} ${each.clientWidth}`)"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as opened:
        yield opened


@pytest.fixture
def server() -> Iterator[FedServer]:
    with fed_server() as made:
        yield made


@pytest.fixture
def page(chromium: Any, server: FedServer) -> Iterator[Any]:
    with opened_page(chromium, server, WIDE) as opened:
        yield opened


def pressed_slowly(page: Any, server: FedServer, selector: str) -> None:
    """Press the element, and release it after everything shown has changed."""
    pressed = page.locator(selector).first
    pressed.scroll_into_view_if_needed()
    box = pressed.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    server.turning = True
    page.wait_for_timeout(SLOW_PRESS_MS)
    server.turning = False
    page.mouse.up()


def test_a_slow_press_works_while_data_changes(page: Any, server: FedServer) -> None:
    go(page, server, View("", lambda: [fed_jobs.stuck(), *fed_jobs.many(9)]))
    pressed_slowly(page, server, "tr.job a:text-is('shop')")
    page.wait_for_url("**/overview")
    page.wait_for_selector("[data-operator=minutes]")
    pressed_slowly(page, server, "[data-operator=minutes]")
    page.wait_for_url("**/operators/minutes")
    pressed_slowly(page, server, "tr a:text-is('kafka')")
    page.wait_for_url("**/operators/kafka")
    pressed_slowly(page, server, ".panel a:text-is('Close')")
    page.wait_for_url("**/operators")
    pressed_slowly(page, server, "[role=tab]:text-is('Overview')")
    page.wait_for_url("**/overview")
    pressed_slowly(page, server, ".finding.server a")
    page.wait_for_url("**/operators/kafka")
    pressed_slowly(page, server, "button:text-is('Cancel the job')")
    page.wait_for_selector("dialog[open]")


@pytest.mark.parametrize("view", OF_JOBS, ids=lambda view: view.name)
def test_clickable_elements_are_not_replaced_while_data_changes(
    page: Any, server: FedServer, view: View
) -> None:
    go(page, server, view)
    number = page.evaluate(MARK)
    assert number > 0
    server.turning = True
    page.wait_for_timeout(300)  # About ten changes.
    assert page.evaluate(MARKED) == list(range(number))


def test_added_and_removed_rows_leave_other_rows_alone(page: Any, server: FedServer) -> None:
    go(page, server, View("", lambda: [FedJob("b"), FedJob("d")]))
    page.locator("tr.job a:text-is('d')").focus()
    page.evaluate("document.activeElement.marked = 1")
    server.jobs = [FedJob("d"), FedJob("a"), FedJob("c")]
    page.wait_for_selector("tr.job a:text-is('c')")
    assert page.locator("tr.job a.name").all_inner_texts() == ["a", "c", "d"]
    assert page.evaluate("document.activeElement.marked") == 1


def test_tabs_are_in_the_address_and_keyboard_accessible(page: Any, server: FedServer) -> None:
    go(page, server, View("", lambda: [FedJob()], "overview"))
    page.get_by_role("tab", name="Overview").focus()
    for tab in (*TABS[1:], TABS[0]):
        page.keyboard.press("ArrowRight")
        page.wait_for_url(f"**/{tab}")
        assert page.locator("[role=tab][aria-selected=true]").inner_text().lower() == tab
        assert page.evaluate("document.activeElement.textContent.toLowerCase()") == tab
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**/settings")
    page.reload()
    page.wait_for_selector("code:text-is('checkpoint_interval')")
    page.keyboard.press("Tab")
    page.go_back()
    page.wait_for_selector("[data-operator=orders]")
    page.locator("[data-operator=orders]").press("Enter")
    page.wait_for_selector(".panel h2:text-is('orders')")


@pytest.mark.parametrize(
    ("button", "typed", "posted", "said"),
    [
        (
            "Take a savepoint",
            {"directory": "/data/shop/x"},
            ("savepoint", {"directory": "/data/shop/x"}),
            "Savepoint: /data",
        ),
        ("Stop with a savepoint", {}, ("stop", {"drain": False}), "Savepoint: /data"),
        ("Rescale", {"parallelism": "4"}, ("rescale", {"parallelism": 4}), "parallelism 4"),
        ("Cancel the job", {}, ("cancel", {}), "was cancelled"),
    ],
)
def test_a_button_asks_for_confirmation(
    page: Any, server: FedServer, button: str, typed: dict[str, str], posted: Any, said: str
) -> None:
    go(page, server, View("", lambda: [FedJob()], "overview"))
    page.click(f".actions button:text-is('{button}')")
    page.click("dialog button[type=button]")
    page.wait_for_selector("dialog", state="detached")
    page.click(f".actions button:text-is('{button}')")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert server.posted == []
    page.click(f".actions button:text-is('{button}')")
    for name, value in typed.items():
        page.fill(f"dialog input[name={name}]", value)
    server.refusal = {"what": "another operation runs", "hint": "wait for it"}
    page.click("dialog button[type=submit]")
    page.wait_for_selector("dialog .problem:text-is('another operation runs: wait for it')")
    server.refusal = None
    page.click("dialog button[type=submit]")
    page.wait_for_selector(f"#notice:has-text({said!r})")
    assert server.posted == [posted, posted]


def test_a_waiting_savepoint_shows_its_reason(page: Any, server: FedServer) -> None:
    go(page, server, View("", lambda: [fed_jobs.stuck()], "overview"))
    server.holds = True
    page.click(".actions button:text-is('Take a savepoint')")
    page.click("dialog button[type=submit]")
    page.wait_for_selector(
        "dialog:has-text(\"In progress. Waits since 2026-11-24T15:58:25Z: the sink 'kafka'\")"
    )
    server.holds = False
    page.wait_for_selector("dialog", state="detached")


def test_pressing_enter_alone_does_not_cancel(page: Any, server: FedServer) -> None:
    go(page, server, View("", lambda: [FedJob()], "overview"))
    page.click(".actions button:text-is('Cancel the job')")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog", state="detached")
    assert server.posted == []


def test_an_address_stays_valid_after_a_driver_restart(page: Any, server: FedServer) -> None:
    go(page, server, View("", lambda: [FedJob()], "operators"))
    server.jobs = []
    page.wait_for_selector("#notice:has-text('no job')")
    renamed = {"orders": "purchases"}
    server.jobs = [replace(FedJob(plan=fed_jobs.plan(renamed)), pid=9)]
    page.wait_for_selector("tr a:text-is('purchases')")
    assert page.locator("#notice").is_hidden()
    page.reload()
    page.wait_for_selector("tr a:text-is('purchases')")


@pytest.mark.parametrize(
    "view", [v for v in VIEWS if NARROW in v.widths and not v.dark], ids=lambda v: v.name
)
def test_nothing_is_wider_than_a_phone(chromium: Any, server: FedServer, view: View) -> None:
    with opened_page(chromium, server, NARROW, token=view.token) as page:
        go(page, server, view)
        assert page.evaluate(TOO_WIDE) == []


@pytest.mark.parametrize("tab", ["", *TABS])
def test_hostile_names_are_escaped(page: Any, server: FedServer, tab: str) -> None:
    go(page, server, View("", lambda: [fed_jobs.hostile()], tab))
    assert page.locator("main img, main b, main script").count() == 0
    assert page.evaluate("window.hurt") is None
    assert "\u202e" not in page.inner_text("main")
    if tab:
        assert "<b>bold</b>" in page.inner_text("h1")


def test_a_chart_zooms_and_keeps_its_zoom(page: Any, server: FedServer) -> None:
    go(page, server, View("", lambda: [FedJob()], "overview"))
    rows = page.locator(".chart", has_text="Rows from sources")
    note = rows.locator(".note")
    assert "The peak of the start" in note.inner_text()
    box = rows.locator(".u-over").bounding_box()
    middle = box["y"] + box["height"] / 2

    def drag(start: float, end: float) -> None:
        page.mouse.move(box["x"] + box["width"] * start, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * end, middle, steps=4)
        page.mouse.up()

    whole = page.locator("button:text-is('Show all')")
    assert whole.is_disabled()
    drag(0.5, 0.9)
    page.wait_for_function("document.querySelector('.chart .note').textContent === ''")
    page.evaluate("dispatchEvent(new Event('resize'))")
    assert note.inner_text() == ""
    whole.click()
    page.wait_for_function("document.querySelector('.chart .note').textContent !== ''")
    drag(0.0, 0.02)
    page.wait_for_function("document.querySelector('.chart .note').textContent === ''")
    page.mouse.dblclick(box["x"] + 9, middle)
    page.wait_for_function("document.querySelector('.chart .note').textContent !== ''")
    page.select_option("select[aria-label='How far back']", label="the last 10 minutes")
    page.wait_for_function("document.querySelector('.chart .note').textContent === ''")
    labels = page.locator(".u-legend .u-label").all_inner_texts()
    assert "orders to kafka, p99" in labels


def test_legends_have_the_names_of_operators(page: Any, server: FedServer) -> None:
    names = {"orders": "purchases", "postgres": "a table", "kafka": "a table"}
    go(page, server, View("", lambda: [FedJob(plan=fed_jobs.plan(names))], "overview"))
    labels = page.locator(".u-legend .u-label").all_inner_texts()
    assert "purchases to a table (kafka), p99" in labels
    values = page.locator(".u-legend .u-value").all_inner_texts()
    assert all(values)


def test_slots_are_in_the_order_of_their_numbers(page: Any, server: FedServer) -> None:
    go(page, server, View("", lambda: [FedJob()], "operators"))
    found = page.locator(".slots tbody td:first-child").all_inner_texts()
    assert found == [str(n) for n in range(fed_jobs.WIDTH)]


def test_the_health_is_the_first_thing_on_every_tab(page: Any, server: FedServer) -> None:
    for tab in TABS:
        go(page, server, View("", lambda: [fed_jobs.stuck()], tab))
        said = page.inner_text(".health-line")
        assert "stuck" in said
        assert "the server kafka at 127.0.0.1:9092 has not answered for 95 s" in said
        assert "Since 2026-11-24T15:58:25Z, for 1 min 35 s." in said
        assert "What to do: start the broker" in said


def test_the_address_contains_the_key_of_the_job(page: Any, server: FedServer) -> None:
    go(page, server, View("", lambda: [FedJob("a"), FedJob("b")]))
    page.click("tr.job a:text-is('b')")
    page.wait_for_selector("h1:text-is('b')")
    assert page.url.endswith(f"#/job/{quote(server.jobs[1].key, safe='')}/overview")
