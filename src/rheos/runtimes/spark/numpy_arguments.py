"""The check whether an argument of a call into the JVM is a NumPy value.

PySpark makes the check for each argument, and imports `pyspark.testing` to learn whether NumPy is
installed. With it come pandas, unittest and protobuf, at the first call. Rheos requires NumPy, so its
sessions start without them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.sql import types


def check_without_testing() -> None:
    """Replace PySpark's two checks by equal ones that import nothing. Versions that lack a converter
    stay as they are."""
    for name, check in (("NumpyScalarConverter", _is_scalar), ("NumpyArrayConverter", _is_array)):
        converter = getattr(types, name, None)
        if converter is not None:
            converter.can_convert = check


def _is_scalar(converter: object, argument: Any) -> bool:
    return isinstance(argument, np.generic)


def _is_array(converter: object, argument: Any) -> bool:
    return isinstance(argument, np.ndarray) and argument.ndim == 1
