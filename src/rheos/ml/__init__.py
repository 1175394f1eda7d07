"""Online machine learning, as thin adapters (docs/ml.md): models that learn by key (`learn`), models
that are applied to whole batches (`score`) or replaced while they serve (`serve`), detectors of drift
(`drift`), and features for training and serving (`features`, `training_rows`, `compare_features`). No
library is needed for the package itself; `rheos[ml]` brings River, scikit-learn and ONNX Runtime."""

import sys as _sys

from rheos.core.models.predictors import Onnx
from rheos.core.unknown_names import with_hints as _with_hints
from rheos.ml.drifting import PageHinkley, drift
from rheos.ml.feature_comparison import FeatureComparison, compare_features
from rheos.ml.feature_declarations import Features, features
from rheos.ml.learning import learn
from rheos.ml.scoring import score
from rheos.ml.serving import serve
from rheos.ml.training import training_rows

__all__ = [
    "FeatureComparison",
    "Features",
    "Onnx",
    "PageHinkley",
    "compare_features",
    "drift",
    "features",
    "learn",
    "score",
    "serve",
    "training_rows",
]

_with_hints("ml", _sys.modules[__name__])
