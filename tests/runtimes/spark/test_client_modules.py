"""Client libraries that a waiting driver and its slots import ahead."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rheos.runtimes.spark.client_modules import import_ahead

PROGRAM = """
import rheos as rh
from rheos.runtimes.spark.client_modules import client_modules

USES
print(*client_modules())
"""


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        ("", []),
        ('rh.files.sink("out")', ["fsspec"]),
        ("rh.redis; rh.files", ["fsspec", "redis", "redis.backoff", "redis.retry"]),
    ],
)
def test_only_what_the_program_has_imported_counts(uses: str, expected: list[str]) -> None:
    program = PROGRAM.replace("USES", uses)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == expected


def test_a_missing_library_is_reported_only_where_it_is_used() -> None:
    import_ahead(["no_such_library", "json"])
