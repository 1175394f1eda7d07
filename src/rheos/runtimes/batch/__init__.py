"""The batch runtime: the plan as Spark DataFrames.

`dataframes` translates the plan: chains become `mapInArrow`, hash edges shuffles of packed rows
(`layout`, `buckets`). `keyed_input` feeds keyed operators one generation of whole keys at a time.
`combining` shuffles the state of windows instead of rows. `footers` and `pushdown` decide what Spark's
reader may read. `notes` and `results` bring counters and collected rows to the driver, with proof that
they are complete.
"""
