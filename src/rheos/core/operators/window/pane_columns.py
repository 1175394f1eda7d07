"""The names of columns in frames of window state that say which pane or window a row is of."""

from __future__ import annotations

SLICE = "slice_start"
VALID = "first_window_end"
PANE = (SLICE, VALID)
"""A pane of fixed windows."""

OPEN_TO = "open_to"
OPEN_FROM = "open_from"
FIRST = "first_row"
MERGING_PANE = (OPEN_TO, OPEN_FROM, FIRST)
"""A pane of merging windows."""

END = "window_end"
START = "window_start"
