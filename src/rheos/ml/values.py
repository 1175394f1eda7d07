"""Conversion of models' predictions to values of rows."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Numpy's scalars as Python's."""
    return value.item() if isinstance(value, np.generic) else value
