"""The logical graph: frozen nodes and descriptors, before the planner places them.

`nodes` has the graph and its nodes, `types` the types of streams, `validate` the checks over the
whole graph. Descriptors declare what users configure: `windows`, `triggers`, `evictors`, `state`,
`patterns`, `functions`. Expressions are Polars expressions: `expression_trees` reads their structure,
`row_functions` and `float_division` replace functions whose result would depend on the batch, and
`exact_decimals` (with `decimal_kernels`, `decimal_columns`, `decimal_types`) computes decimals with
Spark's result types.
"""
