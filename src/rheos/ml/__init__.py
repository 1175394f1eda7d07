"""Online machine learning, as thin adapters (docs/ml.md): models that learn by key (`learn`), models
that are applied to whole batches (`score`) or replaced while they serve (`serve`), and detectors of
drift (`drift`). No library is needed for the package itself; `rheos[ml]` brings River, scikit-learn and
ONNX Runtime."""

import sys as _sys

from rheos.core.models.predictors import Onnx
from rheos.core.unknown_names import with_hints as _with_hints
from rheos.ml.drifting import PageHinkley, drift
from rheos.ml.learning import learn
from rheos.ml.scoring import score
from rheos.ml.serving import serve

__all__ = ["Onnx", "PageHinkley", "drift", "learn", "score", "serve"]

_with_hints("ml", _sys.modules[__name__])
