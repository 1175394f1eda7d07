"""Addresses on which the dashboard listens, and the requests that it admits."""

from __future__ import annotations

import contextlib
import json
import stat
import urllib.request
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rheos.core.errors import ConfigurationError
from rheos.ops.dashboard.access import (
    CODE_WITHIN_S,
    Access,
    Holder,
    Role,
    SignInCode,
    TokenFile,
    holders_of,
)
from rheos.ops.dashboard.serving import DashboardConfig, DashboardServer

LONG = "0123456789abcdef"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))


def written(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "tokens.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def answered(url: str, authorization: str, method: str = "GET") -> Any:
    request = urllib.request.Request(url, headers={"Authorization": authorization}, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def test_the_server_answers_at_once_and_cleans_up(tmp_path: Path) -> None:
    server = DashboardServer(DashboardConfig(port=0))
    try:
        assert server.token_file is not None
        assert stat.S_IMODE(server.token_file.stat().st_mode) == 0o600
        token = server.token_file.read_text().strip()
        assert answered(f"{server.url}api/v1/jobs", f"Bearer {token}") == []
        taken = int(server.url.rstrip("/").rpartition(":")[2])
        with pytest.raises(ConfigurationError, match="the dashboard cannot listen at"):
            DashboardServer(DashboardConfig(port=taken))
    finally:
        server.close()
    assert list(server.token_file.parent.iterdir()) == []
    again = DashboardServer(DashboardConfig(port=taken))
    again.close()


def test_a_sign_in_code_works_once() -> None:
    server = DashboardServer(DashboardConfig(port=0))
    with contextlib.closing(server):
        url, _, code = server.address.partition("#code=")
        assert url == server.url
        with pytest.raises(urllib.error.HTTPError, match="401"):
            answered(f"{url}api/v1/sign-in", f"Code {code}x", "POST")
        token = answered(f"{url}api/v1/sign-in", f"Code {code}", "POST")["token"]
        assert answered(f"{url}api/v1/jobs", f"Bearer {token}") == []
        with pytest.raises(urllib.error.HTTPError, match="401"):
            answered(f"{url}api/v1/sign-in", f"Code {code}", "POST")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            answered(f"{url}api/v1/jobs", f"Bearer {code}")


def test_a_sign_in_code_expires_after_five_minutes() -> None:
    clock = [0.0]
    holder = Holder("owner", Role.OPERATE, LONG)
    early, late = (SignInCode(holder, lambda: clock[0]) for _ in range(2))
    clock[0] = CODE_WITHIN_S
    assert early.exchange(early.code) is holder
    clock[0] += 0.1
    assert late.exchange(late.code) is None


def test_logs_contain_neither_code_nor_token(tmp_path: Path) -> None:
    server = DashboardServer(DashboardConfig(port=0))
    with contextlib.closing(server):
        assert server.token_file is not None
        said = server.announcement(to_terminal=False)
        token = server.token_file.read_text().strip()
        assert str(server.token_file) in said
        assert token not in said
        assert server.address not in said
        assert server.address in server.announcement(to_terminal=True)
        assert token not in server.announcement(to_terminal=True)


def test_files_of_a_killed_dashboard_are_removed_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "home/dashboards"
    folder.mkdir(parents=True)
    (folder / "left.token").write_text("old")
    (folder / "other.txt").touch()
    with contextlib.closing(TokenFile("new")) as one, contextlib.closing(TokenFile("newer")) as other:
        assert {path.name for path in folder.iterdir()} == {one.path.name, other.path.name, "other.txt"}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (DashboardConfig(host="0.0.0.0"), "tokens would travel to 0.0.0.0 unencrypted"),
        (DashboardConfig(certificate=Path("a.pem")), "TLS needs both a certificate and its key"),
        (DashboardConfig(directories=["/nowhere/at/all"]), "does not exist"),
        (DashboardConfig(port=0, certificate=Path("a.pem"), key=Path("b.pem")), "the certificate"),
        (DashboardConfig(audit=Path("/proc/no/audit")), "the audit file cannot be written"),
    ],
)
def test_an_invalid_configuration_is_refused_at_once(config: DashboardConfig, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        DashboardServer(config)


READS = ("view", "state", "features")


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


def test_a_token_that_reads_may_be_limited_to_names(tmp_path: Path) -> None:
    text = f'[a]\nrole = "read"\ntoken = "{LONG}"\nview = ["sums", "day_*"]\nfeatures = []\n'
    (holder,) = holders_of(written(tmp_path, text))
    may = {each: holder.may_read(*each) for each in product(READS, ("sums", "day_1", "SUMS", "x"))}
    assert [each for each, allowed in may.items() if allowed] == [("view", "sums"), ("view", "day_1")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "contains no tokens"),
        (f'[a]\nrole = "read"\ntoken = "{LONG}"\nview = "sums"', "has no list of names in view"),
        (f'[a]\nrole = "read"\ntoken = "{LONG}"\nstate = [3]', "has no list of names in state"),
        (f'[a]\nrole = "look"\ntoken = "{LONG}"\nview = []', "limits what may be read"),
        (f'[a]\nrole = "operate"\ntoken = "{LONG}"\nview = []', "limits what may be read"),
        ("[a", "cannot be read"),
        ("a = 3", "must have exactly a role and a token"),
        (f'[a]\nrole = "admin"\ntoken = "{LONG}"', "has the unknown role 'admin'"),
        ('[a]\nrole = "look"\ntoken = "short"', "has a token that is easy to guess"),
        (f'[a]\nrole = "look"\ntoken = "{LONG}"\nmore = 1', "must have exactly a role and a token"),
        (
            f'[a]\nrole = "look"\ntoken = "{LONG}"\n[b]\nrole = "look"\ntoken = "{LONG}"',
            "have the same token",
        ),
    ],
)
def test_an_invalid_token_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        holders_of(written(tmp_path, text))


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can be read by other users"):
        holders_of(written(tmp_path, f'[a]\nrole = "look"\ntoken = "{LONG}"', 0o644))
