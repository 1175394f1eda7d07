"""A user's permissions for a changed program that starts from stored state, and renamed operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.errors import CheckpointError
from rheos.core.known_names import names_hint
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.state_config import NewAggregates

T = TypeVar("T")


@dataclass(frozen=True)
class Upgrade:
    """Options for stored state that does not fit a changed program."""

    allow_dropped: bool = False
    """Whether state may be dropped if the program does not use it."""
    new_aggregates: NewAggregates | None = None
    """Result of a new aggregate for open windows; None refuses the start."""
    renamed: Mapping[OperatorId, OperatorId] = field(default_factory=dict)
    """New ids of operators by their old ids."""


NOTHING_ALLOWED = Upgrade()


def under_new_ids(
    entry: CheckpointCompleted, renamed: Mapping[OperatorId, OperatorId], what: str
) -> CheckpointCompleted:
    """Return the checkpoint with renamed operators. Operators that already have the new id stay
    unchanged.

    Args:
        entry: A checkpoint or savepoint.
        renamed: New ids by old ids.
        what: The checkpoint's name in errors.

    Raises:
        CheckpointError: It has no operator of the old id, or already has one of the new id. Or a
            renamed sink has uncommitted output, which is found by the id under which it was staged.
    """
    known = set(entry.operators) | {handle.operator for handle in entry.handles}
    ids: dict[OperatorId, OperatorId] = {}
    for old, new in renamed.items():
        if old in known and (new in known or new in ids.values()):
            raise CheckpointError(
                f"{what} has both {old!r} and {new!r}: two operators cannot become one",
                hint=f"leave out --rename {old}={new}, or choose a new uid",
            )
        if old in known:
            ids[old] = new
        elif new not in known:
            raise CheckpointError(
                f"{what} has no operator {old!r} to rename to {new!r}",
                hint=names_hint(old, sorted(known), "its operators are"),
            )
    if not ids:
        return entry
    staged = sorted({one.operator for one in entry.committables} & ids.keys())
    if staged:
        raise CheckpointError(
            f"{what} lists uncommitted output of {', '.join(map(repr, staged))}, which the sink "
            "finds only by that id",
            hint="stop the unchanged job with a savepoint, which commits it, and start the changed "
            "program from there",
        )

    def of(operators: Mapping[OperatorId, T]) -> dict[OperatorId, T]:
        return {ids.get(operator, operator): value for operator, value in operators.items()}

    return msgspec.structs.replace(
        entry,
        operators=of(entry.operators),
        states=of(entry.states),
        targets=of(entry.targets),
        widths=of(entry.widths),
        handles=[
            msgspec.structs.replace(handle, operator=ids.get(handle.operator, handle.operator))
            for handle in entry.handles
        ],
    )
