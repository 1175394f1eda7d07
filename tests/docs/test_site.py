"""The site in a real browser: nothing is wider than a page, and a search finds the right page first.

Needs a Chromium of the system, `pip install playwright`, and what scripts/docs installs.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

ROOT = Path(__file__).parents[2]
SITE = ROOT / "out/site"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]
WIDTHS = (1280, 390)
TOO_WIDE = """() => {
    const width = document.documentElement.clientWidth;
    const scrolls = ".highlight, pre, .md-typeset__scrollwrap, .tabbed-labels";
    const page = document.documentElement.scrollWidth > width + 1 ? ["the page"] : [];
    const wide = [...document.querySelectorAll(".md-content *, .md-footer *")]
        .filter((each) => each.getBoundingClientRect().width > 0 && !each.parentElement.closest(scrolls)
            && each.getBoundingClientRect().right > width + 1)
        .map((each) => `${each.tagName} ${each.textContent.slice(0, 60)}`);
    return [...page, ...wide];
}"""
BROKEN = """() => [
    ...[...document.images].filter((each) => each.complete && !each.naturalWidth)
        .map((each) => each.src),
    ...[...document.querySelectorAll("td code")].map((each) => each.textContent)
        .filter((text) => text.includes("\\\\|")),
]"""
"""Images that are not there, and escaped pipes that show."""
SHOWS_RESULTS = """(wanted) => {
    const text = document.querySelector(".md-search-result__meta").textContent;
    const items = document.querySelectorAll(".md-search-result__item").length;
    if (!wanted) return text === "Type to start searching" && items === 0;
    return text === "No matching documents" || (/matching document/.test(text) && items > 0);
}"""
"""Whether the list has the results of the query: the number of them appears before the list."""
SEARCHES = {
    "install": "install.html",
    "pip install extras": "install.html",
    "quickstart": "quickstart.html",
    "session window": "windows.html",
    "sliding window": "windows.html",
    "late rows": "windows.html",
    "watermark": "watermarks.html",
    "join two streams": "joins.html",
    "interval join": "joins.html",
    "exactly once kafka": "kafka.html",
    "kafka source": "kafka.html",
    "restart": "restarts.html",
    "savepoint": "operating.html",
    "rescale": "operating.html",
    "dashboard": "dashboard.html",
    "prometheus": "metrics.html",
    "parquet": "files.html",
    "protobuf": "formats.html",
    "postgres": "postgres.html",
    "redis": "redis.html",
    "jetstream": "nats.html",
    "kinesis": "kinesis.html",
    "sqs": "sqs.html",
    "mosquitto": "mqtt.html",
    "replacingmergetree": "clickhouse.html",
    "resume token": "mongodb.html",
    "amqp": "rabbitmq.html",
    "pulsar": "pulsar.html",
    "webhook": "web.html",
    "sql": "sql.html",
    "pattern": "patterns.html",
    "unit test": "testing.html",
    "kubernetes": "deploy.html",
    "spark submit": "spark.html",
    "dedup": "cookbook.html",
    "decimal": "decimals.html",
    "changelog table": "changes.html",
    "token security": "security.html",
    "write a connector": "connectors.html",
    "debug a key": "debug.html",
    "iterations": "iterations.html",
    "machine learning": "ml.html",
    "pyflink": "coming-from.html",
}
"""What a reader types, and the page that is to be the first result."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    subprocess.run([ROOT / "scripts/docs"], check=True, capture_output=True, timeout=600)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def pages() -> list[str]:
    return sorted(
        path.relative_to(SITE).as_posix()
        for path in SITE.rglob("*.html")
        if "repository" not in path.parts
    )


def test_no_page_is_too_wide_and_no_image_is_broken(address: str, chromium: Any) -> None:
    page = chromium.new_page()
    page.route("**/search_index.json", lambda route: route.abort())  # Takes most of the time.
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    found = {}
    for name in pages():
        page.goto(f"{address}/{name}")
        problems = page.evaluate(BROKEN)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            problems += page.evaluate(TOO_WIDE)
        if problems:
            found[name] = problems[:3]
    page.close()
    assert found == {}
    assert len(pages()) > 80
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def test_the_site_follows_the_color_scheme_of_the_reader(address: str, chromium: Any) -> None:
    for scheme, name in (("light", "default"), ("dark", "slate")):
        page = chromium.new_page(color_scheme=scheme)
        page.goto(f"{address}/concepts.html")
        assert page.get_attribute("body", "data-md-color-scheme") == name
        page.close()


def results(page: Any, query: str) -> list[str]:
    """Return the pages of the results of a query, the first one first."""
    for text in ("", query):  # The empty one clears the results of the last query.
        page.fill(".md-search__input", text)
        page.press(".md-search__input", "End")  # The page listens to keys.
        page.wait_for_function(SHOWS_RESULTS, arg=bool(text))
    links = page.eval_on_selector_all(
        ".md-search-result__item > a", "all => all.map((each) => new URL(each.href).pathname.slice(1))"
    )
    return [str(link) for link in links]


def test_a_search_finds_the_right_page_first(address: str, chromium: Any) -> None:
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{address}/index.html")
    page.click(".md-search__input")
    found = {query: results(page, query)[:3] for query in SEARCHES}
    page.close()
    wrong = {
        query: f"expected {SEARCHES[query]}, found {pages}"
        for query, pages in found.items()
        if pages[:1] != [SEARCHES[query]]
    }
    assert wrong == {}


def test_programs_of_other_engines_are_next_to_those_of_rheos(address: str, chromium: Any) -> None:
    for width in WIDTHS:
        page = chromium.new_page(viewport={"width": width, "height": 900})
        page.goto(f"{address}/coming-from.html")
        pairs = page.locator(".side-by-side:has(> div + div)")
        assert pairs.count() >= 10
        own, others = (pairs.first.locator("> div").nth(n).bounding_box() for n in (0, 1))
        if width == min(WIDTHS):
            assert others["y"] > own["y"]
        else:
            assert (others["x"] > own["x"], others["y"]) == (True, own["y"])
        assert pairs.first.locator("> div").first.locator(".tabbed-labels").inner_text() == "Rheos"
        page.close()


def test_the_first_page_shows_how_to_install_and_a_program_with_its_output(
    address: str, chromium: Any
) -> None:
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{address}/index.html")
    shown = page.inner_text("article")
    assert shown.index("pip install") < shown.index("rheos init") < shown.index("import rheos as rh")
    assert page.locator("article pre").count() >= 3
    page.close()


def test_settings_that_pages_name_link_to_their_entries(address: str) -> None:
    entries = {*re.findall(r'id="([\w.]+)"', (SITE / "settings.html").read_text())}
    links = {
        name
        for page in pages()
        if not page.startswith("reference/")
        for name in re.findall(r'href="(?:\.\./)*settings\.html#([\w.]+)"', (SITE / page).read_text())
    }
    assert {"checkpoint_dir", "buffer_timeout"} <= links
    assert links <= entries
