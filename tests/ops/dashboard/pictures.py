"""Pictures of the page: taken, compared, and stored anew.

python -m tests.ops.dashboard.pictures           rewrites all of them; look at what `git diff` shows
python -m tests.ops.dashboard.pictures jobs-390  rewrites only those"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from tests.ops.dashboard.fed import fed_server
from tests.ops.dashboard.views import VIEWS, View, browser, go, opened_page, pictured

FOLDER = Path(__file__).with_name("pictures")
_COLOURS = 64
"""Colours of a stored picture: with all of them it is several times as large."""
_TOLERANCE = 48
"""How far a colour may be from those around its place in the other picture, of 255."""
_MOST_DIFFERENT = 1e-4
"""Share of the pixels that may differ: a word of a page is more."""


def cases() -> Iterator[tuple[View, int]]:
    for view in VIEWS:
        for width in view.widths:
            yield view, width


def name_of(view: View, width: int) -> str:
    return f"{view.name}-{width}"


def store(taken: Path, name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    small = (
        Image.open(taken)
        .convert("RGB")
        .quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    )
    small.save(FOLDER / f"{name}.png", optimize=True)


def differing(one: Image.Image, other: Image.Image) -> np.ndarray:
    """Return for each pixel whether `one` has a colour there that `other` lacks within one pixel of
    that place. Another version of Chromium may draw edges of letters a little differently."""
    pixels = np.asarray(one, np.int16)
    least = np.asarray(other.filter(ImageFilter.MinFilter(3)), np.int16)
    most = np.asarray(other.filter(ImageFilter.MaxFilter(3)), np.int16)
    found: np.ndarray = ((pixels < least - _TOLERANCE) | (pixels > most + _TOLERANCE)).any(axis=2)
    return found


def compare(taken: Path, name: str) -> None:
    """Raise AssertionError if the picture differs from the stored one. Then both are next to
    `taken`."""
    again = f"python -m tests.ops.dashboard.pictures {name}"
    stored = FOLDER / f"{name}.png"
    assert stored.exists(), f"there is no picture {name}; take it: {again}"
    found, expected = Image.open(taken).convert("RGB"), Image.open(stored).convert("RGB")
    expected_path = taken.with_name(f"{name}-expected.png")
    expected.save(expected_path)
    places = f"compare {taken} with {expected_path}; if the new one is right: {again}"
    assert found.size == expected.size, f"{name} is {found.size}, and was {expected.size}; {places}"
    different = differing(found, expected) | differing(expected, found)
    share = float(different.mean())
    if share > _MOST_DIFFERENT:
        difference = taken.with_name(f"{name}-difference.png")
        Image.fromarray(np.where(different, 0, 255).astype(np.uint8)).save(difference)
        raise AssertionError(f"{share:.3%} of {name} differs, see {difference}; {places}")


def main(names: list[str]) -> None:
    taken = FOLDER / "taken.png"
    FOLDER.mkdir(exist_ok=True)
    known = [name_of(*case) for case in cases()]
    if wrong := [name for name in names if name not in known]:
        sys.exit(f"there is no view {', '.join(wrong)}; there are {', '.join(known)}")
    with fed_server() as server, browser() as opened:
        for view, width in cases():
            name = name_of(view, width)
            if names and name not in names:
                continue
            with opened_page(opened, server, width, dark=view.dark, token=view.token) as page:
                go(page, server, view)
                pictured(page, view, taken)
            store(taken, name)
            print(name, flush=True)
    taken.unlink(missing_ok=True)
    if not names:
        for stored in FOLDER.glob("*.png"):
            if stored.stem not in known:
                stored.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
