"""The example job, as a module: its program and its checker."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[2] / "examples" / "state_machine.py"


def _loaded() -> Any:
    spec = importlib.util.spec_from_file_location("state_machine", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["state_machine"] = module
    spec.loader.exec_module(module)
    return module


state_machine = _loaded()
