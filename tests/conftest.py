"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# The first example of a property pays for imports, and machines differ: time is no property here.
settings.register_profile("rheos", deadline=None)
settings.load_profile("rheos")
