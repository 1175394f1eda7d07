"""Windows with a trigger, an evictor or an assigner of the program's: record by record, in Python.

    rows ─ assigning ─ (row, window) pairs ─ operator: calls in their order, timers among them
                                               │
                       state by key and window ┤ contents: rows, or what they were combined to
                       (declared-state backend)│ trigger: what it declares
                                               │
                                            results: a function's records, or aggregates in columns

| part | file |
|---|---|
| the description, of which the program is made, and its state | `spec` |
| the operator: rows and timers, in their order | `operator` |
| one key and window: trigger, evictor, what fires | `logic` |
| which windows rows are in; windows of a key that merge | `assigning`, `merging_set` |
| what is kept of records | `contents` |
| what fires, as rows | `results` |
| what users' functions are handed | `context` |

Windows with built-in aggregates or a function that fire by event time alone take none of this: they
are computed in columns (`rheos.core.operators.window`).
"""
