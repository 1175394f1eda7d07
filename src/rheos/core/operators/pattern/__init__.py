"""Patterns of rows: compiled (`pattern_compiler`) to an `automaton`, which a matcher moves key by key
(`matcher`, `live_matches`); both are pure. The operator (`operator`) computes conditions for whole
batches (`conditions`), and keeps the rows that matches may need (`matched_rows`). It stores live
matches (`stored`), and creates output rows from complete matches (`matches`)."""
