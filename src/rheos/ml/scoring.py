"""`score`: a fixed predictor that is applied to whole batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.api.streams import DataStream
from rheos.core.errors import ProgramError
from rheos.core.models.predictors import Predictor, values
from rheos.core.models.tensors import matrix
from rheos.core.site import call_site, located
from rheos.ml.feature_columns import check_features, with_result


@dataclass(frozen=True)
class _Scores:
    """The function of `map_batches` that adds predictions."""

    predictor: Predictor
    features: tuple[str, ...]
    result: pa.Field

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        found = self._predicted(batch) if batch.num_rows else []
        return batch.append_column(self.result, pa.array(found, self.result.type))

    def _predicted(self, batch: pa.RecordBatch) -> list[Any]:
        return values(self.predictor, matrix([batch.column(name) for name in self.features]))


def score(
    stream: DataStream,
    predictor: Predictor,
    *,
    features: Sequence[str],
    predicts: Any = float,
    name: str = "prediction",
) -> DataStream:
    """Add a prediction to each row. The predictor is called with whole batches.

    ```python
    scored = rh.ml.score(rides, rh.ml.Onnx.of_file("minutes.onnx"), features=["km", "hour"])
    ```

    Args:
        stream: The rows.
        predictor: `rh.ml.Onnx`, or a function such as a fitted model's `predict`. It receives a float32
            matrix (rows, features), with NaN for null, and returns a value for each row.
        features: The columns that the predictor reads, in order.
        predicts: The type of the predictions.
        name: Name of the column of predictions.

    Returns:
        The stream with the predictions.

    Raises:
        ProgramError: `predictor` cannot be called.
        SchemaError: A column does not exist or has no numbers.
    """
    with located(call_site(), "score"):
        if not callable(predictor):
            raise ProgramError(
                f"score() takes a predictor, not {predictor!r}",
                hint="pass rh.ml.Onnx.of_file(...), or a function such as model.predict",
            )
        checked = check_features(stream.schema, features, "score")
        returns = with_result(stream.schema, {name: predicts}, "score")
    fn = _Scores(predictor, checked, returns.field(name))
    return stream.map_batches(fn, form="arrow", returns=returns)
