"""How long a source was quiet, and is."""

from __future__ import annotations

from rheos.core.operators.source_progress import Pauses


def test_the_pause_that_runs_is_not_the_longest_yet() -> None:
    pauses = Pauses()
    assert (pauses.quiet_ms(5_000_000), pauses.longest_ms) == (None, 0.0)
    pauses.received(1_000_000)
    assert (pauses.quiet_ms(5_000_000), pauses.longest_ms) == (4_000.0, 0.0)
    pauses.received(6_000_000)
    pauses.received(6_500_000)
    assert (pauses.quiet_ms(6_500_000), pauses.longest_ms) == (0.0, 5_000.0)
