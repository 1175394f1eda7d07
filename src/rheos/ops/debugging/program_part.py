"""Parts of a program that run alone, without sources and sinks, in a test of an incident."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from rheos.core.operators.contract import Out
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import visible
from rheos.ops.debugging.debugged_key import KeyOfOperator
from rheos.ops.debugging.deliveries import Delivery, deliver
from rheos.ops.debugging.recorded_lookups import UsedAnswers
from rheos.ops.debugging.replica import KeyBeginning, Replica

Deliver: TypeAlias = Callable[[Delivery], Iterator[Out]]
"""Function that passes a delivery to the part, and yields what the part emits."""


@dataclass(frozen=True)
class PartInput:
    """An input of a part of a program."""

    name: str
    """Name of the input in a timeline; empty for the only input."""
    schema: pa.Schema
    """Columns of its rows, with hidden ones."""


class ProgramPart(ABC):
    """A part of a program that can run alone. `running` starts it anew each time."""

    @property
    @abstractmethod
    def planned(self) -> PlannedOperator:
        """Operator whose rows are the output of the part."""

    @property
    @abstractmethod
    def inputs(self) -> Sequence[PartInput]:
        """Inputs, by the number that a delivery names as its port."""

    @property
    @abstractmethod
    def outputs(self) -> Mapping[str, pa.Schema]:
        """Visible columns of the output by tag; the main output has an empty tag."""

    @abstractmethod
    def running(self) -> AbstractContextManager[Deliver]:
        """Run the part in the block, from its beginning.

        Raises:
            RheosError: A function cannot be opened.
        """

    @property
    def label(self) -> str:
        """Description of the part in a sentence."""
        return f"operator {self.planned.name!r}"

    @property
    def verbs(self) -> tuple[str, str]:
        """Verbs for a row that is part of the output, and for one that is not."""
        return "emits", "does not emit"

    @property
    def has_state(self) -> bool:
        """Whether the part begins with state."""
        return False

    @property
    def lookup_answers(self) -> Sequence[UsedAnswers]:
        """Answers of lookups that the last run has used."""
        return ()

    def stateless(self) -> ProgramPart:
        """Return the same part, which begins without state."""
        return self

    def with_key(self, value_of: Callable[[str, Any], Any]) -> ProgramPart:
        """Return the same part for another key.

        Args:
            value_of: Function that returns the new value of a column of the key. It receives the name
                of the column and its value.
        """
        return self


@dataclass(frozen=True)
class KeyPart(ProgramPart):
    """One operator, for one key."""

    plan: PhysicalPlan
    keyed: KeyOfOperator
    begins: KeyBeginning

    @property
    def planned(self) -> PlannedOperator:
        return self.keyed.planned

    @property
    def inputs(self) -> Sequence[PartInput]:
        schemas = [port.schema for port in self.planned.ports]
        if len(schemas) == 1:
            return [PartInput("", schemas[0])]
        return [PartInput(f"in{number}", schema) for number, schema in enumerate(schemas)]

    @property
    def outputs(self) -> Mapping[str, pa.Schema]:
        return {tag: visible(of.schema) for tag, of in self.planned.outputs.items()}

    @contextlib.contextmanager
    def running(self) -> Iterator[Deliver]:
        with contextlib.closing(Replica(self.keyed, self.plan, self.begins)) as replica:
            yield partial(deliver, replica.operator)

    @property
    def has_state(self) -> bool:
        return any(map(_has_rows, self.begins.state.values()))

    def stateless(self) -> ProgramPart:
        return replace(self, begins=replace(self.begins, state={}))

    def with_key(self, value_of: Callable[[str, Any], Any]) -> ProgramPart:
        parts = tuple(value_of(name, value) for name, value in self.keyed.values.items())
        key = parts[0] if len(parts) == 1 else parts
        return replace(self, keyed=KeyOfOperator(self.planned, key))


def _has_rows(tables: Iterable[pa.Table]) -> bool:
    return any(table.num_rows for table in tables)
