"""What all tests share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

from rheos.protocol.ids import JobId
from rheos.runtimes.contract import JobConfig

# The first example of a property pays for imports, and machines differ: time is no property here.
settings.register_profile("rheos", deadline=None)
settings.load_profile("rheos")


@pytest.fixture(scope="session")
def spark() -> Any:
    """One Spark session for all tests: starting one takes seconds."""
    from rheos.runtimes.spark_session import get_session

    session, _ = get_session(JobConfig(job=JobId("tests")), slots=4)
    return session
