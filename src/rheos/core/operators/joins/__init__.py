"""Joins of two keyed streams.

| part | file |
|---|---|
| columns of a joined row | `joined_columns` |
| one side as state (`core.state.marked_rows`): by time; of an updating table | `side`; `table_side` |
| latest row of each key | `versions` |
| the operators | `interval_join`, `temporal_join`, `window_join`, `co_group`, `table_join` |
| rows of both sides as one stream's | `united` |
"""
