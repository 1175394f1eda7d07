"""URLs from users: which are refused, and that no error shows a part of them."""

from __future__ import annotations

import pytest

from rheos.connectors.urls import url_parts
from rheos.core.errors import ProgramError


@pytest.mark.parametrize("special", ["/", "?", "#", "[", "/@"])
@pytest.mark.parametrize("password", ["s3cr{}et", "12{}s3cret"])
@pytest.mark.parametrize("user", ["", "visits:", ":"])
def test_a_password_that_is_not_encoded_is_refused_and_not_shown(
    user: str, password: str, special: str
) -> None:
    url = f"store://{user}{password.format(special)}@host:6379/0"
    with pytest.raises(ProgramError, match="url= is not a valid URL for a store: ") as raised:
        url_parts(url, ("store",), "a store", "")
    shown = f"{raised.value}{raised.value.hint}{raised.value.__cause__}"
    assert "percent-encode" in shown
    for part in ("s3cr", "3cret", "et@"):
        assert part not in shown


def test_valid_urls_are_parsed() -> None:
    for url, host, port in (
        ("store://:s3cr%2Fet@host:6379/0", "host", 6379),
        ("store://user:a@b@host", "host", None),
        ("store://[::1]:1?x=%40", "::1", 1),
        ("file:///tmp/store.sock", None, None),
    ):
        parts = url_parts(url, ("store", "file"), "a store", "")
        assert (parts.hostname, parts.port) == (host, port)
    for bad in (None, b"store://host", "host:6379", "", "https://host"):
        with pytest.raises(ProgramError) as raised:
            url_parts(bad, ("store",), "a store", 'write "store://host"')
        assert raised.value.hint == 'write "store://host"'
