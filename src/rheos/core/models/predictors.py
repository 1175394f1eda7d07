"""Predictors: functions from a matrix of features, one line per row, to a value for each row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rheos.core.errors import ConfigurationError, InputError

Matrix: TypeAlias = npt.NDArray[np.float32]
Predictor: TypeAlias = Callable[[Matrix], Sequence[Any] | npt.NDArray[Any]]
"""Function of a matrix (rows, features) that returns (rows,) or (rows, 1)."""


@dataclass(frozen=True)
class Tensor:
    """An input or an output of an ONNX model."""

    name: str
    kind: str
    """Type in the words of ONNX Runtime, such as tensor(float)."""
    shape: tuple[int | None, ...]
    """Length of each dimension; None if any is allowed."""

    @staticmethod
    def of(described: Any) -> Tensor:
        """Return what ONNX Runtime describes."""
        lengths = (each if isinstance(each, int) else None for each in described.shape or ())
        return Tensor(described.name, described.type, tuple(lengths))


class Onnx:
    """A model in the ONNX format. It is data that runs only ONNX's own operations, so a model from an
    untrusted source is safe, and `serve` accepts it.

    ```python
    scored = rh.ml.score(rides, rh.ml.Onnx.of_file("minutes.onnx"), features=["km", "hour"])
    ```
    """

    def __init__(self, model: bytes) -> None:
        """Load the model. Raise ConfigurationError without ONNX Runtime, and InputError if the bytes
        are not a model."""
        self._model = model
        self._session = _session(model)

    @staticmethod
    def of_file(path: str | Path) -> Onnx:
        """Read a model from a file.

        Args:
            path: The local path.

        Returns:
            The model.
        """
        return Onnx(Path(path).read_bytes())

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Return the tensors that the model takes."""
        return tuple(map(Tensor.of, self._session.get_inputs()))

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Return the tensors that the model returns."""
        return tuple(map(Tensor.of, self._session.get_outputs()))

    def run(self, tensors: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Return all outputs for a batch of rows.

        Args:
            tensors: The inputs, in the order of `inputs`.

        Returns:
            The outputs, in the order of `outputs`.
        """
        names = (each.name for each in self._session.get_inputs())
        found: list[npt.NDArray[Any]] = self._session.run(None, dict(zip(names, tensors, strict=True)))
        return found

    def __call__(self, features: Matrix) -> npt.NDArray[Any]:
        """Return the model's first output; for a classifier, the labels."""
        return self.run([features])[0]

    def __repr__(self) -> str:
        return f"Onnx({hashlib.sha256(self._model).hexdigest()[:12]})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A session is of its process: workers open their own.
        return (Onnx, (self._model,))


def _session(model: bytes) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise ConfigurationError(
            "ONNX models need the package onnxruntime", hint="pip install 'rheos[ml]'"
        ) from None
    options = onnxruntime.SessionOptions()
    # A subtask has a core.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise InputError(
            f"these {len(model):,} bytes are not an ONNX model: {first}",
            hint="pass the bytes of a file that was exported as .onnx",
        ) from None


def values(predictor: Predictor, features: Matrix) -> list[Any]:
    """Return the prediction for each row. Raises InputError if there is not one value for each."""
    found = np.asarray(predictor(features))
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.shape != (len(features),):
        raise InputError(
            f"the predictor returned {' x '.join(map(str, found.shape)) or 'one value'} for "
            f"{len(features)} rows",
            hint="return one value per row",
        )
    given: list[Any] = found.tolist()
    return given
