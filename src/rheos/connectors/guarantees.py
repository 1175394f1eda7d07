"""Guarantees of a connector: what its sink is registered with, and what its source's class can do."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from rheos.connectors.registration import ConnectorRegistration
from rheos.core.connectors.capabilities import (
    Discovers,
    HasDataFrame,
    KnowsSplitValues,
    LosesRows,
    PrunesColumns,
    StoresParquet,
    has_members,
)


@dataclass(frozen=True)
class Guarantees:
    """Promises of one connector, in the words that users read."""

    reads_again: str
    """Whether a failure loses no row, since the source can be read again from a position."""
    finds_splits: str
    """Whether the source finds splits that appear while the job runs."""
    pushes_down: str
    """Parts of the input that the source leaves out because the program does not need them."""
    delivers: str
    """Guarantee of the sink: exactly once, for example; and the arguments that choose a weaker one."""


def made_classes(registration: ConnectorRegistration, what: str) -> tuple[type, ...]:
    """Return the classes of which one of a connector's functions creates objects.

    Args:
        registration: The connector.
        what: A key of `registration.functions`, such as "source".

    Returns:
        The classes that the function declares; none if it declares none.
    """
    function = registration.function(what)
    made: Any = function if inspect.isclass(function) else get_type_hints(function).get("return")
    named = get_args(made) if get_origin(made) in (Union, UnionType) else (made,)
    return tuple(each for each in named if inspect.isclass(each))


def is_able(made: tuple[type, ...], capability: type) -> bool:
    """Return whether objects of one of these classes have a capability.

    Args:
        made: The classes that `made_classes` returned.
        capability: A protocol of `rh.connectors`.

    Returns:
        Whether one of them has its members.
    """
    return any(has_members(each, capability) for each in made)


def guarantees_of(registration: ConnectorRegistration) -> Guarantees:
    """Return what a connector guarantees. An empty text is no promise.

    Args:
        registration: The connector. The modules of its functions are imported.

    Returns:
        Its guarantees.
    """
    delivers = ", or ".join(
        f"{delivery} with {arguments}" if arguments else delivery
        for delivery, arguments in registration.deliveries.items()
    )
    reads = next((what for what in ("source", "changes") if what in registration.functions), None)
    made = () if reads is None else made_classes(registration, reads)
    if not made:
        return Guarantees("", "", "", delivers)
    able = {
        "columns": is_able(made, PrunesColumns),
        "splits": is_able(made, KnowsSplitValues),
        "to Spark": is_able(made, HasDataFrame) or is_able(made, StoresParquet),
    }
    return Guarantees(
        "not always" if is_able(made, LosesRows) else "yes",
        "yes" if is_able(made, Discovers) else "no",
        ", ".join(what for what, does in able.items() if does),
        delivers,
    )
