"""What the command may not import before a subcommand needs it: each of these takes long."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    *("numba", "numpy", "pandas", "polars", "pyarrow", "pyspark", "sqlglot", "zmq"),
    *(
        "rheos.api.environment",
        "rheos.api.resolve",
        "rheos.api.streams",
        "rheos.ops.dashboard",
        "rheos.ops.debugging",
        "rheos.core.graph",
        "rheos.sql",
        "rheos.runtimes.continuous",
        "rheos.runtimes.driver",
        "rheos.runtimes.job",
        "rheos.runtimes.spark",
    ),
)
HELP = """
import sys
from rheos.cli.main import app
try:
    app(["--help"])
except SystemExit:
    pass
print(*sorted(set(sys.argv[1:]) & set(sys.modules)), file=sys.stderr)
"""


def test_help_imports_nothing_heavy() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", HELP, *HEAVY], check=True, capture_output=True, text=True
    )
    assert "Usage" in ran.stdout
    assert ran.stderr.split() == []
