"""Windows with a user's trigger, evictor or assigner: processed record by record, in Python.

    rows ─ assigning ─ (row, window) pairs ─ operator: calls in order, with timers among them
                                               │
                       state by key and window ┤ contents: rows, or their accumulator
                       (declared-state backend)│ trigger: its declared state
                                               │
                                            results: a function's records, or aggregates in columns

| part | file |
|---|---|
| the spec and its state | `spec` |
| the operator: rows and timers, in order | `operator` |
| one key and window: trigger, evictor, firing | `logic` |
| the windows of rows; windows of a key that merge | `assigning`, `merging_set` |
| the stored records or their accumulator | `contents` |
| results as rows | `results` |
| contexts that users' functions receive | `context` |

Windows with built-in aggregates or a function that fire by event time alone do not use this package:
they are computed in columns (`rheos.core.operators.window`).
"""
