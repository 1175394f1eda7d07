"""Duration for which a source was idle, and is idle now."""

from __future__ import annotations

from rheos.core.operators.source_progress import Pauses


def test_the_current_pause_is_not_the_longest() -> None:
    pauses = Pauses()
    assert (pauses.quiet_ms(5_000_000), pauses.longest_ms) == (None, 0.0)
    pauses.received(1_000_000)
    assert (pauses.quiet_ms(5_000_000), pauses.longest_ms) == (4_000.0, 0.0)
    pauses.received(6_000_000)
    pauses.received(6_500_000)
    assert (pauses.quiet_ms(6_500_000), pauses.longest_ms) == (0.0, 5_000.0)
