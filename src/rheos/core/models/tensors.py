"""Conversion between Arrow columns and the tensors of models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import InputError

KINDS: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int16)": np.int16,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}
"""Types of elements by the name of a tensor's type in ONNX Runtime."""


def matrix(columns: Sequence[pa.Array], kind: Any = np.float32) -> npt.NDArray[Any]:
    """Return columns as a matrix with a line for each row. A list has a column for each element. A null
    in floats is NaN.

    Raises:
        InputError: The lists of a column differ in length.
    """
    return np.concatenate([_lines(column, kind) for column in columns], axis=1)


def _lines(column: pa.Array, kind: Any) -> npt.NDArray[Any]:
    if not is_list(column.type):
        return _values(column, kind).reshape(len(column), 1)
    widths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(widths) > 1:
        raise InputError(
            f"the lists have {widths[0]} and {widths[1]} values, but a model takes lists of one length",
            hint="filter the rows by CARDINALITY",
        )
    return _values(column.flatten(), kind).reshape(len(column), *widths or [0])


def _values(column: pa.Array, kind: Any) -> npt.NDArray[Any]:
    if kind is np.object_:
        values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False).astype(np.object_)
        return values
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    numbers: npt.NDArray[Any] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if np.issubdtype(kind, np.integer) and pa.types.is_integer(column.type):
        numbers = column.to_numpy(zero_copy_only=False)
    return numbers.astype(kind)


def array_of(found: Any, type: pa.DataType, rows: int) -> pa.Array:
    """Return a result of a model as a column: one value for each row, or a list of values.

    Raises:
        InputError: The result has another shape, or its values do not fit the type.
    """
    values = np.asarray(found)
    if is_list(type):
        if values.ndim != 2 or len(values) != rows:
            raise _wrong_shape(values, rows, "a list")
        offsets = np.arange(rows + 1, dtype=np.int32) * values.shape[1]
        return pa.ListArray.from_arrays(offsets, _fitted(values.ravel(), type.value_type), type=type)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (rows,):
        raise _wrong_shape(values, rows, "one value")
    return _fitted(values, type)


def _fitted(values: npt.NDArray[Any], type: pa.DataType) -> pa.Array:
    try:
        made = pa.array(values.tolist() if values.dtype == np.object_ else values)
        if pa.types.is_floating(made.type) and pa.types.is_floating(type):
            return made.cast(type, safe=False)
        return made.cast(type)
    except pa.ArrowException as error:
        first = str(error).partition("\n")[0]
        raise InputError(
            f"the model returned {values.dtype} values that are not {type}: {first}",
            hint="declare the output with the type that the model returns",
        ) from None


def _wrong_shape(values: npt.NDArray[Any], rows: int, wanted: str) -> InputError:
    return InputError(
        f"the model returned {' x '.join(map(str, values.shape)) or 'one value'} for {rows} rows",
        hint=f"return {wanted} per row and output",
    )


def is_list(type: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type)
    )
