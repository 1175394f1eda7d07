"""Terms under which readers use the rows of a view as features. Stored with the shape of its state."""

from __future__ import annotations

import msgspec


class FeatureTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Terms of the features that a view contains."""

    time: str
    """Column with the event time of the values."""
    max_age_ms: int | None = None
    """Maximum time in ms from that time to the time of a look-up; None: values do not expire."""
    defaults: dict[str, bool | int | float | str] = {}
    """Values for missing and for null values, by feature."""
