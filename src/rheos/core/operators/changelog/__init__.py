"""Operators that emit or process a changelog (`rheos.core.graph.changelog`).

| file | state |
|---|---|
| `table` | aggregates per key, emitted as upserts; of append-only rows, or of a retracting changelog |
| `rekeying` | the rows of each key, to fold retractions by a key of which a table may have several |
| `retractions` | the row of each key, to emit the old row before each change |
| `dedup` | per key, the time until which further rows are duplicates |
| `truncation` | none: it distributes the keys of a table, and TRUNCATE rows, to parts of the table |
| `truncation_deletes` | the keys of each part of a table, to delete them when the table is truncated |
| `top_n` | the first rows of each key in some order |
"""
