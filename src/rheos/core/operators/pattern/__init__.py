"""Patterns of rows: compiled to an automaton (`automaton`), which a matcher moves key by key
(`matcher`, `alive`); both are pure. The operator (`operator`) computes conditions for whole batches
(`conditions`), keeps the rows that matches may need (`matched_rows`), stores what is alive (`stored`),
and makes rows of what was found (`matches`)."""
