"""The scripts of docs/sql-scripts.md: on files, and on real servers. The jobs are simulated."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from tests.connectors.kafka.topics import new_topic, read
from tests.connectors.mysql.databases import new_database as new_mariadb
from tests.connectors.postgres.databases import new_database as new_postgres

PAGE = Path(__file__).parents[2] / "docs" / "sql-scripts.md"


def run(file: str, replaced: Mapping[str, str], folder: Path) -> None:
    """Run the script with this name, with other options."""
    pattern = rf"<!-- file: {file} -->\n```sql\n(.*?)```"
    [script] = re.findall(pattern, PAGE.read_text(), re.DOTALL)
    for written, other in replaced.items():
        assert written in script
        script = script.replace(written, other)
    env = rh.Environment(2, runtime="simulated", checkpoint_dir=str(folder / "checkpoints"))
    env.sql_script(script)
    env.execute(file.partition(".")[0])


def test_numbers_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run("numbers.sql", {}, tmp_path)
    rows = sqlite3.connect("numbers.db").execute("SELECT n FROM numbers ORDER BY n").fetchall()
    assert rows == [(n,) for n in range(1, 101)]
    lines = [
        line for path in (tmp_path / "numbers").rglob("*.csv*") for line in path.read_text().split()
    ]
    assert sorted(int(line.split(",")[0]) for line in lines) == [*range(1, 101)]
    shown = capsys.readouterr().out
    assert "99" in shown
    assert "100" in shown


def login(database: Any) -> dict[str, str]:
    user = database.url.split("//")[1].split(":")[0]
    return {
        "'username' = 'ada'": f"'username' = '{user}'",
        "'password' = 'lovelace'": f"'password' = '{database.password}'",
        "'hostname' = 'localhost'": "'hostname' = '127.0.0.1'",
        "'database-name' = 'shop'": f"'database-name' = '{database.name}', 'end' = 'now'",
    }


def test_changes_of_two_databases_are_joined(
    kafka_broker: Any, mariadb_server: Any, postgres_server: Any, tmp_path: Path
) -> None:
    shop, people = new_mariadb(mariadb_server), new_postgres(postgres_server)
    topic = {
        "'topic' = 'spent'": f"'topic' = '{new_topic(kafka_broker.address)}'",
        "localhost:9092": kafka_broker.address,
    }
    shop.run(
        "CREATE TABLE orders (id int PRIMARY KEY, customer varchar(20), cents bigint)",
        "INSERT INTO orders VALUES (1, 'ada', 150), (2, 'bob', 200), (3, 'ada', 25), (4, 'cy', 7)",
    )
    run(
        "spent.sql",
        {**topic, **login(shop), "3306": shop.server.address.split(":")[1]},
        tmp_path,
    )
    records = read(kafka_broker.address, topic["'topic' = 'spent'"].split("'")[3])
    last = {record.key: json.loads(record.value)["cents"] for record in records}
    assert last == {b"ada": 175, b"bob": 200, b"cy": 7}

    people.run(
        "CREATE TABLE customers (name text PRIMARY KEY, city text)",
        "CREATE TABLE cities (city text PRIMARY KEY, cents bigint)",
        "INSERT INTO customers VALUES ('ada', 'London'), ('bob', 'Paris'), ('cy', 'London')",
    )
    replaced = {
        **topic,
        **login(people),
        "localhost:5432/shop": f"127.0.0.1:{people.server.address.split(':')[1]}/{people.name}",
        "'5432'": f"'{people.server.address.split(':')[1]}'",
        "'key.format' = 'raw'": "'key.format' = 'raw', 'scan.bounded.mode' = 'latest-offset'",
    }
    run("cities.sql", replaced, tmp_path / "second")
    assert people.rows("SELECT * FROM cities ORDER BY city") == [("London", 182), ("Paris", 200)]
