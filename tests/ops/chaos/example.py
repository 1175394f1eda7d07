"""The example job as a module that workers can import: they receive the driver's `sys.path`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[3] / "examples" / "state_machine.py"

sys.path.append(str(EXAMPLE.parent))
state_machine: Any = importlib.import_module("state_machine")
