"""Every view of the page that is compared with a picture."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from PIL import Image

from tests.ops.dashboard import fed_jobs
from tests.ops.dashboard.fed import TOKEN, FedServer
from tests.ops.dashboard.fed_jobs import FedJob

WIDE, NARROW = 1280, 390
PAGE_HEIGHT = 900
MAX_HEIGHT = 2600
"""Pixels of a picture: rows of a long table repeat what is above them."""
TABS = ("overview", "operators", "checkpoints", "events", "logs", "settings")
_STILL = """
*, *::before, *::after { animation: none !important; transition: none !important; }
* { caret-color: transparent !important; }
:root { --font: "DejaVu Sans"; --mono: "DejaVu Sans Mono"; }
"""
"""Fonts differ between machines: pictures use those that come with Chromium's package dependencies."""

Step: TypeAlias = Callable[[Any], object]


@dataclass(frozen=True)
class View:
    """View of the page, and the steps that lead to it."""

    name: str
    jobs: Callable[[], list[FedJob]]
    at: str = ""
    """The tab of the first job, with what follows it; empty: the list of jobs. `#...`: an address."""
    widths: tuple[int, ...] = (WIDE, NARROW)
    dark: bool = False
    token: str | None = TOKEN
    whole: bool = True
    """The picture is of the whole page; else of what is seen without scrolling."""
    steps: tuple[Step, ...] = ()
    """What the user does before the picture is taken."""

    def address(self, jobs: list[FedJob]) -> str:
        if self.at.startswith("#"):
            return self.at
        return f"#/job/{quote(jobs[0].key, safe='')}/{self.at}" if self.at else "#/"


def _click(selector: str) -> Step:
    return lambda page: page.click(selector)


def _zoomed(page: Any) -> None:
    box = page.locator(".chart .u-over").first.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.6, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, middle, steps=4)
    page.mouse.up()
    page.wait_for_selector("button:text-is('Show all'):not([disabled])")
    page.mouse.move(1, 1)


def _one() -> list[FedJob]:
    return [FedJob()]


def _stuck() -> list[FedJob]:
    return [fed_jobs.stuck()]


def _mixed() -> list[FedJob]:
    return [fed_jobs.stuck(), fed_jobs.failed(), FedJob("clicks"), fed_jobs.ended()]


VIEWS = (
    View("sign-in", list, token=None),
    View("no-jobs", list),
    View("jobs", _mixed),
    View("jobs-dark", _mixed, dark=True),
    View("jobs-fifty", fed_jobs.many, whole=False),
    View("jobs-hostile", lambda: [fed_jobs.hostile(), fed_jobs.long_names()]),
    View("overview", _one, "overview"),
    View("overview-dark", _one, "overview", dark=True),
    View("overview-stuck", _stuck, "overview"),
    View("overview-failed", lambda: [fed_jobs.failed()], "overview"),
    View("overview-ended", lambda: [fed_jobs.ended()], "overview", widths=(WIDE,)),
    View("overview-hostile", lambda: [fed_jobs.hostile()], "overview"),
    View("overview-long", lambda: [fed_jobs.long_names()], "overview", widths=(NARROW,)),
    View("overview-zoomed", _one, "overview", widths=(WIDE,), steps=(_zoomed,)),
    View("operators", _one, "operators"),
    View("operator", _one, "operators/minutes", widths=(NARROW,)),
    View("operator-dark", _one, "operators/minutes", widths=(WIDE,), dark=True),
    View("checkpoints", _one, "checkpoints"),
    View("events", _one, "events", steps=(_click("button:text('Show the details')"),)),
    View("logs", _one, "logs"),
    View("settings", _one, "settings"),
    View("cancel", _one, "overview", whole=False, steps=(_click("button:text-is('Cancel the job')"),)),
    View("no-such-job", list, "#/job/nothing/overview", widths=(WIDE,)),
    View("rest", list, "#/rest"),
)


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    from tests.ops.dashboard.conftest import CHROMIUM

    with sync_playwright() as playwright:
        # Colours and edges of letters differ between machines without these options.
        still = [
            "--no-sandbox",
            "--force-color-profile=srgb",
            "--disable-lcd-text",
            "--font-render-hinting=none",
        ]
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=still)
        try:
            yield opened
        finally:
            opened.close()


@contextlib.contextmanager
def opened_page(
    browser: Any, server: FedServer, width: int, *, dark: bool = False, token: str | None = TOKEN
) -> Iterator[Any]:
    """Yield a page whose clock stands still. Errors of the page fail the test at its end."""
    context = browser.new_context(
        viewport={"width": width, "height": PAGE_HEIGHT}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    page.set_default_timeout(20_000)
    problems: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        lambda said: problems.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.on("request", lambda request: asked.append(request.url))
    page.clock.set_fixed_time(fed_jobs.NOW_MS)
    page.add_init_script(f"""
        if ({json.dumps(token)} !== null) sessionStorage.setItem("rheos-token", {json.dumps(token)});
        addEventListener("DOMContentLoaded", () => {{
            const style = document.createElement("style");
            style.textContent = {json.dumps(_STILL)};
            document.head.append(style);
        }});""")
    try:
        yield page
    finally:
        context.close()
    if server.refused:
        problems = [each for each in problems if "409" not in each]  # Chromium logs this one itself.
    assert problems == [], problems
    assert [url for url in asked if not url.startswith((server.url, "data:"))] == []


def go(page: Any, server: FedServer, view: View) -> None:
    """Open the view, and wait until it is shown completely."""
    server.jobs = view.jobs()
    page.goto(server.url + view.address(server.jobs))
    wait_until_shown(page)
    for step in view.steps:
        step(page)
    wait_until_shown(page)


_IS_SHOWN = """() => {
    const text = document.getElementById("view").innerText;
    const parts = (selector, there) => [...document.querySelectorAll(selector)].every(there);
    return text.trim() !== "" && !text.includes("Looking for") && document.fonts.status === "loaded"
        && parts(".tab:not([hidden]) section.lines", (each) => each.querySelector("canvas, .charts p"))
        && (!document.querySelector(".actions") || parts(".graph", (each) => each.querySelector("svg")))
        && parts(".tab:not([hidden])", (each) => each.innerText.trim() !== "");
}"""


_IS_STILL = """async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const height = () => document.documentElement.scrollHeight;
    for (let still = 0, before = height(); still < 4; still += 1) {
        await frame();
        if (height() !== before) still = 0;
        before = height();
    }
}"""


def wait_until_shown(page: Any) -> None:
    page.wait_for_function(_IS_SHOWN)
    # A chart is drawn in the frame after its data.
    page.evaluate(_IS_STILL)


def pictured(page: Any, view: View, path: Path) -> None:
    page.screenshot(path=path, full_page=view.whole, animations="disabled")
    image = Image.open(path)
    image.crop((0, 0, image.width, min(image.height, MAX_HEIGHT))).save(path)
