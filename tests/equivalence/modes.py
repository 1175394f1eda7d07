"""The modes in which a program of the corpus runs, and the programs that a mode leaves out, with the
reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rheos.core.errors import ProgramError
from tests.equivalence.corpus import PROGRAMS
from tests.equivalence.corpus.program import Program


class Mode(Enum):
    SIMULATED = "simulated, whole"
    SIMULATED_CHECKPOINTED = "simulated, with checkpoints all the time"
    SIMULATED_KILLED = "simulated, killed and resumed"
    SIMULATED_RESCALED = "simulated, stopped and started at another parallelism"
    SIMULATED_FOUND = "simulated, with splits that are found while it runs, killed and resumed"
    SIMULATED_ROCKSDB = "simulated, with state on disk, killed and resumed"
    CONTINUOUS = "continuous, with checkpoints all the time"
    CONTINUOUS_RESCALED = "continuous, stopped and started at another parallelism"
    BATCH = "batch, from files"
    BATCH_WIDE = "batch, at parallelism 3, from a generator"


SLOW = {
    Mode.SIMULATED_CHECKPOINTED,
    Mode.SIMULATED_KILLED,
    Mode.SIMULATED_RESCALED,
    Mode.SIMULATED_FOUND,
    Mode.CONTINUOUS,
    Mode.BATCH,
}
"""Left out of the suite: who is killed takes checkpoints all the time, too, and is killed with state on
disk, each program is rescaled on Spark or runs as a batch at parallelism 3, and drawn worlds find
splits."""


COMPILED = {"sessions, compiled"}
"""Each worker compiles them, for seconds: on Spark they are left out of the suite."""


def is_slow(program: Program, mode: Mode) -> bool:
    """Return whether the suite leaves this case out. A program with state is killed with its state
    on disk, which covers an uninterrupted run."""
    if mode in (Mode.CONTINUOUS_RESCALED, Mode.BATCH_WIDE):
        return program.name in COMPILED or mode is not _mode_on_spark(program)
    return mode in SLOW or (mode is Mode.SIMULATED and program.stateful)


def _mode_on_spark(program: Program) -> Mode:
    """Return the mode in which the suite runs a program on Spark: neighbours in the corpus, which are
    often alike, have different ones."""
    return (Mode.CONTINUOUS_RESCALED, Mode.BATCH_WIDE)[PROGRAMS.index(program) % 2]


@dataclass(frozen=True)
class Gap:
    """Program that is not run in a mode."""

    reason: str
    raises: type[Exception] | None = None
    """What running it raises, which is asserted: a gap that has closed is a failure. None where the
    mode has nothing to say of the program."""
    match: str = ""


KEEPS_NOTHING = Gap("it keeps no state that could be anywhere")


def gap(program: Program, mode: Mode) -> Gap | None:
    if (program.name, mode) in GAPS:
        return GAPS[program.name, mode]
    if mode is Mode.SIMULATED_ROCKSDB and not program.stateful:
        return KEEPS_NOTHING
    return None


NO_WAY_BACK = Gap("rows go round a loop", ProgramError, "which a batch job does not support")

GAPS: dict[tuple[str, Mode], Gap] = {
    ("loops", Mode.BATCH): NO_WAY_BACK,
    ("loops", Mode.BATCH_WIDE): NO_WAY_BACK,
}


def runs(mode: Mode) -> list[Program]:
    return [program for program in PROGRAMS if gap(program, mode) is None]
