"""Lists the tests that `scripts/test --quick` leaves out, as each takes about a second or more.

To write the list anew: pytest --junitxml=FILE ..., then python -m tests.long_tests FILE
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

LIST = Path(__file__).with_name("long_tests.txt")
SECONDS = 0.8


def long_tests() -> frozenset[str]:
    """Return the tests of the list, each as `listed_name` has it."""
    return frozenset(LIST.read_text().split())


def listed_name(node_id: str) -> str:
    """Return "module::function" or "module.Class::function" of a node id, as in a JUnit file."""
    path, *classes, function = node_id.partition("[")[0].split("::")
    return f"{'.'.join([path.removesuffix('.py').replace('/', '.'), *classes])}::{function}"


def main(junit: Path) -> None:
    """Write the list from the times of a run."""
    first: dict[str, float] = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        name = f"{case.get('classname')}::{(case.get('name') or '').partition('[')[0]}"
        first.setdefault(name, float(case.get("time") or 0))
    LIST.write_text("".join(f"{name}\n" for name, took_s in sorted(first.items()) if took_s > SECONDS))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
