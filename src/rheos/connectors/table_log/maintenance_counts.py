"""Counts of the work for tables in this process, by table."""

from rheos.connectors.calls.labelled_counts import LabelledCounts

COMPACTED_FILES = LabelledCounts()
"""Data files that compactions have replaced."""
COMPACTED_BYTES = LabelledCounts()
"""Size of these files."""
COMPACTIONS_GIVEN_UP = LabelledCounts()
"""Compactions that were given up, after a conflict or an error."""
EXPIRED_FILES = LabelledCounts()
"""Files of old versions that were deleted."""
