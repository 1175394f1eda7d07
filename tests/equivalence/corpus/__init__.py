"""The corpus of the equivalence suite: programs, their input, and what they must find.

Each program comes with a golden: its rows, worked out by plain Polars, SQL or straight-line Python,
which share nothing with Rheos.
"""

from tests.equivalence.corpus import (
    changes,
    connected,
    expiring,
    forms,
    functions,
    joins,
    keyed,
    lookups,
    loops,
    patterns,
    sessions,
    sources,
    stateless,
    triggered,
    windows,
)
from tests.equivalence.corpus.program import Program

PROGRAMS: tuple[Program, ...] = (
    *stateless.PROGRAMS,
    *windows.PROGRAMS,
    *sessions.PROGRAMS,
    *triggered.PROGRAMS,
    *keyed.PROGRAMS,
    *connected.PROGRAMS,
    *forms.PROGRAMS,
    *expiring.PROGRAMS,
    *sources.PROGRAMS,
    *lookups.PROGRAMS,
    *functions.PROGRAMS,
    *joins.PROGRAMS,
    *changes.PROGRAMS,
    *loops.PROGRAMS,
    *patterns.PROGRAMS,
)
