#!/usr/bin/env python3
"""An MCP server for tests of workers that die: notes every call of a tool before it carries it out.

Usage: notebook.py FILE
FILE: gets a line for each call, `TOOL ID`, by the argument `id`.
Tools: `look` only reads, `put` is idempotent, of `add` nothing is said.
"""

import json
import sys
import time

HINTS = {"look": {"readOnlyHint": True}, "put": {"idempotentHint": True}, "add": {}}
notes = open(sys.argv[1], "a", buffering=1)


def tool(name):
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    return {"name": name, "inputSchema": schema, "annotations": HINTS[name]}


def result(method, params):
    if method == "initialize":
        info = {"name": "notebook", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [tool(name) for name in HINTS]}
    if method == "tools/call":
        called = params["arguments"].get("id", "")
        notes.write(f"{params['name']} {called}\n")
        time.sleep(0.02)
        return {"content": [{"type": "text", "text": f"{params['name']} {called} done"}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        answer["result"] = result(message["method"], message.get("params", {}))
        print(json.dumps(answer), flush=True)
