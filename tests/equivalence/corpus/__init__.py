"""The corpus of the equivalence suite: programs, their input, and expected results. Each program has a
golden: its rows, computed by plain Polars, SQL or Python, without code of Rheos."""

from tests.equivalence.corpus import (
    changes,
    connected,
    event_times,
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
    *event_times.PROGRAMS,
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
