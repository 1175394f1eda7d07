"""Run random worlds and print the results: `python -m tests.worlds SEED [SEED ...]`."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

from tests.worlds.worlds import draw_world


def replay(seed: int) -> bool:
    """Run the world of a seed and print it. Return whether its check passed."""
    drawn = draw_world(seed)
    print(drawn)
    try:
        done = drawn.run()
        print(
            f"  ended after {done.virtual_ms} ms: {done.crashes} crashes, {done.drivers} drivers, "
            f"attempt {done.status.attempt}, {done.status.checkpoints_completed} checkpoints, "
            f"trace {done.trace:08x}"
        )
        for name, table in done.rows.items():
            print(f"  {name}: {table.num_rows} rows")
        drawn.check(done)
    except Exception:
        traceback.print_exc()
        print(f"  FAILED; again: python -m tests.worlds {seed}")
        return False
    print("  as the oracle says")
    return True


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    if not arguments or not all(argument.isdigit() for argument in arguments):
        print(__doc__)
        return 2
    failed = [argument for argument in arguments if not replay(int(argument))]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
