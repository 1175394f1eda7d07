"""Expressions of SQL as expressions of Polars, each with its type.

A kind of expression is a function in one of the modules here, registered by the class of its node:
`@computes(...)` for what looks at its node itself, `@function(...)` for functions of arguments. A node
that nobody has registered, and an argument that its function does not know, is refused at its place.
"""

from rheos.sql.expressions import (
    arrays,
    casts,
    choices,
    comparisons,
    literals,
    mathematics,
    nested_values,
    operators,
    patterns,
    texts,
    times,
)

MODULES = (
    arrays,
    casts,
    choices,
    comparisons,
    literals,
    mathematics,
    nested_values,
    operators,
    patterns,
    texts,
    times,
)
"""Modules that register expressions."""
