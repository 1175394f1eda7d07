"""Names of the columns, in frames of window state, that identify the pane or window of a row."""

from __future__ import annotations

SLICE = "slice_start"
VALID = "first_window_end"
PANE = (SLICE, VALID)
"""Columns that identify a pane of fixed windows."""

OPEN_TO = "open_to"
OPEN_FROM = "open_from"
FIRST = "first_row"
MERGING_PANE = (OPEN_TO, OPEN_FROM, FIRST)
"""Columns that identify a pane of merging windows."""

END = "window_end"
START = "window_start"
