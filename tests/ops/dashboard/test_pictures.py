"""Every view of the page is compared with its picture, in light and dark, wide and narrow.

Needs `pip install playwright pillow`, a Chromium of the system, and the fonts DejaVu (`chromium` and
`fonts-dejavu-core` of Debian). `python -m tests.ops.dashboard.pictures` takes the pictures anew."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra rheos[dashboard] is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("PIL", reason="Pillow is not installed")

from PIL import Image, ImageDraw

from tests.ops.dashboard import pictures
from tests.ops.dashboard.conftest import CHROMIUM
from tests.ops.dashboard.fed import fed_server
from tests.ops.dashboard.views import View, browser, go, opened_page, pictured


def _has_fonts() -> bool:
    if shutil.which("fc-list") is None:
        return False
    known = subprocess.run(
        ["fc-list", ":", "family"], capture_output=True, text=True, check=False
    ).stdout
    return "DejaVu Sans" in known and "DejaVu Sans Mono" in known


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
    pytest.mark.skipif(not _has_fonts(), reason="the fonts DejaVu are not installed"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as opened:
        yield opened


@pytest.mark.parametrize(
    ("view", "width"), [pytest.param(*case, id=pictures.name_of(*case)) for case in pictures.cases()]
)
def test_a_view_equals_its_picture(chromium: Any, tmp_path: Path, view: View, width: int) -> None:
    name = pictures.name_of(view, width)
    taken = tmp_path / f"{name}.png"
    with (
        fed_server() as server,
        opened_page(chromium, server, width, dark=view.dark, token=view.token) as page,
    ):
        go(page, server, view)
        pictured(page, view, taken)
    pictures.compare(taken, name)


def test_every_picture_belongs_to_a_view() -> None:
    known = {pictures.name_of(*case) for case in pictures.cases()}
    assert {path.stem for path in pictures.FOLDER.glob("*.png")} == known
    assert sum(path.stat().st_size for path in pictures.FOLDER.glob("*.png")) < 2_000_000


def test_a_missing_word_is_noticed(tmp_path: Path) -> None:
    taken = tmp_path / "jobs-390.png"
    image = Image.open(pictures.FOLDER / "jobs-390.png").convert("RGB")
    image.save(taken)
    pictures.compare(taken, "jobs-390")
    ImageDraw.Draw(image).rectangle((14, 160, 80, 180), fill=image.getpixel((300, 170)))
    image.save(taken)
    with pytest.raises(AssertionError, match="jobs-390 differs"):
        pictures.compare(taken, "jobs-390")
    assert (tmp_path / "jobs-390-expected.png").exists()
    assert (tmp_path / "jobs-390-difference.png").exists()
