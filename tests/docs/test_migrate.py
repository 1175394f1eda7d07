"""The page about moving a query: its query runs, its checkpoint is moved, and its job continues."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rheos.api.program_file import run_file
from rheos.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "migrate.md"
FILE = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END\n```$", re.MULTILINE | re.DOTALL)


def rheos(*arguments: str) -> str:
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.output
    return ran.stdout


@pytest.mark.spark
def test_the_job_of_the_page_continues_its_query(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = dict(FILE.findall(PAGE.read_text()))
    assert files.keys() == {"orders/1.json", "query.py", "job.py", "orders/2.json"}
    for name in ("orders", "checkpoint"):
        # The JVM of the tests was started in another folder.
        files["query.py"] = re.sub(
            rf'([(,] ?)"{name}"\)', rf'\1"{tmp_path}/{name}")', files["query.py"]
        )
    later = files.pop("orders/2.json")
    Path("orders").mkdir()
    for name, text in files.items():
        Path(name).write_text(text)
    run_file(Path("query.py"), [])

    explained = rheos("migrate", "checkpoint", "job.py")
    assert "moved: source 0" in explained
    assert "operator 0 (stateStoreSave) -> running" in explained
    Path("orders/2.json").write_text(later)
    move = ("migrate", "checkpoint", "--to", "savepoint", "--prove", "query.py")
    other = files["job.py"].replace("orders.key_by", 'orders.filter(rh.col("cents") != 50).key_by')
    Path("other.py").write_text(other)
    differs = CliRunner().invoke(app, [*move, "other.py"])
    assert differs.exit_code == 1, differs.output
    assert "first difference, customer=ada: only the query emits" in differs.stdout
    assert not Path("savepoint").exists()
    written = rheos(*move, "job.py")
    for line in re.findall(r"^```\n(compared .*?)```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        assert line in written.replace(f"{tmp_path}/", "")
    assert "start the job with: rheos run job.py --from-savepoint" in written

    rheos("run", "job.py", "--from-savepoint", "savepoint")
    rows = [
        json.loads(line)
        for file in Path("totals").rglob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert sorted((row["customer"], row["n"], row["cents"]) for row in rows) == [
        ("ada", 2, 350),
        ("eve", 1, 7),
    ]
