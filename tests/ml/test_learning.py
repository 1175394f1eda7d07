"""Models that learn by key: their predictions, exactly once under any faults, and invalid models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import RheosError
from rheos.testing import simulate

ROWS = [
    {"city": "ab"[i % 2], "km": float(i), "minutes": None if i % 5 == 4 else 3.0 * i} for i in range(60)
]


class MeanSoFar:
    """As a model of River is. It has learned nothing while it has no rows."""

    def __init__(self) -> None:
        self.rows, self.total = 0, 0.0

    def predict_one(self, x: dict[str, float]) -> float | None:
        return self.total / self.rows if self.rows else None

    def learn_one(self, x: dict[str, float], y: float) -> None:
        self.rows, self.total = self.rows + 1, self.total + y


def learned(env: rh.Environment) -> rh.DataStream:
    rides = env.from_source(rh.collection(ROWS), name="rides")
    return rh.ml.learn(rides.key_by("city"), MeanSoFar, features=["km"], target="minutes")


def test_each_row_is_predicted_then_learned_exactly_once() -> None:
    models: dict[str, MeanSoFar] = defaultdict(MeanSoFar)
    expected = []
    for row in ROWS:
        model = models[row["city"]]
        expected.append({**row, "prediction": model.predict_one({})})
        if row["minutes"] is not None:
            model.learn_one({}, row["minutes"])
    simulate(learned, seeds=5, expected=expected)


def test_models_of_river_and_scikit_learn_are_supported() -> None:
    river = pytest.importorskip("river.linear_model")
    sklearn = pytest.importorskip("sklearn.linear_model")
    makers: dict[str, Callable[[], Any]] = {
        "river": river.LinearRegression,
        "sklearn": lambda: sklearn.SGDRegressor(random_state=0, eta0=1e-4, learning_rate="constant"),
        "classes": lambda: sklearn.SGDClassifier(random_state=0),
    }

    def build(env: rh.Environment) -> dict[str, rh.DataStream]:
        rows = [{"k": 1, "x": i % 7 / 7, "y": float(i % 7 > 3)} for i in range(60)]
        keyed = env.from_source(rh.collection(rows), name="rows").key_by("k")
        return {
            name: rh.ml.learn(
                keyed,
                make,
                features=["x"],
                target="y",
                classes=[0.0, 1.0] if name == "classes" else None,
            )
            for name, make in makers.items()
        }

    found = simulate(build)
    for name in makers:
        rows = found.rows[name].to_pylist()
        assert len(rows) == 60
        assert rows[0]["prediction"] in (None, 0.0), "nothing is learned yet"
    right = sum(row["prediction"] == row["y"] for row in found.rows["classes"].to_pylist()[30:])
    assert right > 20


class Deaf:
    pass


class Classifier:
    def partial_fit(self, rows: Any, targets: Any, classes: Any = None) -> None: ...

    def predict(self, rows: Any) -> Any: ...

    def predict_proba(self, rows: Any) -> Any: ...


WRONG: dict[str, tuple[Callable[[rh.KeyedStream], object], str, str]] = {
    "no model": (
        lambda s: rh.ml.learn(s, Deaf, features=["km"], target="minutes"),
        "Deaf cannot learn row by row",
        "partial_fit",
    ),
    "no classes": (
        lambda s: rh.ml.learn(s, Classifier, features=["km"], target="minutes"),
        "is a classifier, which must know all classes before its first row",
        "classes=[0, 1]",
    ),
    "an unknown feature": (
        lambda s: rh.ml.learn(s, MeanSoFar, features=["minuts"], target="minutes"),
        "unknown column 'minuts' in learn()",
        "did you mean 'minutes'?",
    ),
    "a text of features": (
        lambda s: rh.ml.learn(s, MeanSoFar, features="km", target="minutes"),
        "must be the columns that the model reads, not 'km'",
        "name them",
    ),
    "no features": (
        lambda s: rh.ml.learn(s, MeanSoFar, features=[], target="minutes"),
        "must be the columns that the model reads",
        "name them",
    ),
    "an unknown target": (
        lambda s: rh.ml.learn(s, MeanSoFar, features=["km"], target="minute"),
        "unknown column 'minute'",
        "did you mean 'minutes'?",
    ),
    "a name that is there": (
        lambda s: rh.ml.learn(s, MeanSoFar, features=["km"], target="minutes", name="km"),
        "the stream already has a column 'km'",
        "rename the result",
    ),
    "no detector": (
        lambda s: rh.ml.drift(s, Deaf, on="km"),  # type: ignore[arg-type]
        "Deaf is not a drift detector",
        "PageHinkley",
    ),
    "a drift of nothing": (
        lambda s: rh.ml.drift(s, on="error"),
        "unknown column 'error' in drift()",
        "the columns here are",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_models_are_refused_at_their_line(case: str) -> None:
    write, what, hint = WRONG[case]
    stream = rh.Environment().from_source(rh.collection(ROWS), name="rides").key_by("city")
    with pytest.raises(RheosError) as caught:
        write(stream)
    assert what in caught.value.what
    assert hint in str(caught.value.hint)
    assert caught.value.site is not None
    assert caught.value.site.file == __file__


def test_a_drift_is_found_where_values_rise_and_detection_restarts() -> None:
    # The mean is 0 for 100 rows, then 1 for 100, then 2; of the other key it stays.
    values = [float(i // 100) for i in range(300)]
    rows = [{"k": k, "i": i, "error": v if k else 0.0} for i, v in enumerate(values) for k in (0, 1)]

    def build(env: rh.Environment) -> rh.DataStream:
        keyed = env.from_source(rh.collection(rows), name="errors").key_by("k")
        return rh.ml.drift(keyed, lambda: rh.ml.PageHinkley(threshold=5.0), on="error")

    found = simulate(build, seeds=3).out.to_pylist()
    assert {row["k"] for row in found} == {1}
    first, second = (row["i"] for row in found)
    assert 100 <= first < 115
    assert 200 <= second < 215
