"""Joins of two keyed streams.

| part | file |
|---|---|
| rows of one side, found by key and time; their numbers | `timed_rows`, `growing`, `numbered` |
| the columns of a joined row | `columns` |
| one side of a join as state, by time | `side` |
| one side of a join of tables, which rows leave, too | `table_side` |
| the latest row of each key | `versions` |
| what comes too late | `late` |
| the operators | `interval`, `temporal`, `windowed`, `co_group`, `tables` |
| rows of both sides as one stream's | `united` |
"""
