"""Aggregates over the rows around each row of a key, in some order: what OVER of SQL is.

| file | what it has |
|---|---|
| `frames` | which rows an aggregate is over, and the aggregates: pure functions |
| `by_time` | of rows that stay, in the order of event time |
| `of_changes` | of the rows of a table that changes, in any order |
"""
