"""Map columns in JSON: objects whose keys are those of the map, such as {"a": 1, "b": 2}.

Arrow decodes a list of entries instead, {"key": "a", "value": 1}. So payloads whose schema has maps are
rewritten first. All other values stay as they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from rheos.core.formats.payloads import JoinedPayloads

NOT_ONE_OBJECT = "it is not a single complete JSON object"
_Convert: TypeAlias = Callable[[Any], Any]


def has_maps(type_: pa.DataType) -> bool:
    """Return whether a type is a map, or has one within."""
    inner = [type_.field(i).type for i in range(type_.num_fields)]
    return pa.types.is_map(type_) or any(map(has_maps, inner))


def with_entries(type_: pa.DataType) -> pa.DataType:
    """Return the type with lists of entries instead of maps."""
    if not has_maps(type_):
        return type_
    if pa.types.is_map(type_):
        key, value = type_.key_field, type_.item_field
        entry = [key.with_name("key"), value.with_name("value").with_type(with_entries(value.type))]
        return pa.list_(pa.struct(entry))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(with_entries(type_.value_type)))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(with_entries(field.type)) for field in type_])
    return type_


class MapObjects:
    """Rewriting of the objects of map columns as lists of entries."""

    def __init__(self, schema: pa.Schema) -> None:
        self._is_needed = any(map(has_maps, schema.types))
        self._decoder = msgspec.json.Decoder(_struct(list(schema)))
        self._convert = _fields_converter(list(schema))
        self._encoder = msgspec.json.Encoder()

    def rewritten(self, payloads: JoinedPayloads) -> tuple[JoinedPayloads, dict[int, str]]:
        """Return the payloads with entries, and the errors by index for those that stay as they are."""
        if not self._is_needed:
            return payloads, {}
        made, unfit = [], {}
        for at in range(len(payloads)):
            payload = payloads[at]
            try:
                payload = self._encoder.encode(self._convert(self._decoder.decode(payload)))
            except msgspec.ValidationError as error:
                is_map = "$" in str(error)
                unfit[at] = f"{error}: a map must be an object" if is_map else NOT_ONE_OBJECT
            except (msgspec.MsgspecError, ValueError, RecursionError):
                unfit[at] = NOT_ONE_OBJECT
            made.append(payload)
        data = b"".join(b"%b\n" % payload for payload in made)
        starts = np.concatenate(
            ([0], np.cumsum([len(payload) + 1 for payload in made], dtype=np.int64))
        )
        return JoinedPayloads(pa.py_buffer(data), starts), unfit


class _Entry(msgspec.Struct, gc=False):
    key: str
    value: Any


def _struct(fields: Sequence[pa.Field]) -> Any:
    """Return the class of objects with these fields; those without maps stay as they are written."""
    made = [
        (f"f{i}", _decoded(field.type) | msgspec.UnsetType, msgspec.UNSET)
        for i, field in enumerate(fields)
    ]
    names = {f"f{i}": field.name for i, field in enumerate(fields)}
    return msgspec.defstruct("MapObject", made, rename=names, omit_defaults=True, gc=False)


def _decoded(type_: pa.DataType) -> Any:
    if pa.types.is_map(type_):
        return dict[str, _decoded(type_.item_type)] | None  # type: ignore[misc]
    if not has_maps(type_):
        return msgspec.Raw
    if pa.types.is_struct(type_):
        return _struct(list(type_)) | None
    return list[_decoded(type_.value_type)] | None  # type: ignore[misc]


def _fields_converter(fields: Sequence[pa.Field]) -> _Convert:
    converters = [
        (f"f{i}", _converter(field.type)) for i, field in enumerate(fields) if has_maps(field.type)
    ]

    def convert(value: Any) -> Any:
        for name, inner in converters:
            setattr(value, name, inner(getattr(value, name)))
        return value

    return convert


def _converter(type_: pa.DataType) -> _Convert:
    """Return what converts the maps within a decoded value to lists of entries."""
    if not has_maps(type_):
        return lambda value: value
    if pa.types.is_struct(type_):
        return _unless_missing(_fields_converter(list(type_)))
    if pa.types.is_map(type_):
        of_value = _converter(type_.item_type)
        return _unless_missing(lambda value: [_Entry(key, of_value(one)) for key, one in value.items()])
    of_element = _converter(type_.value_type)
    return _unless_missing(lambda value: [*map(of_element, value)])


def _unless_missing(convert: _Convert) -> _Convert:
    return lambda value: value if value is None or value is msgspec.UNSET else convert(value)
