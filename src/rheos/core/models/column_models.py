"""Models over columns: a function from arrays of the inputs to a struct of the outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.models.predictors import Onnx, Predictor, Tensor
from rheos.core.models.tensors import KINDS, array_of, is_list, matrix


@dataclass(frozen=True)
class ColumnModel:
    """A model with named inputs and outputs.

    A function receives a float32 matrix of all inputs, or a matrix of objects if one of them is a
    string. An ONNX model receives its tensors. A null is NaN in floats. Other tensors of ONNX have no
    null, so such a row has null as its predictions.
    """

    name: str
    predictor: Onnx | Predictor
    inputs: pa.Schema
    outputs: pa.Schema
    by_row: bool = False
    """Whether each row is predicted alone, so that its prediction never depends on its batch."""

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def type(self) -> pa.StructType:
        """Return the type of the predictions."""
        return pa.struct(list(self.outputs))

    def check(self) -> None:
        """Check the inputs and outputs against what the model takes and returns.

        Raises:
            ProgramError: The predictor is not a function.
            SchemaError: A type has no tensor, or the model has other inputs or outputs.
        """
        if not callable(self.predictor):
            raise ProgramError(
                f"a model is a function from a matrix to predictions, not {self.predictor!r}",
                hint="pass rh.ml.Onnx.of_file(...), or a function such as model.predict",
            )
        for field in self.inputs:
            if not _is_feature(field.type):
                raise SchemaError(
                    f"the input {field.name!r} is {field.type}, but models take numbers, booleans, "
                    "strings and lists of numbers",
                    hint="convert it in the query, and declare the input as a number",
                )
        if isinstance(self.predictor, Onnx):
            tensors = self.predictor.inputs
            for tensor, columns in _bound(tensors, self.inputs):
                _check_input(tensor, [self.inputs.field(each) for each in columns])
            _check_outputs(self.predictor.outputs, self.outputs)

    def __call__(self, *columns: pa.Array) -> pa.StructArray:
        """Return the predictions of rows, whose inputs are columns in the order of `inputs`. Raise
        InputError if the model returns other shapes or types than `outputs`."""
        needed = [columns[place] for place in self._needed() if columns[place].null_count]
        if not needed:
            return self._of_rows(columns)
        there = reduce(pc.and_, (column.is_valid() for column in needed))
        made = self._of_rows([column.filter(there) for column in columns])
        ordinal = pc.subtract(pc.cumulative_sum(there.cast(pa.int64())), 1)
        return made.take(pc.if_else(there, ordinal, None))

    def _needed(self) -> Iterator[int]:
        """Yield the places of inputs without which a row has no prediction."""
        kinds: dict[int, Any] = {}
        if isinstance(self.predictor, Onnx):
            for tensor, columns in _bound(self.predictor.inputs, self.inputs):
                kinds |= dict.fromkeys(columns, KINDS[tensor.kind])
        for place, field in enumerate(self.inputs):
            kind = kinds.get(place, np.float32)
            if is_list(field.type) or not np.issubdtype(kind, np.floating):
                yield place

    def _of_rows(self, columns: Sequence[pa.Array]) -> pa.StructArray:
        rows = len(columns[0])
        if not rows:
            return pa.array([], self.type)
        step = 1 if self.by_row else rows
        parts = [
            self._of_batch([column.slice(at, step) for column in columns])
            for at in range(0, rows, step)
        ]
        return pa.concat_arrays(parts)

    def _of_batch(self, columns: Sequence[pa.Array]) -> pa.StructArray:
        rows, found = len(columns[0]), self._results(columns)
        if len(found) == 1 < len(self.outputs):
            values = np.asarray(found[0])
            if values.ndim == 2 and values.shape[1] == len(self.outputs):
                found = [*values.T]
        if len(found) < len(self.outputs):
            raise InputError(
                f"the model {self.name} returned {len(found)} outputs of "
                f"{' and '.join(str(np.shape(each)) for each in found)} for {rows} rows, but "
                f"{len(self.outputs)} are declared",
                hint="return a value per row and output",
            )
        pairs = zip(found, self.outputs, strict=False)
        arrays = [array_of(each, field.type, rows) for each, field in pairs]
        return pa.StructArray.from_arrays(arrays, fields=list(self.outputs))

    def _results(self, columns: Sequence[pa.Array]) -> list[Any]:
        """Return the results of the model in the order of `outputs`; there may be more."""
        model = self.predictor
        if not isinstance(model, Onnx):
            is_text = any(pa.types.is_string(field.type) for field in self.inputs)
            result = model(matrix(columns, np.object_ if is_text else np.float32))
            return [*result] if isinstance(result, tuple) else [result]
        tensors: list[npt.NDArray[Any]] = []
        for tensor, places in _bound(model.inputs, self.inputs):
            lines = matrix([columns[place] for place in places], KINDS[tensor.kind])
            tensors.append(lines[:, 0] if len(tensor.shape) == 1 else lines)
        found = model.run(tensors)
        names = [each.name for each in model.outputs]
        if {*self.outputs.names} <= {*names}:
            return [found[names.index(each)] for each in self.outputs.names]
        return found


def _is_feature(type: pa.DataType) -> bool:
    if is_list(type):
        type = type.value_type
        return bool(pa.types.is_integer(type) or pa.types.is_floating(type))
    return bool(
        pa.types.is_integer(type)
        or pa.types.is_floating(type)
        or pa.types.is_decimal(type)
        or pa.types.is_boolean(type)
        or pa.types.is_string(type)
    )


def _bound(tensors: Sequence[Tensor], inputs: pa.Schema) -> list[tuple[Tensor, list[int]]]:
    """Return the inputs of each tensor: all of them for the only one; otherwise one for each, by name
    or position. Raise SchemaError."""
    if len(tensors) == 1:
        return [(tensors[0], [*range(len(inputs))])]
    names = [each.name for each in tensors]
    if len(names) != len(inputs):
        raise SchemaError(
            f"the model takes {len(names)} inputs, but {len(inputs)} are declared",
            hint=f"declare {', '.join(names)}",
        )
    if {*names} == {*inputs.names}:
        return [(each, [inputs.get_field_index(each.name)]) for each in tensors]
    return [(each, [place]) for place, each in enumerate(tensors)]


def _check_input(tensor: Tensor, fields: Sequence[pa.Field]) -> None:
    kind = KINDS.get(tensor.kind)
    if kind is None:
        raise SchemaError(
            f"the model takes {tensor.kind} as {tensor.name!r}, which is not computed",
            hint="export the model with inputs of numbers or strings",
        )
    for field in fields:
        if pa.types.is_string(field.type) != (kind is np.object_):
            wanted = "strings" if kind is np.object_ else "numbers"
            raise SchemaError(
                f"the model takes {wanted} as {tensor.name!r}, but the input {field.name!r} is "
                f"{field.type}",
                hint=f"declare {field.name} as {'STRING' if kind is np.object_ else 'DOUBLE'}",
            )
    width = tensor.shape[1] if len(tensor.shape) == 2 else len(tensor.shape)
    if len(tensor.shape) > 2 or (width is not None and width < 1):
        raise SchemaError(
            f"the model takes {len(tensor.shape)} dimensions as {tensor.name!r}, not rows of values",
            hint="export the model with the shape (rows, values)",
        )
    if width not in (None, len(fields)) and not any(is_list(field.type) for field in fields):
        listed = ", ".join(field.name for field in fields)
        raise SchemaError(
            f"the model takes {width} values per row as {tensor.name!r}, but {len(fields)} "
            f"{'is' if len(fields) == 1 else 'are'} declared: {listed}",
            hint="declare the inputs that the model was trained with, in their order",
        )


def _check_outputs(tensors: Sequence[Tensor], outputs: pa.Schema) -> None:
    names = [each.name for each in tensors]
    if len(tensors) == 1 < len(outputs):
        width = tensors[0].shape[1] if len(tensors[0].shape) == 2 else 1
        if width not in (None, len(outputs)):
            raise SchemaError(
                f"the model returns {width} values per row as {names[0]!r}, but {len(outputs)} outputs "
                "are declared",
                hint=f"declare {width}, or one ARRAY<DOUBLE>",
            )
        return
    if len(outputs) > len(tensors):
        raise SchemaError(
            f"the model returns {len(tensors)} outputs, but {len(outputs)} are declared",
            hint=f"declare {', '.join(names)}",
        )
    is_named = {*outputs.names} <= {*names}
    for place, field in enumerate(outputs):
        tensor = tensors[names.index(field.name) if is_named else place]
        if tensor.kind not in KINDS:
            raise SchemaError(
                f"the model returns {tensor.kind} as {tensor.name!r}, which is not a column",
                hint="export the model with tensors as outputs, such as zipmap=False of skl2onnx",
            )
        width = tensor.shape[1] if len(tensor.shape) == 2 else 1
        if not is_list(field.type) and width not in (None, 1):
            raise SchemaError(
                f"the model returns {width} values per row as {tensor.name!r}, but the output "
                f"{field.name!r} is one {field.type}",
                hint=f"declare {width} outputs, or {field.name} ARRAY<DOUBLE>",
            )
