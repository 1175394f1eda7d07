"""Expressions of SQL as expressions of Polars, each with its type.

A kind of expression is a function in one of the modules here, registered by the class of its node:
`@computes(...)` for what looks at its node itself, `@function(...)` for functions of arguments. A node
that nobody has registered, and an argument that its function does not know, is refused at its place.
"""

from rheos.sql.expressions import (
    arrays,
    bits,
    casts,
    choices,
    comparisons,
    encodings,
    literals,
    mathematics,
    nested_values,
    number_functions,
    operators,
    pattern_matches,
    patterns,
    text_parts,
    texts,
    times,
)
from rheos.sql.expressions.table import NAMED as NAMED

MODULES = (
    arrays,
    bits,
    casts,
    choices,
    comparisons,
    encodings,
    literals,
    mathematics,
    nested_values,
    number_functions,
    operators,
    pattern_matches,
    patterns,
    text_parts,
    texts,
    times,
)
"""Modules that register expressions."""
