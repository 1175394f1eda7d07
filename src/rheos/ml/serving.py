"""`serve`: a model that is replaced while it serves, by a stream of versions.

Broadcast state contains the newest version, as bytes. It is the version with the highest number, so all
subtasks agree in whatever order rows arrive.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rheos.api.streams import DataStream
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.connected_functions import BroadcastProcessFunction, ProcessContext
from rheos.core.graph.state import BroadcastState
from rheos.core.models.predictors import Onnx, Predictor, values
from rheos.core.site import call_site, located
from rheos.ml.feature_columns import check_features, with_result

_NEWEST = "newest"
_PROGRAMS = (pickle.loads, pickle.Unpickler)


@dataclass
class _Version:
    version: int
    model: bytes


class _Serves(BroadcastProcessFunction):
    models = BroadcastState(str, _Version)

    def __init__(
        self,
        load: Callable[[bytes], Predictor],
        features: tuple[str, ...],
        columns: tuple[str, ...],
        name: str,
    ) -> None:
        self._load = load
        self._features = features
        self._columns = columns
        self._name = name
        self._loaded: tuple[int, Predictor] | None = None

    def process_broadcast_element(self, record: Any, ctx: ProcessContext) -> None:
        known: _Version | None = self.models.get(_NEWEST)
        if known is None or record.version > known.version:
            # Loaded here, so that what is no model is an error of its own row.
            self._loaded = (record.version, self._load(record.model))
            self.models[_NEWEST] = _Version(record.version, record.model)

    def process_element(self, record: Any, ctx: ProcessContext) -> Iterator[dict[str, Any]]:
        newest: _Version | None = self.models.get(_NEWEST)
        predicted = version = None
        if newest is not None:
            version = newest.version
            if self._loaded is None or self._loaded[0] != version:
                self._loaded = (version, self._load(newest.model))
            row = [[getattr(record, name) for name in self._features]]
            [predicted] = values(self._loaded[1], np.array(row, np.float32))
        shown = {name: getattr(record, name) for name in self._columns}
        yield {**shown, self._name: predicted, f"{self._name}_version": version}


def serve(
    stream: DataStream,
    models: DataStream,
    *,
    features: Sequence[str],
    load: Callable[[bytes], Predictor] = Onnx,
    predicts: Any = float,
    name: str = "prediction",
) -> DataStream:
    """Add to each row the prediction of the newest model, and its version (`NAME_version`).

    Both are null while there is no model. Each subtask processes a row with the newest version that it
    has received by then.

    ```python
    served = rh.ml.serve(rides, models, features=["km", "hour"])
    ```

    Args:
        stream: The rows.
        models: Rows with `version`, a whole number, and `model`, bytes. The highest version is used.
        features: The columns that the predictor reads, in order.
        load: Creates the predictor from the bytes. They are external data: a function that unpickles
            them would run any code in them, and is refused.
        predicts: The type of the predictions.
        name: Name of the column of predictions.

    Returns:
        The stream with the predictions.

    Raises:
        ProgramError: `load` unpickles.
        SchemaError: A column does not exist, or its type does not fit.
    """
    with located(call_site(), "serve"):
        if load in _PROGRAMS:
            raise ProgramError(
                "serve() does not unpickle models that arrive as rows, because a pickle can "
                "run any code",
                hint="export the models as ONNX; or pass a loader for plain data, such as weights "
                "in JSON",
            )
        for column, kind in (("version", "int64"), ("model", "binary")):
            found = (
                str(models.schema.field(column).type) if column in models.schema.names else "missing"
            )
            if found != kind:
                raise SchemaError(
                    "rows with models need the columns version (int64) and model (binary), but "
                    f"{column} is {found}",
                    hint=f'models.select("model", version=...) with {column} as {kind}',
                )
        checked = check_features(stream.schema, features, "serve")
        returns = with_result(stream.schema, {name: predicts, f"{name}_version": int}, "serve")
    fn = _Serves(load, checked, tuple(stream.schema.names), name)
    return stream.connect(models.broadcast()).process(fn, returns=returns)
