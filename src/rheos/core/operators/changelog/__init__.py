"""Operators that give the changes of a table, or take them (`rheos.core.graph.changelog`).

| file | what it keeps |
|---|---|
| `table` | aggregates per key, as upserts; of rows, or of changes that retract |
| `retractions` | the row of each key, to say what it was before |
| `dedup` | up to when further rows of a key are its duplicates |
| `truncation` | nothing: it deals the keys of a table, and what empties it, to its parts |
| `emptied` | the keys of each part of a table, to delete them where the table is truncated |
| `top_n` | the first rows of each key in some order |
"""
