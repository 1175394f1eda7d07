"""Renames the variables of a comprehension, so that it can become a loop of the method."""

from __future__ import annotations

import ast
import copy
from typing import TypeVar

_Comprehension = TypeVar("_Comprehension", bound=ast.ListComp | ast.GeneratorExp)


def with_own_names(node: _Comprehension) -> _Comprehension:
    """Return a comprehension whose variables have names that occur nowhere else in the method. Its
    first iterable stays as it is, because Python evaluates that outside the comprehension."""
    targets = [each for part in node.generators for each in ast.walk(part.target)]
    names = {each.id for each in targets if isinstance(each, ast.Name)}
    made = copy.deepcopy(node)
    for each in ast.walk(made):
        if isinstance(each, ast.Name) and each.id in names:
            each.id = f"{each.id}_of_{node.lineno}_{node.col_offset}"
    made.generators[0].iter = node.generators[0].iter
    return made
