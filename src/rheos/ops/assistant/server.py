"""The server of the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from rheos.connectors.listener.threads import in_thread
from rheos.core.errors import RheosError, unexpected
from rheos.core.version import VERSION
from rheos.ops.assistant.tools import AssistantTool

MAX_ANSWER_CHARS = 200_000
"""Maximum length of an answer; the rest is cut off, and the answer tells so."""
_INSTRUCTIONS = (
    "Rheos runs stream processing jobs. Begin with `jobs`. `health` names what is wrong with a job "
    "and what to do; `why` shows the input rows of an output row, `why_not` why a window or timer has "
    "not fired."
)


def assistant_server(tools: Sequence[AssistantTool]) -> Server[Any]:
    """Return a server with these tools. Calls run in threads; the server ends without waiting for
    them."""
    by_name = {tool.name: tool for tool in tools}

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in tools])

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = by_name.get(params.name)
        if tool is None:
            return _failed(f"unknown tool {params.name!r}: the tools are {', '.join(by_name)}")
        arguments = params.arguments or {}
        try:
            answer = (await in_thread(lambda: tool.run(arguments))).decode()
        except RheosError as error:
            return _failed(str(error))
        except Exception as error:
            return _failed(str(unexpected(error)))
        if len(answer) > MAX_ANSWER_CHARS:
            left = len(answer) - MAX_ANSWER_CHARS
            answer = f"{answer[:MAX_ANSWER_CHARS]}\n({left:,} more characters were cut off)"
        return types.CallToolResult(content=[types.TextContent(type="text", text=answer)])

    return Server(
        "rheos",
        version=VERSION,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client on standard input and output, until it closes them."""
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _described(tool: AssistantTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.schema),
        annotations=types.ToolAnnotations(read_only_hint=tool.changes_nothing),
    )


def _failed(what: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=what)], is_error=True)
