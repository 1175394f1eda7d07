"""Terms under which readers use the rows of a view as features. Stored with the shape of its state.

The names of the columns that look-ups and training rows add are here, too: comparisons read them.
"""

from __future__ import annotations

import msgspec

ASKED_AT = "asked_at"
"""Column with the time of the look-up."""


def time_column(features: str) -> str:
    """Return the name of the column with the event time of the values."""
    return f"{features}_at"


def status_column(features: str) -> str:
    """Return the name of the column with the status: "fresh", "stale" or "missing"."""
    return f"{features}_status"


class FeatureTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Terms of the features that a view contains."""

    time: str
    """Column with the event time of the values."""
    max_age_ms: int | None = None
    """Maximum time in ms from that time to the time of a look-up; None: values do not expire."""
    defaults: dict[str, bool | int | float | str] = {}
    """Values for missing and for null values, by feature."""
