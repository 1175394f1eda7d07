"""Sizes as users write them."""

from __future__ import annotations

from typing import Any

import pytest

from rheos.core.errors import ProgramError
from rheos.core.protocol.sizes import size_bytes


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("512MB", 512 << 20),
        ("512 mib", 512 << 20),
        ("2g", 2 << 30),
        ("1.5KB", 1536),
        ("1TB", 1 << 40),
        ("100b", 100),
        ("100", 100),
        (4096, 4096),
    ],
)
def test_sizes_have_sparks_meaning(said: Any, meant: int) -> None:
    assert size_bytes(said) == meant


@pytest.mark.parametrize("said", ["", "MB", "12 apples", "-1MB", -1, True, None, 1.5])
def test_invalid_sizes_are_refused(said: Any) -> None:
    with pytest.raises(ProgramError, match="is not a size"):
        size_bytes(said)
