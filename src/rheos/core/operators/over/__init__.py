"""Functions over the rows around each row of a key, in some order: SQL's OVER.

| file | content |
|---|---|
| `moving_frames` | the frames of rows, and the state of all functions of a key: pure |
| `positions` | functions that are not aggregates: ranks, neighbours, first and last rows |
| `event_time_over` | OVER of append-only rows, in the order of event time |
| `frame_encoding` | the stored state of a key |
| `changelog_over` | OVER of an updating table, in any order |
"""
