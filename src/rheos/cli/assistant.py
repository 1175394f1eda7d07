"""`rheos mcp`: tools for an assistant, on standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rheos.cli.terminal import report
from rheos.core.errors import ConfigurationError
from rheos.ops.control.job_list import stored_jobs
from rheos.ops.dashboard.access import Audit
from rheos.ops.dashboard.operation_runner import Caller, OperationRunner
from rheos.ops.dashboard.replays import ReplayProcesses
from rheos.ops.dashboard.served_jobs import ServedJobs
from rheos.runtimes.operation_contract import Role


def serve_assistant(directories: Sequence[str], role: Role | None, audit: Path | None) -> int:
    """Serve one assistant until it closes standard input; return the exit code."""
    try:
        try:
            from rheos.ops.assistant.server import assistant_server, serve_stdio
        except ImportError as error:
            raise ConfigurationError(
                "this command needs the package mcp", hint="pip install 'rheos[mcp]'"
            ) from error
        from rheos.ops.assistant.sql_plans import ExplainSqlTool
        from rheos.ops.assistant.tools import operation_tools

        for directory in directories:
            stored_jobs(directory)
        with ExitStack() as undo:
            log = Audit(audit)
            undo.callback(log.close)
            replays = ReplayProcesses(None)
            undo.callback(replays.close)
            runner = OperationRunner(ServedJobs(directories), log, replays)
            tools = operation_tools(runner, Caller("assistant", "stdio"), role)
            with contextlib.suppress(KeyboardInterrupt):
                asyncio.run(serve_stdio(assistant_server([*tools, ExplainSqlTool()])))
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    return 0
