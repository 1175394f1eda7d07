"""Checks whether the columns of sinks' targets are still those that a checkpoint recorded.

While the job is stopped, other programs may alter a table, to whose old form staged output and the
program's rows were fitted. Pure; part of CP22.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rheos.core.errors import UnrestorableError
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.shapes import TypeShape

Targets = Mapping[OperatorId, TypeShape]
"""Name, columns and types of the target, by sink."""
_WIDENED = (("int8", "int16", "int32", "int64"), ("float", "double"))
"""Types of Arrow, each of which has the values of those before it."""
_DECIMAL = re.compile(r"decimal128\((\d+), (-?\d+)\)")


def target_refusal(
    old: Targets, new: Targets, names: Mapping[OperatorId, str], since: str
) -> UnrestorableError | None:
    """Return why a job cannot continue to write to a changed target; None if it can. `since` names the
    checkpoint or savepoint."""
    for operator, before in old.items():
        after = new.get(operator)
        if after is None or after.label != before.label:
            continue  # The program now writes to another target.
        changes = _changes(before, after)
        if changes:
            return UnrestorableError(
                f"{before.name} {before.label} has changed since {since}: {'; '.join(changes)}",
                operator=names.get(operator, operator),
                hint=f"change the {before.name} back; or, if the program has changed too, give the "
                "sink a new uid, so that it starts over",
            )
    return None


def _changes(old: TypeShape, new: TypeShape) -> list[str]:
    """Return the changes that prevent writing. A new nullable column does not, and neither does a wider
    type of the same kind: staged rows fit it."""
    before = {field.name: field for field in old.fields}
    after = {field.name: field for field in new.fields}
    found = []
    for name, was in before.items():
        now = after.get(name)
        if now is None:
            found.append(f"column {name!r} ({was.type.name}) is missing")
        elif now.type.name != was.type.name and not _is_widened(was.type.name, now.type.name):
            found.append(f"column {name!r} was {was.type.name}, and is now {now.type.name}")
        elif now.required and not was.required:
            found.append(f"column {name!r} ({was.type.name}) was nullable, and is now NOT NULL")
    for name, now in after.items():
        if name not in before and now.required:
            found.append(f"column {name!r} ({now.type.name}) is new, and NOT NULL")
    return found


def _is_widened(old: str, new: str) -> bool:
    for types in _WIDENED:
        if old in types and new in types:
            return types.index(old) < types.index(new)
    before, after = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if before is None or after is None:
        return False
    return before[2] == after[2] and int(before[1]) < int(after[1])
