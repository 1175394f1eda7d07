"""Training and prediction with River's or scikit-learn's models through one interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from rheos.core.errors import ProgramError

Features = Mapping[str, Any]


class Learner(Protocol):
    """Interface to one kind of model. A learner has no state: the model contains everything learned."""

    def predicted(self, model: Any, features: Features) -> Any:
        """Return the model's prediction; None if it has learned nothing yet."""

    def learn(self, model: Any, features: Features, target: Any) -> None: ...


class RiverLearner:
    """A learner for River's models, which learn row by row and receive features by name."""

    def predicted(self, model: Any, features: Features) -> Any:
        return model.predict_one(dict(features))

    def learn(self, model: Any, features: Features, target: Any) -> None:
        model.learn_one(dict(features), target)


class PartialFitLearner:
    """A learner for models of scikit-learn with `partial_fit`, which receive features in order."""

    def __init__(self, classes: Sequence[Any] | None) -> None:
        self._more = {} if classes is None else {"classes": list(classes)}

    def predicted(self, model: Any, features: Features) -> Any:
        # Attributes that fit sets end with an underscore, and do not exist before.
        if not any(name.endswith("_") and not name.startswith("_") for name in vars(model)):
            return None
        return model.predict([list(features.values())])[0]

    def learn(self, model: Any, features: Features, target: Any) -> None:
        model.partial_fit([list(features.values())], [target], **self._more)


def learner_of(model: Any, classes: Sequence[Any] | None) -> Learner:
    """Return the learner for a model. Raises ProgramError if the model cannot be trained row by row."""
    if hasattr(model, "learn_one") and hasattr(model, "predict_one"):
        return RiverLearner()
    if not (hasattr(model, "partial_fit") and hasattr(model, "predict")):
        raise ProgramError(
            f"{type(model).__name__} cannot learn row by row",
            hint="use a River model (learn_one, predict_one), or a scikit-learn model with "
            "partial_fit, such as SGDClassifier",
        )
    if classes is None and hasattr(model, "predict_proba"):
        raise ProgramError(
            f"{type(model).__name__} is a classifier, which must know all classes before its first row",
            hint="list them: rh.ml.learn(..., classes=[0, 1])",
        )
    return PartialFitLearner(classes)


def plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python value."""
    return value.item() if isinstance(value, np.generic) else value
