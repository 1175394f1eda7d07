"""A queue in memory in place of the service."""

from __future__ import annotations

from typing import Any

import pytest

from rheos.connectors.aws.client_options import AwsOptions
from tests.connectors.sqs.queues import MemoryQueue


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> MemoryQueue:
    made = MemoryQueue()
    client: Any = lambda options: made  # noqa: E731
    monkeypatch.setattr(AwsOptions, "client", client)
    return made
