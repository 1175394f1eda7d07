"""Models that are replaced while they serve, and models over whole batches."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rheos as rh
from rheos import col
from rheos.core.errors import RheosError
from rheos.core.models.predictors import Matrix
from rheos.testing import simulate

ROWS = [{"id": i, "x": float(i)} for i in range(300)]
VERSIONS = [{"version": n, "model": json.dumps({"weight": n}).encode()} for n in (1, 3, 2, 5, 4)]


def weighted(model: bytes) -> Callable[[Matrix], Any]:
    weight = json.loads(model)["weight"]
    return lambda features: features[:, 0] * weight


def served(env: rh.Environment) -> rh.DataStream:
    rows = env.from_source(rh.generator(_rows, count=300, splits=1, rate_per_s=300), name="rows")
    models = env.from_source(rh.generator(_models, count=5, splits=1, rate_per_s=6), name="models")
    return rh.ml.serve(rows, models, features=["x"], load=weighted)


def _rows(block: rh.Block) -> dict[str, Any]:
    return {"id": block.index(), "x": block.index().astype(float)}


def _models(block: rh.Block) -> dict[str, Any]:
    chosen = [VERSIONS[i] for i in block.index()]
    return {name: [version[name] for version in chosen] for name in ("version", "model")}


def test_each_row_is_scored_once_by_its_model() -> None:
    by_model = (col("x") * col("prediction_version")).alias("by_model")

    def build(env: rh.Environment) -> rh.DataStream:
        # Which version a row meets is decided by when both come; that it is the one it names is not.
        return served(env).select("id", right=col("prediction").eq_missing(by_model))

    simulate(build, seeds=8, expected=[{"id": row["id"], "right": True} for row in ROWS])


def test_a_replaced_model_survives_a_crash_and_is_never_reverted() -> None:
    crashed = 0
    for seed in range(6):
        done = simulate(served, seed=seed, parallelism=1)
        crashed += done.crashes
        rows = sorted(done.out.to_pylist(), key=lambda row: row["id"])
        assert [row["id"] for row in rows] == list(range(300))
        versions = [row["prediction_version"] or 0 for row in rows]
        assert versions == sorted(versions), "an older model never serves again"
        assert len(set(versions)) > 2, "it changed meanwhile"
        assert {2, 4}.isdisjoint(versions), "the highest version counts, and not the last that came"
    assert crashed > 0


def test_a_model_in_onnx_scores_batches_and_serves() -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    models = [{"version": n, "model": _times(onnx, n)} for n in (1, 2)]

    def build(env: rh.Environment) -> dict[str, rh.DataStream]:
        rows = env.from_source(rh.collection(ROWS), name="rows")
        newest = env.from_source(rh.collection(models), name="models")
        by_model = col("x") * col("prediction_version")
        return {
            "scored": rh.ml.score(rows, rh.ml.Onnx(models[1]["model"]), features=["x"]),
            "served": rh.ml.serve(rows, newest, features=["x"]).select(
                "id", right=col("prediction").eq_missing(by_model)
            ),
        }

    scored = [{**row, "prediction": row["x"] * 2} for row in ROWS]
    right = [{"id": row["id"], "right": True} for row in ROWS]
    simulate(build, seeds=2, expected={"scored": scored, "served": right})


def _times(onnx: Any, n: int) -> bytes:
    """The model y = n x, as a file of ONNX."""
    h = onnx.helper
    value = lambda name: h.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, 1])  # noqa: E731
    weight = h.make_tensor("n", onnx.TensorProto.FLOAT, [1], [float(n)])
    node = h.make_node("Mul", ["x", "n"], ["y"])
    graph = h.make_graph([node], "times", [value("x")], [value("y")], [weight])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())


def test_any_function_of_a_matrix_scores_and_null_is_nan() -> None:
    rows = [{"a": 1.5, "n": 2}, {"a": None, "n": 4}]

    def build(env: rh.Environment) -> rh.DataStream:
        scored = rh.ml.score(
            env.from_source(rh.collection(rows), name="rows"),
            lambda features: np.nan_to_num(features).sum(axis=1),
            features=["n", "a"],
            name="sum",
        )
        return scored

    assert [row["sum"] for row in simulate(build).out.to_pylist()] == [3.5, 4.0]


def failing(write: Callable[[rh.DataStream, rh.DataStream], rh.DataStream]) -> RheosError:
    def build(env: rh.Environment) -> rh.DataStream:
        rows = env.from_source(rh.collection(ROWS), name="rows")
        return write(rows, env.from_source(rh.collection(VERSIONS), name="models"))

    with pytest.raises(RheosError) as caught:
        simulate(build)
    assert caught.value.site is not None
    assert caught.value.site.file == __file__
    return caught.value


def test_invalid_models_are_refused() -> None:
    pickled = failing(lambda rows, models: rh.ml.serve(rows, models, features=["x"], load=pickle.loads))
    assert "serve() does not unpickle models that arrive as rows, because a pickle" in pickled.what
    no_models = failing(lambda rows, models: rh.ml.serve(rows, rows, features=["x"]))
    assert "version is missing" in no_models.what
    no_predictor = failing(lambda rows, models: rh.ml.score(rows, "model", features=["x"]))  # type: ignore[arg-type]
    assert "takes a predictor, not 'model'" in no_predictor.what
    several = failing(lambda rows, models: rh.ml.score(rows, lambda m: m[:1], features=["x", "id"]))
    assert "the predictor returned 1 x 2 for" in str(several)


def test_bytes_that_are_no_model_are_an_error_of_their_row() -> None:
    pytest.importorskip("onnxruntime")
    error = failing(lambda rows, models: rh.ml.serve(rows, models, features=["x"]))
    assert "bytes are not an ONNX model" in str(error)
