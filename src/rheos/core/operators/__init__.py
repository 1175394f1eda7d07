"""Operators: their contract (`contract`), then one operator per file.

- `process_core` has the common part of keyed functions: `keyed_core` calls them for each record,
  `batch_core` for batches, `compiled_core` as machine code over columnar state (`columnar_core`).
- `running_state` and `running_disk` keep running aggregates, in memory and on disk.
- `changelog/` has operators over updating tables, `over/` aggregates over frames of rows.
- `window/` has the kinds of windows and their operators, `joins/` joins of two streams, `pattern/` the
  matching of patterns.
- `async_map` and `lookup` wait for external systems at the input of their chain.
- `rows_by_time` buffers rows until the watermark passes them.

A new operator is one file: a frozen `OperatorSpec` that describes it and builds the running operator.
"""
