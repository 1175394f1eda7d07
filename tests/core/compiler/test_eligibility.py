"""An unmarked function is compiled only if it is certain to have the results of the interpreted one."""

from __future__ import annotations

import linecache
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.compiler.eligibility import Refusal, compilable_methods
from rheos.core.compiler.kernel import Typing
from rheos.core.compiler.values import EmittedType
from rheos.core.protocol.types import schema_of

pytest.importorskip("numba")


@dataclass
class Event:
    user: int
    at: int


@dataclass
class Cleaned:
    user: int
    at: int

    def __post_init__(self) -> None:
        self.at = max(self.at, 0)


class Inherited(Event):
    def __init__(self, user: int, at: int) -> None:
        super().__init__(user, at + 1)


@dataclass
class Named(Event):
    @property
    def both(self) -> int:
        return self.user + self.at


class Limits:
    def __init__(self) -> None:
        self.least = 1

    @property
    def most(self) -> int:
        return 9


def traced(method: Any) -> Any:
    @wraps(method)
    def call(*given: Any) -> Any:
        return method(*given)

    return call


NAMES = {
    "rh": rh, "Event": Event, "Cleaned": Cleaned, "Inherited": Inherited, "Named": Named,
    "LIMITS": Limits(), "traced": traced, "STEPS": [3, 4], "BY_DEFAULT": defaultdict(int, {1: 2}),
    "HOUR": timedelta(hours=1), "__name__": __name__,
}  # fmt: skip


def class_of(text: str, shown: str | None = None) -> Any:
    """Return a function whose source is `shown`, by default the text that is executed."""
    source = text if shown is None else shown
    linecache.cache["<eligible>"] = (len(source), None, source.splitlines(keepends=True), "<eligible>")
    names = dict(NAMES)
    exec(compile(text, "<eligible>", "exec"), names)
    return names["Function"]


def examined(cls: Any, record: type | None = Event) -> str | None:
    schema = schema_of(Event)
    typing = Typing(schema, ("user",), record, True, {"": EmittedType(schema, None)})
    found = compilable_methods(cls(), typing)
    return str(found) if isinstance(found, Refusal) else None


def function(body: str, signature: str = "self, row, ctx", before: str = "") -> str:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return f"""
class Function(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=0)
{before}
    def process_element({signature}):
{lines}
"""


PLAIN = "yield {'user': row.user, 'at': row.at}"


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (function(PLAIN), None),
        (function("yield {'user': STEPS[-1], 'at': LIMITS.least}"), None),
        (function("return [Event(row.user, at=row.at)]"), None),
        (function("yield Event(rh.duration('5m'), rh.duration(HOUR))"), None),
        (function("yield Event(rh.duration('5 mn'), 1)"), "5 mn"),
        (function("yield Event(rh.duration(row.user), 1)"), "row.user is not a constant"),
        (function("yield {'user': row.user, 'at': LIMITS.most}"), "LIMITS.most cannot be compiled"),
        (function("yield {'user': row['user'], 'at': 1}"), "no field 'user'"),
        (function("yield Cleaned(row.user, row.at)"), "Cleaned() cannot be compiled"),
        (function("yield Inherited(row.user, row.at)"), "Inherited() cannot be compiled"),
        (function("yield Named(row.user, row.both)"), "no field 'both'"),
        (function(f"{PLAIN}\nreturn [Event(1, 2)]"), "returned by a generator"),
        (function("yield {'user': BY_DEFAULT[3], 'at': 1}"), "defaultdict, not a dict"),
        (function(PLAIN, before="    @traced"), "differs from the code"),
        (function("range = STEPS\nfor n in range(3):\n    yield Event(n, n)"), "cannot be compiled"),
        (
            function(
                "yield Event(row.user, self.most)", before="    most = property(lambda self: 3)\n"
            ),
            "self.most cannot be compiled",
        ),
    ],
)
def test_a_function_is_compiled_or_has_a_reason(text: str, refusal: str | None) -> None:
    found = examined(class_of(text))
    if refusal is None or found is None:
        assert found == refusal
    else:
        assert refusal in found


@pytest.mark.parametrize("record", [Cleaned, Inherited])
def test_records_whose_class_changes_them_are_not_compiled(record: type) -> None:
    assert "does more than set its fields" in (examined(class_of(function(PLAIN)), record) or "")


def test_the_source_must_be_that_of_the_code() -> None:
    ran, shown = function("yield Event(row.user, 1)"), function("yield Event(row.user, 2)")
    assert examined(class_of(ran)) is None
    assert "differs from the code" in (examined(class_of(ran, shown)) or "")
    assert "differs from the code" in (
        examined(class_of(function("x = lambda: 0\nyield Event(1, 1)"), shown)) or ""
    )


def test_a_replaced_method_is_not_compiled() -> None:
    cls = class_of(
        function(PLAIN, before="    def __init__(self):\n        self.process_element = print\n")
    )
    assert "replaced by an attribute" in (examined(cls) or "")


def test_closures_are_compiled() -> None:
    text = "def outer(least):\n" + function("yield Event(row.user, least)").replace("\n", "\n    ")
    cls = class_of(f"{text}\n    return Function\nFunction = outer(3)\n")
    assert examined(cls) is None


def test_nothing_is_compiled_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rheos.core.compiler.eligibility.find_spec", lambda name: None)
    assert (
        examined(class_of(function(PLAIN))) == "no compiler is installed: pip install 'rheos[compiled]'"
    )


def test_columns_that_are_no_attributes_are_not_read_as_such() -> None:
    schema = pa.schema([("user", pa.int64()), ("_at", pa.int64())])
    typing = Typing(schema, ("user",), None, False, {})
    found = compilable_methods(class_of(function("self.n.value = row._at"))(), typing)
    assert "no field '_at'" in str(found)
