"""`rheos migrate`: writes the savepoint with which a job continues one of another system."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rheos.api.overrides import Overrides
from rheos.api.program_file import captured_program
from rheos.cli.terminal import FAILED, report, say
from rheos.core.site import done_for
from rheos.ops.migration.migrating import ProofRequest, run_migration


def migrate(
    origin: str,
    file: Path,
    arguments: Sequence[str],
    to: str | None,
    settings: Overrides,
    proof: ProofRequest | None,
) -> int:
    """Explain what the job takes over, and write the savepoint if `to` names a folder. Return the exit
    code: 1 if a part of the checkpoint cannot be moved, or if the proof does not hold."""
    try:
        captured = captured_program(file, arguments, settings)
        with done_for(captured.site):
            plan = captured.environment.plan(captured.job_name)
        made = run_migration(origin, plan, to, proof, say)
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    if not made.is_ready:
        why = (
            "a part of the checkpoint cannot be moved"
            if made.refused
            else "the job does not continue the query"
        )
        say(f"nothing is written, because {why}", error=True)
        return FAILED
    if made.savepoint is not None:
        say(f"the savepoint is in {made.savepoint}")
        command = shlex.join([str(file), *arguments, "--from-savepoint", made.savepoint])
        say(f"start the job with: rheos run {command}")
    return 0
