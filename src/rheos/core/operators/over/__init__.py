"""Functions over the rows around each row of a key, in some order: SQL's OVER.

| file | content |
|---|---|
| `frames` | the frames of rows, and the state of all functions of a key: pure |
| `positions` | functions that are not aggregates: ranks, neighbours, first and last rows |
| `by_time` | OVER of append-only rows, in the order of event time |
| `stored` | the stored state of a key |
| `of_changes` | OVER of an updating table, in any order |
"""
