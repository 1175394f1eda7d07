"""Joins of two keyed streams.

| part | file |
|---|---|
| rows of one side, found by key and time; their numbers | `timed_rows`, `growing`, `numbered` |
| the columns of a joined row | `columns` |
| one side of a join as state | `side` |
| the latest row of each key | `versions` |
| what comes too late | `late` |
| the operators | `interval`, `temporal`, `windowed`, `co_group` |
| rows of both sides as one stream's | `united` |
"""
