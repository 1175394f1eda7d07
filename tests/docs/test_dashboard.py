"""docs/dashboard.md lists every request of the REST API, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from rheos.ops.dashboard.operations import operations

PAGE = (Path(__file__).parents[2] / "docs/dashboard.md").read_text()
REQUEST = re.compile(r"`(GET|POST) (/(?:jobs|listeners)[^`?]*)(?:\?[^`]*)?`")
EVENTS = ("GET", "/jobs/KEY/events")
"""A stream of events, which is not an operation."""


def test_the_page_lists_every_request() -> None:
    shown = {(found[1], found[2]) for found in REQUEST.finditer(PAGE)}
    lasting = [each for each in operations() if not each.deprecated]
    assert shown == {(each.method, each.path.replace("{job}", "KEY")) for each in lasting} | {EVENTS}
