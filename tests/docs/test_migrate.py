"""The page about moving a query: its query runs, its checkpoint is moved, and its job continues."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rheos.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "migrate.md"
FILE = re.compile(r"^```sh\ncat > (\S+) <<'END'\n(.*?)^END\n```$", re.MULTILINE | re.DOTALL)


@pytest.mark.spark
def test_the_job_of_the_page_continues_its_query(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = dict(FILE.findall(PAGE.read_text()))
    assert files.keys() == {"query.py", "job.py"}
    names: dict[str, Any] = {"__name__": "__main__"}
    query = files["query.py"]
    for name in ("orders", "checkpoint"):
        # The JVM of the tests was started in another folder.
        query = re.sub(rf'([(,] ?)"{name}"\)', rf'\1"{tmp_path}/{name}")', query)
    exec(compile(query, "query.py", "exec"), names)
    Path("job.py").write_text(files["job.py"])

    explained = CliRunner().invoke(app, ["migrate", "checkpoint", "job.py"])
    assert explained.exit_code == 0, explained.output
    assert "moved: source 0" in explained.stdout
    assert "operator 0 (stateStoreSave) -> running" in explained.stdout
    assert not Path("savepoint").exists()
    written = CliRunner().invoke(app, ["migrate", "checkpoint", "job.py", "--to", "savepoint"])
    assert written.exit_code == 0, written.output
    assert "start the job with: rheos run job.py --from-savepoint" in written.stdout

    names["put"]("2.json", '{"customer": "ada", "cents": 50}', '{"customer": "eve", "cents": 7}')
    ran = CliRunner().invoke(app, ["run", "job.py", "--from-savepoint", "savepoint"])
    assert ran.exit_code == 0, ran.output
    rows = [
        json.loads(line)
        for file in Path("totals").rglob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert sorted((row["customer"], row["n"], row["cents"]) for row in rows) == [
        ("ada", 2, 350),
        ("eve", 1, 7),
    ]
