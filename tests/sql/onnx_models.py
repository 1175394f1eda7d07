"""Small ONNX models, built without training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def linear(weights: Sequence[Sequence[float]], batch: int | str = "rows") -> bytes:
    """Return y = x W, as a file of ONNX. `batch` is the declared number of rows."""
    rows, columns = len(weights), len(weights[0])
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    flat = [value for line in weights for value in line]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "linear",
        [helper.make_tensor_value_info("x", kind, [batch, rows])],
        [helper.make_tensor_value_info("y", kind, [batch, columns])],
        [helper.make_tensor("w", kind, [rows, columns], flat)],
    )
    return _stored(graph)


def labels() -> bytes:
    """Return a model with two inputs and two outputs: label = whether a string is 'web' (int64), and
    score = the other input, doubled."""
    helper, kinds = onnx.helper, onnx.TensorProto
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("LabelEncoder", ["channel"], ["label"], domain="ai.onnx.ml",
                             keys_strings=["web"], values_int64s=[1], default_int64=0),
            helper.make_node("Add", ["amount", "amount"], ["score"]),
        ],
        "labels",
        [value("channel", kinds.STRING, [None, 1]), value("amount", kinds.DOUBLE, [None, 1])],
        [value("label", kinds.INT64, [None, 1]), value("score", kinds.DOUBLE, [None, 1])],
    )  # fmt: skip
    return _stored(graph)


def written(folder: Path, model: bytes, name: str = "model.onnx") -> Path:
    """Write a model to a file."""
    path = folder / name
    path.write_bytes(model)
    return path


def _stored(graph: Any) -> bytes:
    sets = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("ai.onnx.ml", 2)]
    return bytes(onnx.helper.make_model(graph, opset_imports=sets, ir_version=8).SerializeToString())
