"""`learn`: a model for each key, which first predicts each row and then learns from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rheos.api.keyed_stream import KeyedStream
from rheos.api.streams import DataStream
from rheos.core.graph.functions import KeyedContext, KeyedProcessFunction
from rheos.core.site import call_site, located
from rheos.ml.feature_columns import check_column, check_features, with_result
from rheos.ml.learners import Learner, learner_of, plain
from rheos.ml.states import with_state


class _Learns(KeyedProcessFunction):
    model: Any
    """Declared state, set by `with_state`."""

    def __init__(
        self,
        make: Callable[[], Any],
        learner: Learner,
        features: tuple[str, ...],
        target: str,
        columns: tuple[str, ...],
        name: str,
    ) -> None:
        self._make = make
        self._learner = learner
        self._features = features
        self._target = target
        self._columns = columns
        self._name = name

    def process_element(self, record: Any, ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        model = self.model.value
        if model is None:
            model = self.model.value = self._make()
        features = {name: getattr(record, name) for name in self._features}
        predicted = plain(self._learner.predicted(model, features))
        target = getattr(record, self._target)
        if target is not None:
            self._learner.learn(model, features, target)
        yield {**{name: getattr(record, name) for name in self._columns}, self._name: predicted}


def learn(
    stream: KeyedStream,
    make: Callable[[], Any],
    *,
    features: Sequence[str],
    target: str,
    predicts: Any = float,
    classes: Sequence[Any] | None = None,
    name: str = "prediction",
) -> DataStream:
    """Add to each row the prediction of its key's model, which then learns from the row.

    A row whose target is null is predicted but not learned.

    ```python
    rides = rh.ml.learn(
        rides.key_by("city"), linear_model.LinearRegression, features=["km", "hour"], target="minutes"
    )
    ```

    Args:
        stream: The rows, by key.
        make: Creates an untrained model: of River, or of scikit-learn with `partial_fit`. It is called
            once for each key, and must create the same model each time.
        features: The columns that the model reads. River receives them by name, scikit-learn in order.
        target: The column that it learns.
        predicts: The type of the predictions, which are null until the model has learned something.
        classes: All classes that a classifier of scikit-learn may predict.
        name: Name of the column of predictions.

    Returns:
        The stream with the predictions.

    Raises:
        ProgramError: `make` does not create a model.
        SchemaError: A column does not exist, or its type does not fit.
    """
    with located(call_site(), "learn"):
        checked = check_features(stream.schema, features, "learn")
        check_column(stream.schema, target, "learn")
        model = make()
        learner = learner_of(model, classes)
        returns = with_result(stream.schema, {name: predicts}, "learn")
    columns = tuple(stream.schema.names)
    fn = with_state(_Learns, "model", model)(make, learner, checked, target, columns, name)
    return stream.process(fn, returns=returns)
