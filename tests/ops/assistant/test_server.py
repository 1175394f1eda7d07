"""An assistant calls the operations on jobs as tools, within its role."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra rheos[mcp] is not installed")

import mcp

from rheos.ops.assistant.server import MAX_ANSWER_CHARS, assistant_server
from rheos.ops.assistant.sql_plans import ExplainSqlTool
from rheos.ops.assistant.tools import AssistantTool, operation_tools
from rheos.ops.dashboard.access import Audit
from rheos.ops.dashboard.operation_runner import Caller, OperationRunner
from rheos.ops.dashboard.replays import ReplayProcesses
from rheos.ops.dashboard.served_jobs import ServedJobs
from rheos.runtimes.operation_contract import Role
from tests.cli.stand_ins import StandIn
from tests.ops.dashboard.conftest import job

__all__ = ["job"]

CHANGES = {"cancel", "fork", "profile", "rescale", "savepoint", "stop"}
SCRIPT = """
CREATE TABLE orders (id INT, cents INT) WITH ('connector' = 'datagen', 'number-of-rows' = '5');
EXPLAIN SELECT id, SUM(cents) FROM orders GROUP BY id
"""


def tools(folder: Path, role: Role | None) -> list[AssistantTool]:
    runner = OperationRunner(ServedJobs([]), Audit(folder / "audit.jsonl"), ReplayProcesses(None))
    return [*operation_tools(runner, Caller("assistant", "stdio"), role), ExplainSqlTool()]


def asked(served: Sequence[AssistantTool], ask: Callable[[mcp.Client], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with mcp.Client(assistant_server(served)) as client:
            return await ask(client)

    return asyncio.run(run())


def called(served: Sequence[AssistantTool], name: str, **arguments: Any) -> tuple[bool, str]:
    """Return whether the call failed, and its answer."""
    done = asked(served, lambda client: client.call_tool(name, arguments))
    (content,) = done.content
    return bool(done.is_error), content.text


def answer(served: Sequence[AssistantTool], name: str, **arguments: Any) -> Any:
    failed, text = called(served, name, **arguments)
    assert not failed, text
    return json.loads(text)


def test_by_default_the_tools_change_nothing(tmp_path: Path) -> None:
    listed = asked(tools(tmp_path, None), lambda client: client.list_tools()).tools
    names = {tool.name for tool in listed}
    assert names >= {
        "jobs",
        "job",
        "plan",
        "metrics",
        "health",
        "why",
        "why_not",
        "debug",
        "explain_sql",
    }
    assert not names & CHANGES
    assert all(tool.annotations.read_only_hint for tool in listed)
    assert all(tool.description and tool.input_schema["type"] == "object" for tool in listed)


@pytest.mark.parametrize("role", Role)
def test_a_role_has_the_tools_of_its_tokens(tmp_path: Path, role: Role) -> None:
    names = {tool.name for tool in tools(tmp_path, role)}
    assert bool(names & CHANGES) == ("why" in names) == (role is Role.OPERATE)
    assert (names >= CHANGES) == (role is Role.OPERATE)
    assert ("view" in names) == (role is not Role.LOOK)


def test_jobs_are_looked_at(tmp_path: Path, job: StandIn) -> None:
    served = tools(tmp_path, None)
    (listed,) = answer(served, "jobs")
    assert answer(served, "metrics", job=listed["key"])
    assert answer(served, "plan", job="job")
    assert answer(served, "event_log", job="job", lines="3") is not None


def test_changes_are_audited(tmp_path: Path, job: StandIn) -> None:
    served = tools(tmp_path, Role.OPERATE)
    answer(served, "savepoint", job="job")
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(line["who"], line["operation"], line["outcome"]) for line in lines] == [
        ("assistant", "savepoint", "asked for"),
        ("assistant", "savepoint", "done"),
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "what"),
    [
        ("job", {"job": "other"}, "unknown job 'other'"),
        ("job", {}, "a job must be named"),
        ("job", {"job": 7}, "a job must be named"),
        ("job", {"job": "job", "key": "x"}, "'job' has no argument 'key'"),
        ("job", {"job": "a\0"}, "unknown job"),
        ("why_not", {"job": "job", "operator": ["a"]}, "must be a string"),
        ("why_not", {"job": "job", "operator": "a\ud800"}, ""),
        ("why", {"job": "job", "sink": 3}, "not valid for 'why'"),
        ("why", {"job": "job", "sink": "out", "row": {}, "surprise": 1}, "not valid for 'why'"),
        ("cancel", {"job": "job"}, "unknown tool 'cancel'"),
        ("explain_sql", {"sql": "SELEC 1"}, "SELEC"),
        ("explain_sql", {"sql": "CREATE VIEW a AS SELECT 1"}, "nothing to explain"),
        ("explain_sql", {"sql": "SELECT 1", "file": "x"}, "takes one argument"),
        ("explain_sql", {"sql": "x" * 100_000}, "at most"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, job: StandIn, name: str, arguments: dict[str, Any], what: str
) -> None:
    try:
        failed, text = called(tools(tmp_path, None), name, **arguments)
    except UnicodeEncodeError:
        return  # The client cannot send it.
    assert failed
    assert what in text


def test_sql_is_explained(tmp_path: Path) -> None:
    plan = answer(tools(tmp_path, None), "explain_sql", sql=SCRIPT)["plan"]
    assert "orders" in plan
    assert "id" in plan


class LongAnswer:
    name = "long"
    description = "A long answer"
    changes_nothing = True
    schema: dict[str, Any] = {"type": "object"}

    def run(self, arguments: Any) -> bytes:
        return b"x" * (MAX_ANSWER_CHARS + 10)


def test_long_answers_are_cut_off() -> None:
    failed, text = called([LongAnswer()], "long")
    assert not failed
    assert text.endswith("(10 more characters were cut off)")


def test_the_command_serves_standard_input_and_output(tmp_path: Path) -> None:
    async def run() -> Any:
        command = mcp.StdioServerParameters(
            command=sys.executable,
            args=["-m", "rheos", "mcp"],
            env={"RHEOS_HOME": str(tmp_path), "PATH": ""},
        )
        async with mcp.Client(command) as client:
            return await client.call_tool("jobs", {})

    done = asyncio.run(run())
    assert json.loads(done.content[0].text) == []
