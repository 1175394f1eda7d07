"""Permissions: named tokens with a role each, and an audit line for every operation."""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import stat
import threading
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rheos.core.errors import ConfigurationError
from rheos.ops.control.registry import home_folder
from rheos.runtimes.host.scratch import left_files, locked_file
from rheos.runtimes.job_operations import JOB_OPERATIONS
from rheos.runtimes.operation_contract import Role

CODE_WITHIN_S = 300.0
"""Seconds within which the code of a printed address can be exchanged."""
_SHORTEST_TOKEN = 16
_TOKEN = ".token"


@dataclass(frozen=True, repr=False)
class Holder:
    """The holder of a token. The audit log contains its name."""

    name: str
    role: Role
    token: str
    rows: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Patterns of the names from which it may read rows, by operation: view, state, features. Empty:
    the role alone decides."""

    def may_read(self, operation: str, name: str) -> bool:
        """Return whether it may read rows with this operation from what has this name. Its role must
        permit the operation.

        >>> holder = Holder("billing", Role.READ, "...", {"view": ["invoices", "totals_*"]})
        >>> [holder.may_read(*each) for each in (("view", "totals_day"), ("state", "invoices"))]
        [True, False]
        """
        patterns = self.rows.get(operation, ()) if self.rows else ("*",)
        return any(fnmatchcase(name, pattern) for pattern in patterns)


class Access:
    """The tokens that are accepted."""

    def __init__(self, holders: Sequence[Holder]) -> None:
        self._holders = holders

    def holder(self, token: str) -> Holder | None:
        """Return the token's holder, or None. Takes the same time for every token."""
        found = None
        for holder in self._holders:
            if hmac.compare_digest(holder.token.encode(), token.encode()):
                found = holder
        return found


def drawn_holder() -> Holder:
    """Return the user who starts the dashboard, with a random token."""
    return Holder("owner", Role.OPERATE, secrets.token_urlsafe(24))


def holders_of(path: Path) -> list[Holder]:
    """Return the holders in a TOML file, which has a table with `role` and `token` for each name. A
    table with the role `read` may also list the names from which rows may be read. Raise
    ConfigurationError if the file cannot be read, or other users can read it."""
    try:
        mode = path.stat().st_mode
        tables = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the tokens in {str(path)!r} cannot be read: {error}") from error
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise ConfigurationError(
            f"the tokens in {str(path)!r} can be read by other users", hint=f"chmod 600 {path}"
        )
    if not tables:
        raise ConfigurationError(
            f"{str(path)!r} contains no tokens",
            hint='write a table for each user: [oncall] with role = "operate" and token = "..."',
        )
    holders = [_holder(name, table, path) for name, table in tables.items()]
    if len({holder.token for holder in holders}) < len(holders):
        raise ConfigurationError(f"two users in {str(path)!r} have the same token")
    return holders


def _holder(name: str, table: Any, path: Path) -> Holder:
    where = f"[{name}] in {str(path)!r}"
    rows_of = {each.name for each in JOB_OPERATIONS if each.role is Role.READ}
    if not isinstance(table, Mapping) or set(table) - rows_of != {"role", "token"}:
        raise ConfigurationError(
            f"{where} must have exactly a role and a token",
            hint=f"only {', '.join(sorted(rows_of))} may be added, with names that it may read",
        )
    role, token = table["role"], table["token"]
    if role not in [each.value for each in Role]:
        raise ConfigurationError(
            f"{where} has the unknown role {role!r}", hint='use "look", "read" or "operate"'
        )
    if not isinstance(token, str) or len(token) < _SHORTEST_TOKEN or not token.isascii():
        raise ConfigurationError(
            f"{where} has a token that is easy to guess",
            hint='create one: python -c "import secrets; print(secrets.token_urlsafe(24))"',
        )
    rows = {each: table[each] for each in sorted(rows_of & set(table))}
    for each, patterns in rows.items():
        if not isinstance(patterns, list) or not all(isinstance(one, str) for one in patterns):
            raise ConfigurationError(
                f"{where} has no list of names in {each}", hint=f'write {each} = ["totals", "daily_*"]'
            )
    if rows and role != Role.READ.value:
        raise ConfigurationError(
            f"{where} limits what may be read, but its role is {role!r}",
            hint='"look" reads no rows, and "operate" all; write role = "read"',
        )
    return Holder(name, Role(role), token, rows)


class Audit:
    """An append-only file with a line of JSON for every requested operation."""

    def __init__(self, path: Path | None = None) -> None:
        """Open the file. Raise ConfigurationError if it cannot be written."""
        self.path = path or home_folder() / "audit.jsonl"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError(f"the audit file cannot be written: {error}") from error

    def note(
        self,
        who: str,
        address: str,
        operation: str,
        job: str,
        arguments: Mapping[str, Any],
        outcome: str,
    ) -> None:
        """Add a line. `arguments` must not contain secrets.

        Raises:
            OSError: the line cannot be written. The caller must then refuse the operation.
        """
        line = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "who": who,
            "from": address,
            "operation": operation,
            "job": job,
            "arguments": arguments,
            "outcome": outcome,
        }
        os.write(self._file, (json.dumps(line) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


class SignInCode:
    """A code that is exchanged once, within five minutes, for the token of its holder. So an address in
    a log or a browser's history gives no access. For any thread."""

    def __init__(self, holder: Holder, now_s: Callable[[], float] = time.monotonic) -> None:
        self.code = secrets.token_urlsafe(24)
        self._holder = holder
        self._now_s = now_s
        self._deadline_s = now_s() + CODE_WITHIN_S
        self._lock = threading.Lock()
        self._used = False

    def exchange(self, code: str) -> Holder | None:
        """Return the holder; None if the code is wrong, was used, or has expired."""
        if not hmac.compare_digest(self.code.encode(), code.encode()):
            return None
        with self._lock:
            fits = not self._used and self._now_s() <= self._deadline_s
            self._used = True
        return self._holder if fits else None


class TokenFile:
    """A private file with the random token of a dashboard. It is removed with the dashboard, or by the
    next dashboard if this one was killed."""

    def __init__(self, token: str) -> None:
        """Write the file. Raise ConfigurationError if that fails."""
        folder = home_folder() / "dashboards"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for left in left_files(folder, ("",), _TOKEN):
                left.unlink(missing_ok=True)
            self._file, self.path = locked_file(folder, "", _TOKEN)
            os.write(self._file, f"{token}\n".encode())
        except OSError as error:
            raise ConfigurationError(f"the dashboard's token cannot be written: {error}") from error

    def close(self) -> None:
        """Remove the file. May be called again."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                self.path.unlink()
            os.close(self._file)
            self._file = -1
