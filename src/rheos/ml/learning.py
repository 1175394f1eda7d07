"""`learn`: a model for each key, which first predicts each row and then learns from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rheos.api.keyed import KeyedStream
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
    """The rows, each with what the model of its key said of it before it learned from it. A row whose
    target is null is predicted, and teaches nothing.

    ```python
    rides = rh.ml.learn(
        rides.key_by("city"), linear_model.LinearRegression, features=["km", "hour"], target="minutes"
    )
    ```

    Args:
        make: makes a model that has learned nothing: of River, or of scikit-learn with `partial_fit`.
            It is called once for each key, and must make the same each time.
        features: the columns that the model looks at; River has them by name, scikit-learn in order.
        target: the column that it learns.
        predicts: the type of the predictions, which are null while a model has learned nothing.
        classes: all that a classifier of scikit-learn may say.

    Raises ProgramError, SchemaError.
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
