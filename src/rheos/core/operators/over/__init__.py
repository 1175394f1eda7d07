"""Functions over the rows around each row of a key, in some order: OVER of SQL.

| file | content |
|---|---|
| `frames` | which rows a function is over, and the state of all functions of a key: pure |
| `positions` | functions that are no aggregates: ranks, neighbours, first and last rows |
| `by_time` | OVER of append-only rows, in the order of event time |
| `stored` | the stored state of a key |
| `of_changes` | OVER of an updating table, in any order |
"""
