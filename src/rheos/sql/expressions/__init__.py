"""Expressions of SQL as expressions of Polars, each with its type.

For each kind of expression, a module here registers a function by the class of the node: with
`@computes(...)` if it reads the node itself, with `@function(...)` if it takes compiled arguments. An
unknown node or argument is refused at its place.
"""

from rheos.sql.expressions import (
    array_functions,
    arrays,
    bits,
    calendars,
    casts,
    checks,
    choices,
    comparisons,
    encodings,
    formatted,
    hashes,
    intervals,
    json_functions,
    json_standard,
    lambdas,
    literals,
    maps,
    masks,
    mathematics,
    nested_values,
    number_functions,
    operators,
    pattern_matches,
    patterns,
    text_parts,
    texts,
    time_formats,
    time_zones,
    times,
    variant_functions,
)
from rheos.sql.expressions.table import NAMED as NAMED

MODULES = (
    array_functions,
    arrays,
    bits,
    calendars,
    casts,
    checks,
    choices,
    comparisons,
    encodings,
    formatted,
    hashes,
    intervals,
    json_functions,
    json_standard,
    lambdas,
    literals,
    maps,
    masks,
    mathematics,
    nested_values,
    number_functions,
    operators,
    pattern_matches,
    patterns,
    text_parts,
    texts,
    time_formats,
    time_zones,
    times,
    variant_functions,
)
"""Modules that register expressions."""
