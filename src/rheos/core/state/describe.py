"""The shape of a declared type, as detailed as the encoding of its values."""

from __future__ import annotations

from typing import Any

from msgspec import inspect

from rheos.core.protocol.shapes import FieldShape, TypeShape
from rheos.core.state.codec import ValueCodec, shown

_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "tz")
"""Constraints of a type, by msgspec's names."""

_RECORDS: dict[type[Any], str] = {
    inspect.DataclassType: "dataclass",
    inspect.StructType: "struct",
    inspect.TypedDictType: "typed dict",
    inspect.NamedTupleType: "named tuple",
}


def type_shape(state: str, declared: Any) -> TypeShape:
    """Return the shape of the values of a state. Raise SchemaError if they cannot be stored."""
    if ValueCodec(state, declared).pickled:
        return TypeShape(name="pickle", label=shown(declared))
    return _shape(inspect.type_info(declared), ())


def _shape(info: Any, around: tuple[type, ...]) -> TypeShape:
    """Return the shape of a type; `around` are the enclosing classes."""
    if isinstance(info, tuple(_RECORDS)):
        return _record(info, around)
    name = _name(info)
    match info:
        case inspect.EnumType(cls=cls):
            return TypeShape(name=name, label=cls.__name__, members=_texts(m.value for m in cls))
        case inspect.LiteralType(values=values):
            return TypeShape(name=name, members=_texts(values))
        case inspect.UnionType(types=types):
            members = sorted((_shape(kind, around) for kind in types), key=repr)
            return TypeShape(name=name, args=members)
        case inspect.TupleType(item_types=types):
            return TypeShape(name=name, args=[_shape(kind, around) for kind in types])
        case inspect.DictType(key_type=key, value_type=value):
            args = [_shape(key, around), _shape(value, around)]
            return TypeShape(name=name, args=args, members=_limits(info))
        case inspect.CollectionType(item_type=item):
            return TypeShape(name=name, args=[_shape(item, around)], members=_limits(info))
        case _:
            return TypeShape(name=name, members=_limits(info))


def _record(info: Any, around: tuple[type, ...]) -> TypeShape:
    cls = info.cls
    if cls in around:
        return TypeShape(name="recursive", label=cls.__name__)
    name = _RECORDS[type(info)]
    members = []
    if isinstance(info, inspect.StructType):
        name = "array struct" if info.array_like else name
        members += [f"tag {info.tag_field}={info.tag!r}"] if info.tag is not None else []
        members += ["no further fields"] if info.forbid_unknown_fields else []
    inside = (*around, cls)
    fields = [
        FieldShape(
            name=getattr(field, "encode_name", field.name),
            type=_shape(field.type, inside),
            required=field.required,
        )
        for field in info.fields
    ]
    return TypeShape(name=name, label=cls.__name__, fields=fields, members=members)


def _name(info: Any) -> str:
    """Return the name of a type: "int" for IntType, "var tuple" for VarTupleType."""
    text = type(info).__name__.removesuffix("Type")
    return {"VarTuple": "tuple", "Tuple": "fixed tuple"}.get(text, text.lower())


def _limits(info: Any) -> list[str]:
    there = [(name, getattr(info, name, None)) for name in _LIMITS]
    return [f"{name}={value}" for name, value in there if value is not None]


def _texts(values: Any) -> list[str]:
    return sorted(map(repr, values))
