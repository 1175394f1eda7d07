"""Where the dashboard listens, and whom it lets in."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from rheos.dashboard.access import Access, Role, holders_of
from rheos.dashboard.serving import DashboardConfig, DashboardServer
from rheos.errors import ConfigurationError

LONG = "0123456789abcdef"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))


def written(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "tokens.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_it_answers_from_the_first_moment_and_leaves_nothing(tmp_path: Path) -> None:
    server = DashboardServer(DashboardConfig(port=0))
    try:
        url, _, token = server.address.partition("#token=")
        assert url == server.url
        request = urllib.request.Request(
            f"{url}api/v1/jobs", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert json.load(answer) == []
        taken = int(url.rstrip("/").rpartition(":")[2])
        with pytest.raises(ConfigurationError, match="the dashboard cannot listen at"):
            DashboardServer(DashboardConfig(port=taken))
    finally:
        server.close()
    again = DashboardServer(DashboardConfig(port=taken))
    again.close()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (DashboardConfig(host="0.0.0.0"), "tokens would travel to 0.0.0.0 unencrypted"),
        (DashboardConfig(certificate=Path("a.pem")), "a certificate and its key: say both"),
        (DashboardConfig(directories=["/nowhere/at/all"]), "there is no checkpoint directory"),
        (DashboardConfig(port=0, certificate=Path("a.pem"), key=Path("b.pem")), "the certificate"),
        (DashboardConfig(audit=Path("/proc/no/audit")), "the audit cannot be written"),
    ],
)
def test_what_cannot_be_served_is_said_at_once(config: DashboardConfig, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        DashboardServer(config)


def test_tokens_have_roles(tmp_path: Path) -> None:
    text = f'[oncall]\nrole = "operate"\ntoken = "{LONG}1"\n[wall]\nrole = "look"\ntoken = "{LONG}2"\n'
    access = Access(holders_of(written(tmp_path, text)))
    found = [access.holder(LONG + end) for end in "123"]
    assert [each and (each.name, each.role) for each in found] == [
        ("oncall", Role.OPERATE),
        ("wall", Role.LOOK),
        None,
    ]
    assert access.holder("größer") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no tokens"),
        ("[a", "cannot be read"),
        ("a = 3", "has not just a role and a token"),
        (f'[a]\nrole = "admin"\ntoken = "{LONG}"', "has the role 'admin'"),
        ('[a]\nrole = "look"\ntoken = "short"', "could be guessed"),
        (f'[a]\nrole = "look"\ntoken = "{LONG}"\nmore = 1', "has not just a role and a token"),
        (
            f'[a]\nrole = "look"\ntoken = "{LONG}"\n[b]\nrole = "look"\ntoken = "{LONG}"',
            "have the same token",
        ),
    ],
)
def test_a_file_of_tokens_that_makes_no_sense(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        holders_of(written(tmp_path, text))


def test_a_file_of_tokens_that_others_can_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can be read by other users"):
        holders_of(written(tmp_path, f'[a]\nrole = "look"\ntoken = "{LONG}"', 0o644))
