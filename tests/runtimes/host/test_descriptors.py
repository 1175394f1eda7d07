"""Limits of open files: raised as far as the system allows."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from rheos.core.errors import ConfigurationError
from rheos.runtimes.host.descriptors import allow_connections


@pytest.fixture
def hard() -> Iterator[int]:
    """Set a low soft limit for the test, and return the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_soft_limit_is_raised_only_if_it_is_too_low(hard: int) -> None:
    allow_connections(100)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1024, hard)
    allow_connections(1000)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1512, hard)


def test_it_is_raised_to_the_hard_limit_if_only_the_connections_fit(hard: int) -> None:
    if hard == resource.RLIM_INFINITY:
        pytest.skip("this process may open any number of files")
    allow_connections(hard - 1)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


def test_too_many_connections_are_an_error_that_names_the_limit(hard: int) -> None:
    if hard == resource.RLIM_INFINITY:
        pytest.skip("this process may open any number of files")
    says = f"a slot needs {hard + 1} connections to the other slots, but its process may open only"
    with pytest.raises(ConfigurationError, match=says) as raised:
        allow_connections(hard + 1)
    assert f"(ulimit -n) to {hard + 513}" in str(raised.value.hint)
