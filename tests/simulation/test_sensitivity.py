"""Defects that random worlds notice: some of those in `mutations.py`, each noticed by one of a few
worlds. The command tries the others, which fewer worlds notice:

    python -m tests.simulation.mutations
"""

from __future__ import annotations

import pytest

from tests.simulation.mutations import broken, catches

SEEDS = range(30)


@pytest.mark.parametrize(
    "name",
    [
        "committables not carried",
        "source position one ahead",
        "zombies are heard, and ids used again",
        pytest.param("all key groups restored", marks=pytest.mark.slow),
        "files deleted that are needed",
        "marks of the log deleted",
        pytest.param("kept entries deleted", marks=pytest.mark.slow),
        "recovery does not commit",
        "rows overtaken on their way out lost",
        pytest.param("manifest before the commits", marks=pytest.mark.slow),
        pytest.param("savepoint of what has changed", marks=pytest.mark.slow),
        pytest.param("snapshot_failed ignored", marks=pytest.mark.slow),
        "all phases open at once",
        "a phase open when one subtask has read",
        "a split that is found is read by all",
        pytest.param("rows that come round behind a snapshot lost", marks=pytest.mark.slow),
        "a loop over while rows go round",
        pytest.param("state of a trigger lost", marks=pytest.mark.slow),
        pytest.param("rows in windows of a count lost", marks=pytest.mark.slow),
        pytest.param("changes of a compiled function lost", marks=pytest.mark.slow),
        pytest.param("times of updates lost", marks=pytest.mark.slow),
    ],
)
def test_a_defect_of_the_engine_is_noticed(name: str) -> None:
    with broken(name):
        assert any(catches(name, seed) for seed in SEEDS)
