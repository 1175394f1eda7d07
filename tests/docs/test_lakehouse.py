"""The programs of docs/lakehouse.md: tables are queried while their jobs run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rheos.api.overrides import Overrides, applied
from rheos.api.partial_settings import from_command
from rheos.connectors.delta.committer import DeltaTableCommitter
from tests.connectors.mysql.databases import new_database
from tests.docs.walks import steps

PAGE = Path(__file__).parents[2] / "docs" / "lakehouse.md"
ROWS = "count=12_000, rate_per_s=100"
FOLLOWED = 'rh.mysql.changes("customers", url=URL)'


def run(file: str, *changes: tuple[str, str]) -> None:
    """Run the program of this name, with changes of its text."""
    [code] = [step.code for step in steps(PAGE) if step.file == file]
    for old, new in changes:
        assert old in code
        code = code.replace(old, new)
    with applied(Overrides((from_command({"runtime": "simulated"}),))):
        exec(compile(code, file, "exec"), {})


@pytest.fixture
def after_publishing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Take a function that is called while the job runs, after each commit to its Delta table but the
    first: each table exists."""

    def call(function: Callable[[], None]) -> None:
        right, commits = DeltaTableCommitter.commit, []

        def commit(committer: Any, committables: Sequence[bytes]) -> None:
            right(committer, committables)
            commits.append(committables)
            if len(commits) > 1:
                function()

        monkeypatch.setattr(DeltaTableCommitter, "commit", commit)

    return call


def test_tables_are_queried_while_a_job_writes_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    after_publishing: Callable[[Callable[[], None]], None],
) -> None:
    monkeypatch.chdir(tmp_path)
    shown: list[str] = []

    def query() -> None:
        run("query.py")
        shown.append(capsys.readouterr().out)

    after_publishing(query)
    run("orders.py", (ROWS, "count=1_200, rate_per_s=100"))
    query()
    assert len(set(shown)) > 1, "the job was still writing when they were queried first"
    assert "599.5" in shown[-1], "the largest of 1,200 orders"
    for shop in range(3):
        assert str(sum(number * 0.5 for number in range(shop, 1_200, 3))) in shown[-1]


def test_a_database_is_followed(
    mariadb_server: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database = new_database(mariadb_server)
    [setup] = [part.split("```")[0] for part in PAGE.read_text().split("```sql\n")[1:]]
    database.run(*filter(None, map(str.strip, setup.split(";"))))
    monkeypatch.setenv("SHOP", database.url)
    monkeypatch.chdir(tmp_path)
    run("customers.py", (FOLLOWED, FOLLOWED.replace(")", ', end="now")')))
    run("customers_query.py")
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("London", "Malmö", "2025-07-15"))
    assert "differences" in shown


def test_no_program_is_overlooked() -> None:
    tested = Path(__file__).read_text()
    assert all(f'run("{step.file}"' in tested for step in steps(PAGE) if step.file)
