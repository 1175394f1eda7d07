"""What a released version lets users write is accepted by this one, or was deprecated for a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.make_golden import SURFACE
from tests.compat.surface import surface

FOLDER = Path(__file__).parent
RELEASED = sorted(file.parent.name for file in FOLDER.glob(f"*/{SURFACE}"))
REMOVED: dict[str, str] = {}
"""Lines of a surface that are gone, and the release that deprecated them."""


@pytest.mark.parametrize("version", RELEASED)
def test_the_public_surface_of_a_release_remains(version: str) -> None:
    released = set((FOLDER / version / SURFACE).read_text().splitlines())
    gone = released - surface() - set(REMOVED)
    assert not gone, "deprecate these names for a release first (docs/versioning.md)"


def test_the_surface_has_each_kind_of_line() -> None:
    for line in (
        "rh.DataStream.key_by",
        "rh.Environment(parallelism=)",
        "rh.kafka.source(brokers=)",
        "rheos.testing.simulate",
        "rheos run --parallelism",
        "rest get /api/v1/jobs",
        "metric attempt (count)",
    ):
        assert line in surface(), line
