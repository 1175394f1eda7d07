"""Converts the graph to the physical plan: chains, edges, operator ids, hidden columns.

`planner` makes the plan (`physical`), `two_phases` decides which windows are combined upstream, and
`pruning` which columns are read and sent. `explain` prints plans, `outline` describes them for the
dashboard.
"""
