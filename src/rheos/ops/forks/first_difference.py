"""The first operator whose rows differ between two programs, in the order of the plan.

The operators upstream of it emit equal rows. So the change begins to matter there, or upstream of it
in an operator that only one program has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rheos.core.errors import Site
from rheos.core.graph.nodes import MAIN
from rheos.core.protocol.ids import OperatorId
from rheos.ops.forks.difference import OutputDifference, difference
from rheos.ops.forks.side import ObservedOutputs


@dataclass(frozen=True)
class FirstDifference:
    """The first operator that emits other rows in the changed program, or sink that receives others."""

    operator: str
    """Name of the operator."""
    site: Site
    """Its line in the changed program."""
    tag: str
    """Tag of the side output; empty for the main output."""
    output: OutputDifference
    """The difference of the operator's rows, of which there is at least one."""

    def __str__(self) -> str:
        side = "" if self.tag == MAIN else f", side output {self.tag!r}"
        return f"{self.site}: operator {self.operator!r}{side}"


def first_difference(
    old: ObservedOutputs, new: ObservedOutputs, renamed: Mapping[OperatorId, OperatorId]
) -> FirstDifference | None:
    """Return the first difference of the operators that both programs have.

    Args:
        old: rows of the running program's operators.
        new: rows of the changed program's operators, in the order of its plan.
        renamed: new ids of operators by their old ids.

    Returns:
        The difference; None if the rows of all these operators are equal in the columns that both have.
    """
    before = {(renamed.get(id, id), tag): output for (id, tag), output in old.items()}
    for (id, tag), after in new.items():
        output = before.get((id, tag))
        if output is None or output.of.spec.kind != after.of.spec.kind:
            continue
        known = set(output.rows.column_names) & set(after.rows.column_names)
        key = after.key if known.issuperset(after.key) else ()
        found = difference(after.of.name, key, output.rows, after.rows)
        if found.rows.height:
            return FirstDifference(after.of.name, after.of.site, tag, found)
    return None
