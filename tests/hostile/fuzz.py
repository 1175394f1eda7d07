"""Fuzzes one decoder by coverage, for as long as it is let: `python -m tests.hostile.fuzz NAME`.

Needs atheris, which is no dependency of the project: `uv pip install atheris`. What follows the name
goes to libFuzzer, such as `-max_total_time=300`. It begins with true messages, and ends with a trace at
the first defect.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def main() -> None:
    import atheris  # type: ignore[import-not-found]

    with atheris.instrument_imports(
        include=[
            "rheos.core.protocol",
            "rheos.ops.control",
            "rheos.core.checkpoint",
            "rheos.connectors",
        ]
    ):
        from tests.hostile.decoders import DECODERS, TRUE

    name, *arguments = sys.argv[1:] or [""]
    if name not in DECODERS:
        sys.exit(f"name one of {', '.join(map(repr, DECODERS))}")
    decode = DECODERS[name]
    with tempfile.TemporaryDirectory(prefix="rheos-fuzz-") as corpus:
        for number, message in enumerate(TRUE[name]):
            Path(corpus, str(number)).write_bytes(message)
        atheris.Setup([sys.argv[0], *arguments, corpus], lambda data: decode(data) and None)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
