"""Effects on stored values if their declared type has changed.

Pure, on shapes. The rules follow `state/codec.py`: values are MessagePack, read strictly by the type
that is declared now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from rheos.core.checkpoint.column_changes import wider_number
from rheos.core.protocol.shapes import FieldShape, TypeShape


class Verdict(Enum):
    """Result of comparing two types, in the order of severity."""

    SAME = "same"
    NEW = "new"
    """The state is declared but not stored: it starts empty."""
    MIGRATES = "migrates"
    """The stored values can be read with the current declaration; nothing is lost."""
    DROPPED = "dropped"
    """The values are stored, but the program does not declare them any more."""
    UNREADABLE = "unreadable"
    """The values cannot be read with the current declaration, or would be misread."""

    @property
    def gravity(self) -> int:
        return _GRAVITY[self]


_GRAVITY = {verdict: place for place, verdict in enumerate(Verdict)}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two types."""

    path: str
    """Path inside the type: "inner.tags[]"; empty for the type itself."""
    verdict: Verdict
    text: str
    rewrites: bool = False
    """Whether the value has other bytes when it is written again."""
    fix: str = ""
    """Advice for this change, in addition to the advice for all changes of its kind."""


_ANY = ("object", "Any")

_RECORDS = ("dataclass", "struct", "typed dict")
"""Types that are written as maps from the names of their fields."""
_BY_PLACE = ("named tuple", "array struct")
_SEQUENCES = ("list", "tuple")
_SETS = ("set", "frozenset")
_DICTS = ("dict", "frozendict")
_BYTES = ("bytes", "bytearray", "memoryview")
_CHOICES = ("enum", "literal")
_QUOTES = "'\""
"""Quotes in which strings are shown."""

_WIDER = {("int", "float"), ("int", "decimal"), ("float", "decimal")}
_AS_TEXT = ("date", "time", "timedelta", "decimal", "uuid")


def changes(old: TypeShape, new: TypeShape, path: str = "") -> list[Change]:
    """Return how values of `old` are read as `new`; empty if they are read unchanged."""
    if old == new:
        return []
    if "pickle" in (old.name, new.name):
        return _pickled(old, new, path)
    if "union" in (old.name, new.name):
        return _unions(old, new, path)
    if old.name in _RECORDS and new.name in _RECORDS:
        return _records(old, new, path)
    if old.name in _BY_PLACE and old.name == new.name:
        return _by_place(old, new, path)
    if old.name in _CHOICES:
        return _choices(old, new, path)
    if old.name == new.name == "row":
        return _rows(old, new, path)
    if old.name == new.name == "recursive":
        return []
    made = _containers(old, new, path)
    return _simple(old, new, path) if made is None else made


def described(shape: TypeShape) -> str:
    """Return a type on one line, as a user would write it."""
    match shape.name:
        case "union":
            return " | ".join(map(described, sorted(shape.args, key=lambda arg: arg.name == "none")))
        case "none":
            return "None"
        case "literal":
            return f"Literal[{', '.join(shape.members)}]"
        case "fixed tuple":
            return f"tuple[{', '.join(map(described, shape.args))}]"
        case "tuple":
            return f"tuple[{described(shape.args[0])}, ...]"
        case _ if shape.label:
            return shape.label
        case _:
            args = f"[{', '.join(map(described, shape.args))}]" if shape.args else ""
            limits = f" ({', '.join(shape.members)})" if shape.members else ""
            return f"{shape.name}{args}{limits}"


def _unreadable(old: TypeShape, new: TypeShape, path: str) -> list[Change]:
    text = f"was {described(old)}, is now {described(new)}"
    if described(old) == described(new):
        text = f"was {old.name} {described(old)}, is now {new.name} {described(new)}"
    return [Change(path, Verdict.UNREADABLE, text)]


def _widened(old: TypeShape, new: TypeShape, path: str, *, rewrites: bool = False) -> Change:
    return Change(path, Verdict.MIGRATES, f"{described(old)} is read as {described(new)}", rewrites)


def _readable(found: Sequence[Change]) -> bool:
    return all(change.verdict is not Verdict.UNREADABLE for change in found)


def _pickled(old: TypeShape, new: TypeShape, path: str) -> list[Change]:
    if old.name == new.name and new.label in _ANY:
        return [_widened(old, new, path)]
    if old.name == new.name:
        return _unreadable(old, new, path)
    was, now = ("pickled", "is not") if old.name == "pickle" else ("not pickled", "is")
    text = f"was {described(old)} ({was}), is now {described(new)}, which {now}"
    return [Change(path, Verdict.UNREADABLE, text)]


# --- unions -----------------------------------------------------------------------------------------


def _unions(old: TypeShape, new: TypeShape, path: str) -> list[Change]:
    there = [part for m in (old.args if old.name == "union" else [old]) for part in _parts(m)]
    allowed = new.args if new.name == "union" else [new]
    found: list[Change] = []
    taken: list[TypeShape] = []
    for member in there:
        best, how = _best(member, allowed, path)
        if best is None:
            gone = f"{described(member)} is no longer allowed: is now {described(new)}"
            return [Change(path, Verdict.UNREADABLE, gone)]
        taken.append(best)
        found += how
    gained = [member for member in allowed if member not in taken]
    if gained:
        text = f"may now also be {' or '.join(map(described, gained))}"
        found.append(Change(path, Verdict.MIGRATES, text))
    return found


def _parts(shape: TypeShape) -> list[TypeShape]:
    """Split a literal of strings and numbers, which has two encodings, into one type for each."""
    forms = _form(shape)
    if len(forms) == 1:
        return [shape]
    return [
        TypeShape(
            name=shape.name,
            label=shape.label,
            members=[m for m in shape.members if is_text == (m[0] in _QUOTES)],
        )
        for is_text in (True, False)
    ]


def _best(
    member: TypeShape, allowed: Sequence[TypeShape], path: str
) -> tuple[TypeShape | None, list[Change]]:
    """Return the type of a union that reads the values of `member`, and the changes. A union has at
    most one type for each form of encoding, and that type reads all values of its form. Other types are
    compared only if the union has no type of the form."""
    alike = [other for other in allowed if _form(other) & _form(member)]
    options = [(other, changes(member, other, path)) for other in alike or allowed]
    if alike and len(alike) == 1 and member.name == alike[0].name:
        return options[0]
    readable = [option for option in options if _readable(option[1])]
    return min(readable, key=lambda option: len(option[1])) if readable else (None, [])


def _form(shape: TypeShape) -> set[str]:
    """Return the forms in which values of the type are encoded."""
    name = shape.name
    if name in _CHOICES:
        return {"str" if member[0] in _QUOTES else "int" for member in shape.members}
    for form, names in (
        ("map", (*_RECORDS, *_DICTS)),
        ("array", (*_BY_PLACE, *_SEQUENCES, *_SETS, "fixed tuple")),
        ("bytes", _BYTES),
    ):
        if name in names:
            return {form}
    return {"str"} if name in _AS_TEXT else {name}


# --- records ----------------------------------------------------------------------------------------


def _records(old: TypeShape, new: TypeShape, path: str) -> list[Change]:
    closed = "no further fields"
    if {*old.members} - {closed} != {*new.members} - {closed}:
        return _unreadable(old, new, path)
    before = {field.name: field for field in old.fields}
    after = {field.name: field for field in new.fields}
    found: list[Change] = []
    if old.label != new.label:
        if before and not before.keys() & after.keys():
            return _unreadable(old, new, path)
        found.append(Change(path, Verdict.MIGRATES, f"was called {old.label}, is now {new.label}"))
    elif old.name != new.name:
        text = f"{old.label} was a {old.name}, is now a {new.name}"
        found.append(Change(path, Verdict.MIGRATES, text))
    for name, field in before.items():
        here = _inside(path, name)
        if name in after:
            found += changes(field.type, after[name].type, here)
        elif closed in new.members:
            text = f"is missing, and {new.label} accepts no further fields"
            found.append(Change(here, Verdict.UNREADABLE, text))
        else:
            found.append(Change(here, Verdict.DROPPED, f"{new.label} no longer has it", rewrites=True))
    found += [_gained(field, path) for name, field in after.items() if name not in before]
    kept = [name for name in before if name in after]
    if kept != [name for name in after if name in before]:
        text = "the order of its fields has changed"
        found.append(Change(path, Verdict.MIGRATES, text, rewrites=True))
    return found


def column_changes(
    old: TypeShape,
    new: TypeShape,
    gone: Callable[[FieldShape], Change],
    gained: Callable[[FieldShape], Change],
    wider: Callable[[str, str], bool],
    path: str = "",
) -> list[Change]:
    """Return the differences of rows by column. `wider` tells if one type can be read as another."""
    before, after = ({field.name: field for field in shape.fields} for shape in (old, new))
    found = []
    for name, field in before.items():
        if name not in after:
            found.append(gone(field))
        elif (was := field.type.name) != (now := after[name].type.name):
            fits = wider(was, now)
            text = f"{was} is read as {now}" if fits else f"was {was}, is {now}"
            verdict = Verdict.MIGRATES if fits else Verdict.UNREADABLE
            found.append(Change(_inside(path, name), verdict, text))
    return found + [gained(field) for name, field in after.items() if name not in before]


def _rows(old: TypeShape, new: TypeShape, path: str) -> list[Change]:
    """Compare named rows, which store their columns: these must be exactly the expected ones."""

    def unreadable(text: str) -> Callable[[FieldShape], Change]:
        return lambda field: Change(_inside(path, field.name), Verdict.UNREADABLE, text)

    gone = unreadable("is missing, but stored rows have it")
    gained = unreadable("is new, and missing from stored rows")
    found = column_changes(old, new, gone, gained, wider_number, path)
    if not found:
        text = "the order of its columns has changed"
        found.append(Change(path, Verdict.UNREADABLE, text))
    return found


def _gained(field: FieldShape, path: str) -> Change:
    here = _inside(path, field.name)
    if field.required:
        text = "is new and has no default: stored values would lack it"
        fix = f"add a default to the new field {field.name!r}; stored values then receive it"
        return Change(here, Verdict.UNREADABLE, text, fix=fix)
    return Change(here, Verdict.MIGRATES, "is new: stored values get its default", rewrites=True)


def _by_place(old: TypeShape, new: TypeShape, path: str) -> list[Change]:
    names = [field.name for field in old.fields]
    kept = names[: len(new.fields)]
    if kept != [field.name for field in new.fields[: len(names)]] or old.members != new.members:
        text = f"fields of {new.label} are matched by position: new ones can only be added at the end"
        return [Change(path, Verdict.UNREADABLE, text)]
    found = []
    if old.label != new.label:
        found.append(Change(path, Verdict.MIGRATES, f"was called {old.label}, is now {new.label}"))
    for before, after in zip(old.fields, new.fields, strict=False):
        found += changes(before.type, after.type, _inside(path, before.name))
    for field in old.fields[len(new.fields) :]:
        here = _inside(path, field.name)
        if new.name == "array struct" and not new.members:
            found.append(Change(here, Verdict.DROPPED, f"{new.label} no longer has it", rewrites=True))
        else:
            text = f"{new.label} no longer has it, and requires exactly its own number of fields"
            found.append(Change(here, Verdict.UNREADABLE, text))
    return found + [_gained(field, path) for field in new.fields[len(names) :]]


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# --- all other types --------------------------------------------------------------------------------


def _choices(old: TypeShape, new: TypeShape, path: str) -> list[Change]:
    if new.name not in _CHOICES:
        plain = {new.name} == _form(old) and new.name in ("str", "int") and not new.members
        return [_widened(old, new, path)] if plain else _unreadable(old, new, path)
    gone = [member for member in old.members if member not in new.members]
    if gone:
        text = f"{described(new)} no longer has {', '.join(gone)}"
        return [Change(path, Verdict.UNREADABLE, text)]
    gained = [member for member in new.members if member not in old.members]
    if gained:
        text = f"{described(new)} also has {', '.join(gained)}"
        return [Change(path, Verdict.MIGRATES, text)]
    return [_widened(old, new, path)]


def _containers(old: TypeShape, new: TypeShape, path: str) -> list[Change] | None:
    """Compare containers; None if the two are not containers of one kind."""
    narrowed = _narrowed(old, new)
    if old.name in _DICTS and new.name in _DICTS:
        pairs = list(zip(old.args, new.args, (f"{path}[key]", f"{path}[]"), strict=True))
    elif old.name == new.name == "fixed tuple":
        if len(old.args) != len(new.args):
            return _unreadable(old, new, path)
        places = [f"{path}[{place}]" for place in range(len(old.args))]
        pairs = list(zip(old.args, new.args, places, strict=True))
    elif old.name == "fixed tuple" and new.name in _SEQUENCES:
        pairs = [(arg, new.args[0], f"{path}[{place}]") for place, arg in enumerate(old.args)]
    elif (old.name in (*_SEQUENCES, *_SETS) and new.name in _SEQUENCES) or (
        old.name in _SETS and new.name in _SETS
    ):
        pairs = [(old.args[0], new.args[0], f"{path}[]")]
    else:
        return None
    if narrowed:
        return _unreadable(old, new, path)
    found = [_widened(old, new, path)] if old.name != new.name else []
    for before, after, here in pairs:
        found += changes(before, after, here)
    return found


def _simple(old: TypeShape, new: TypeShape, path: str) -> list[Change]:
    if _narrowed(old, new) or new.name in _CHOICES:
        return _unreadable(old, new, path)
    if (old.name, new.name) in _WIDER:
        return [_widened(old, new, path, rewrites=True)]
    as_text = old.name in _AS_TEXT and new.name == "str"
    if old.name == new.name or as_text or (old.name in _BYTES and new.name in _BYTES):
        return [_widened(old, new, path)]
    return _unreadable(old, new, path)


def _narrowed(old: TypeShape, new: TypeShape) -> bool:
    """Return whether the new type has a constraint that the old type did not have."""
    return not {*new.members} <= {*old.members}


def found_by(found: Sequence[Change]) -> list[Change]:
    """Mark changes of the keys of a map as unreadable if they change the encoding: entries are found by
    the bytes of their keys."""
    return [
        replace(
            change,
            verdict=Verdict.UNREADABLE,
            text=f"{change.text}; but the keys of a map must keep their encoding",
        )
        if change.rewrites
        else change
        for change in found
    ]
