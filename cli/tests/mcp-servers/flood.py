#!/usr/bin/env python3
"""An MCP server that asks without end and reads no answers, as soon as its tool is called."""

import json
import sys


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        info = {"name": "flood", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        say({"id": message["id"], "result": result})
    elif message["method"] == "tools/list":
        tools = [{"name": "open", "inputSchema": {"type": "object"}}]
        say({"id": message["id"], "result": {"tools": tools}})
    elif message["method"] == "tools/call":
        number = 0
        while True:
            number += 1
            say({"id": f"{number}-{'x' * 1000}", "method": "ping"})
