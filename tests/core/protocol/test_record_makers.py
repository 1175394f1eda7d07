"""Fast construction of a dataclass equals that by its own `__init__`, for any dataclass."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

import pytest

from rheos.core.protocol.record_makers import maker_of


@dataclass
class Plain:
    a: int
    b: str = "b"


@dataclass(frozen=True)
class Frozen:
    a: int
    b: str = "b"
    of_all: ClassVar[int] = 7


@dataclass(frozen=True, slots=True)
class Slotted:
    a: int
    b: str = "b"


@dataclass(frozen=True)
class Derived(Frozen):
    values: int = 1
    """Names in the generated function are no matter."""
    new: int = 2


@dataclass(frozen=True, kw_only=True)
class ByName:
    a: int
    b: str = "b"


@dataclass(frozen=True)
class Checked:
    a: int
    b: str = "b"

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", self.b.upper())


@dataclass(frozen=True)
class WithDefaults:
    a: int
    b: str
    made: list[int] = field(default_factory=list, init=False)


@dataclass(frozen=True)
class Counted:
    a: int
    b: str

    def __new__(cls, *values: Any, **named: Any) -> Counted:
        self = object.__new__(cls)
        object.__setattr__(self, "born", True)
        return self


class Written(Frozen):
    """Subclass that is not a dataclass itself: the inherited `__init__` is called."""

    def __init__(self, a: int, b: str) -> None:
        super().__init__(a * 2, b)


class Slot:
    __slots__ = ("a",)


@dataclass(frozen=True)
class PartlySlotted(Slot):
    a: int
    b: str = "b"


@dataclass(frozen=True)
class Given:
    a: int
    b: InitVar[str] = "b"


@dataclass(frozen=True)
class Empty:
    pass


KINDS = [Plain, Frozen, Slotted, ByName, Checked, WithDefaults, Counted, Written, PartlySlotted]


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_equals_that_of_init(kind: Any) -> None:
    made = maker_of(kind)(1, "x")
    assert made == kind(a=1, b="x")
    assert type(made) is kind
    assert [getattr(made, f.name) for f in dataclasses.fields(made)] == [
        getattr(kind(a=1, b="x"), f.name) for f in dataclasses.fields(kind)
    ]
    assert getattr(made, "born", None) == getattr(kind(a=1, b="x"), "born", None)


@pytest.mark.parametrize("kind", [Frozen, Slotted, ByName, Derived])
def test_frozen_records_stay_frozen(kind: Any) -> None:
    values = [1, "x", 3, 4][: len(dataclasses.fields(kind))]
    made = maker_of(kind)(*values)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.a = 2
    assert hash(made) == hash(copy.copy(made))
    assert pickle.loads(pickle.dumps(made)) == made
    assert dataclasses.replace(made, a=5).a == 5
    assert dataclasses.astuple(made) == tuple(values)


def test_init_is_skipped_only_if_it_does_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    for kind in (Plain, Frozen, Slotted, Checked, WithDefaults, Counted, PartlySlotted):
        before = kind.__init__

        def counting(self: Any, *values: Any, _before: Any = before, _kind: Any = kind) -> None:
            called.append(_kind)
            _before(self, *values)

        make = maker_of(kind)
        monkeypatch.setattr(kind, "__init__", counting)
        make(1, "x")
    assert called == [Plain, Checked, WithDefaults, Counted, PartlySlotted]


def test_classes_that_need_init_are_called() -> None:
    assert maker_of(Given) is Given
    assert maker_of(Empty)() == Empty()
