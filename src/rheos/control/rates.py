"""Growth per second, and shares of time, of the subtasks of one place."""

from __future__ import annotations

from rheos.observe.figures import Figure
from rheos.observe.model import JobFigures


def rates(figures: JobFigures, figure: Figure, place: str) -> dict[int, float]:
    """Of a counter at this operator, chain or edge, by subtask; without those not known yet."""
    return {
        int(r.at[-1]): r.per_s for r in figures.of(figure) if r.at[0] == place and r.per_s is not None
    }


def shares(figures: JobFigures, figure: Figure, chain: str) -> dict[int, float]:
    """Of a counter of milliseconds: how much of its time each subtask has spent so."""
    return {subtask: rate / 1000 for subtask, rate in rates(figures, figure, chain).items()}
