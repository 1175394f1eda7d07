"""Random worlds whose users rescale the job at any moment, in addition to its faults: results stay
correct."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheos.runtimes.simulated.faults import Requests
from tests.worlds.worlds import draw_world


@pytest.mark.parametrize("seed", [7102, 7103, 7104])
def test_rescaling_at_any_moment_changes_no_result(seed: int) -> None:
    world = draw_world(seed)
    requests = Requests(rescale=8.0, savepoint=1.0, stop=0.3)
    replace(world, parallelisms=(*world.parallelisms[:1],), requests=requests).run_and_check()
