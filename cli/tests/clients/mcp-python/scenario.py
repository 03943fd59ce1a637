"""What an application does with Baton as an MCP server, with PyPI's official clients, unmodified.

    python scenario.py mcp-legacy|mcp-auto|fastmcp http://127.0.0.1:8080/mcp
"""

import asyncio
import sys

import mcp_types as types

kind, url = sys.argv[1:3]


def counted(count, prompt):
    return "".join(f"chunk {at} of {count}, prompt {prompt} " for at in range(1, count + 1))


def choose(schema):
    choice = schema["properties"]["choice"]
    offered = choice.get("enum") or [option["const"] for option in choice["oneOf"]]
    assert "allow_once" in offered, choice
    return {"choice": "allow_once"}


async def elicit(context, params):
    return types.ElicitResult(action="accept", content=choose(dict(params.requested_schema)))


async def elicit_fast(message, response_type, params, context):
    return {"choice": "allow_once"}


class Official:
    """`mcp.Client`."""

    def __init__(self):
        from mcp.client.client import Client

        mode = "legacy" if kind == "mcp-legacy" else "auto"
        self.client = Client(url, mode=mode, elicitation_callback=elicit)

    async def call(self, name, arguments, progress=None):
        result = await self.client.call_tool(name, arguments, progress_callback=progress)
        return result.is_error, result.structured_content, result.content

    async def tools(self):
        return [tool.name for tool in (await self.client.list_tools()).tools]


class Fast:
    """`fastmcp.Client`."""

    def __init__(self):
        from fastmcp import Client

        self.client = Client(url, elicitation_handler=elicit_fast)

    async def call(self, name, arguments, progress=None):
        result = await self.client.call_tool(
            name, arguments, progress_handler=progress, raise_on_error=False
        )
        return result.is_error, result.structured_content, result.content

    async def tools(self):
        return [tool.name for tool in await self.client.list_tools()]


async def main():
    peer = Fast() if kind == "fastmcp" else Official()
    async with peer.client:
        assert await peer.tools() == [
            "list_agents",
            "start",
            "continue",
            "status",
            "read",
            "cancel",
            "list_sessions",
            "close",
        ]
        heard = []

        async def progress(done, total, message):
            heard.append(message)

        _, started, content = await peer.call("start", {"prompt": "/count 10 delay=5"}, progress)
        assert started["status"] == "completed" and started["text"] == counted(10, 1), started
        assert "".join(heard) == counted(10, 1), heard
        session = started["session"]
        assert any(session in block.text for block in content)
        _, continued, _ = await peer.call("continue", {"session": session, "prompt": "/count 2"})
        assert continued["text"] == counted(2, 2), continued
        _, asked, _ = await peer.call("continue", {"session": session, "prompt": "/permission"})
        assert asked["text"] == "permission allow_once ", asked
        _, working, _ = await peer.call(
            "continue", {"session": session, "prompt": "/sleep 600000", "waitSeconds": 0}
        )
        assert working["status"] == "working", working
        await peer.call("cancel", {"session": session})
        _, over, _ = await peer.call("status", {"session": session, "waitSeconds": 50})
        assert over["status"] == "cancelled", over
        _, page, _ = await peer.call("read", {"session": session})
        said = [entry["text"] for entry in page["entries"] if entry["role"] == "agent"]
        assert said[:2] == [counted(10, 1), counted(2, 2)], page
        failed, _, content = await peer.call("status", {"session": "000-0123456789012345678901"})
        assert failed and content[0].text.startswith("there is no session"), content
        _, listed, _ = await peer.call("list_sessions", {})
        assert session in [each["session"] for each in listed["sessions"]]
        await peer.call("close", {"session": session})
    print("scenario passed")


asyncio.run(main())
