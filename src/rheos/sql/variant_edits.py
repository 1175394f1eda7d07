"""Changes and parts of documents: VARIANT_SET, VARIANT_INSERT, VARIANT_DELETE, VARIANT_ARRAY_APPEND,
VARIANT_STRIP_NULLS, VARIANT_EXPLODE.

Each function returns a new value, and shares the unchanged parts with the given one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from rheos.core.operators.row_expressions import refusal
from rheos.sql.json_documents import Document, Members, parsed, written
from rheos.sql.json_paths import VariantPath
from rheos.sql.variants import canonical

MOST_PLACE = 100_000
"""Greatest index in a path at which an element is set. Missing elements before it become null."""


class MisfitError(ValueError):
    """A path that does not fit the document: a key of an array, or an index of an object."""


def edited(
    text: str, *others: str, edit: Callable[..., Document], call: str, tries: bool = False
) -> str | None:
    """Return the document as `edit` changes it, which receives it and the other documents.

    Args:
        text: The document.
        others: More documents, such as the value that is set.
        edit: The change.
        call: The call in the query.
        tries: Whether the result is null, not an error, if the path does not fit.

    Raises:
        ComputeError: the path does not fit the document.
    """
    try:
        return canonical(edit(parsed(text), *map(parsed, others)))
    except MisfitError as error:
        if tries:
            return None
        raise refusal(f"{call} {error}", "use its form TRY_..., which returns NULL") from None


def _misfit(step: str | int) -> MisfitError:
    what, of = ("key", "an object") if isinstance(step, str) else ("index", "an array")
    return MisfitError(f"applies the {what} {step!r} of its path to a value that is not {of}")


def _child(value: Document, step: str | int) -> tuple[int, bool]:
    """Return the place of a member or element, and whether it exists. Raise MisfitError."""
    match value, step:
        case Members(), str():
            found = (place for place, (key, _) in enumerate(value.pairs) if key == step)
            place = next(found, len(value.pairs))
            return place, place < len(value.pairs)
        case list(), int():
            return step, step < len(value)
    raise _misfit(step)


def _child_at(value: Document, place: int) -> Document:
    """Return the member or element at a place."""
    if isinstance(value, Members):
        member: Document = value.pairs[place][1]
        return member
    assert isinstance(value, list)
    element: Document = value[place]
    return element


def _replaced(value: Document, place: int, step: str | int, child: Document) -> Document:
    """Return an object or array with another child. Arrays are filled with nulls up to its place."""
    if isinstance(value, Members):
        assert isinstance(step, str)
        return Members([*value.pairs[:place], (step, child), *value.pairs[place + 1 :]])
    assert isinstance(value, list)
    return [*_filled(value, place)[:place], child, *value[place + 1 :]]


def _filled(value: list[Document], count: int) -> list[Document]:
    return value + [None] * (count - len(value))


def _created(path: VariantPath, value: Document) -> Document:
    """Return the objects and arrays along a path that lead to a value."""
    for step in reversed(path):
        value = Members([(step, value)]) if isinstance(step, str) else [*_filled([], step), value]
    return value


def set_at(value: Document, new: Document, *, path: VariantPath, creates: bool = True) -> Document:
    """Return the document with another value at a path. A missing path is created, if wanted."""
    step, *rest = path
    place, exists = _child(value, step)
    if exists:
        made = set_at(_child_at(value, place), new, path=tuple(rest), creates=creates) if rest else new
    elif creates:
        made = _created(tuple(rest), new)
    else:
        return value
    return _replaced(value, place, step, made)


def insert_at(value: Document, new: Document, *, path: VariantPath) -> Document:
    """Return the document with a new member, or a new element before the one at the index. Raise
    MisfitError if the member exists."""
    step, *rest = path
    place, exists = _child(value, step)
    if not exists:
        return _replaced(value, place, step, _created(tuple(rest), new))
    if rest:
        return _replaced(value, place, step, insert_at(_child_at(value, place), new, path=tuple(rest)))
    if isinstance(value, Members):
        raise MisfitError(f"inserts the key {step!r}, which the object has")
    assert isinstance(value, list)
    return [*value[:place], new, *value[place:]]


def append_at(value: Document, new: Document, *, path: VariantPath) -> Document:
    """Return the document with a value after the others of the array at a path, if there is one."""
    if not path:
        if not isinstance(value, list):
            raise MisfitError("appends to a value that is not an array")
        return [*value, new]
    step, *rest = path
    place, exists = _child(value, step)
    if not exists:
        return value
    return _replaced(value, place, step, append_at(_child_at(value, place), new, path=tuple(rest)))


def delete_at(value: Document, *, paths: tuple[VariantPath, ...]) -> Document:
    """Return the document without the values at these paths, which are deleted one after another."""
    for path in paths:
        with contextlib.suppress(MisfitError):
            value = _delete_at(value, path)
    return value


def _delete_at(value: Document, path: VariantPath) -> Document:
    step, *rest = path
    place, exists = _child(value, step)
    if not exists:
        return value
    if rest:
        return _replaced(value, place, step, _delete_at(_child_at(value, place), tuple(rest)))
    if isinstance(value, Members):
        return Members([*value.pairs[:place], *value.pairs[place + 1 :]])
    assert isinstance(value, list)
    return [*value[:place], *value[place + 1 :]]


def strip_nulls(value: Document, *, arrays: bool = True) -> Document:
    """Return the document without members that are null; with `arrays`, also without such elements."""
    match value:
        case Members():
            kept = [
                (key, strip_nulls(each, arrays=arrays)) for key, each in value.pairs if each is not None
            ]
            return Members(kept)
        case list():
            return [
                strip_nulls(each, arrays=arrays) for each in value if each is not None or not arrays
            ]
    return value


def children(text: str) -> list[dict[str, object]]:
    """Return the members of an object, or the elements of an array, as VARIANT_EXPLODE does."""
    match parsed(text):
        case Members(pairs):
            named = pairs
        case list() as elements:
            named = [(None, each) for each in elements]  # type: ignore[misc]
        case _:
            return []
    return [
        {"pos": place, "key": key, "value": {"variant": written(each)}}
        for place, (key, each) in enumerate(named)
    ]
