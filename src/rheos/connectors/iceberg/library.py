"""Modules of the library `pyiceberg`, which is installed with an extra."""

from __future__ import annotations

import importlib
from typing import Any

from rheos.connectors.iceberg.registration import CONNECTOR


def library(module: str) -> Any:
    """Import a module of the library, such as "catalog".

    Raises:
        ConfigurationError: the library is not installed.
    """
    CONNECTOR.client()
    return importlib.import_module(f"pyiceberg.{module}")
