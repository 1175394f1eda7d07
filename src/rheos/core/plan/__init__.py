"""Converts the graph to the physical plan: chains, edges, operator ids, hidden columns.

`planner` makes the plan (`physical`), `two_phases` decides which windows are combined upstream, and
`columns_read` which columns of sources are needed. `explain` prints plans, `outline` describes them for
the dashboard.
"""
