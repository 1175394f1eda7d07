"""Slots: positions in the arrays of a columnar state."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Slots: TypeAlias = npt.NDArray[np.int32]
AnySlots: TypeAlias = npt.NDArray[np.signedinteger[Any]]
"""Slots of any integer width. NumPy's own `intp` indexes arrays in a third of the time."""

EMPTY = -1
"""Placeholder for a missing slot."""
