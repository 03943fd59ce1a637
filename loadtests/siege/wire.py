"""HTTP/1.1 on a raw socket: just enough to measure, and to misbehave."""

import asyncio
import json
import time

JSON = "content-type: application/json"
ONE_SHOT = "accept: text/event-stream"


class Refused(Exception):
    """Anything but a good answer."""


class Target:
    """A gateway's address and, if there is one, a credential."""

    def __init__(self, port, key=None):
        self.port = port
        self.key = key

    def head(self, method, path, headers, length):
        lines = [f"{method} {path} HTTP/1.1", "host: localhost", *headers]
        if self.key:
            lines.append(f"authorization: Bearer {self.key}")
        if length is not None:
            lines.append(f"content-length: {length}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def open(self):
        return await asyncio.open_connection("127.0.0.1", self.port)


class Wire:
    """One connection, used again as long as it lasts."""

    def __init__(self, target):
        self.target = target
        self.streams = None

    def close(self):
        if self.streams:
            self.streams[1].close()
            self.streams = None

    async def request(self, method, path, headers=(), body=b"", limit=30):
        """Status, headers and body."""
        if not self.streams:
            self.streams = await self.target.open()
        try:
            return await asyncio.wait_for(self._request(method, path, headers, body), limit)
        except BaseException:
            self.close()
            raise

    async def _request(self, method, path, headers, body):
        reader, writer = self.streams
        writer.write(self.target.head(method, path, headers, len(body)) + body)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        status = int(head[0].split()[1])
        pairs = (line.split(": ", 1) for line in head[1:] if ": " in line)
        named = {name.lower(): value for name, value in pairs}
        if named.get("transfer-encoding") == "chunked":
            content = b""
            while size := int(await reader.readline(), 16):
                content += await reader.readexactly(size)
                await reader.readexactly(2)
            await reader.readexactly(2)
        else:
            content = await reader.readexactly(int(named.get("content-length", 0)))
        if named.get("connection") == "close":
            self.close()
        return status, named, content


class Caller:
    """A connection of the protocol, on one wire."""

    def __init__(self, target, wire=None):
        self.target = target
        self.wire = wire or Wire(target)
        self.token = None
        self.ids = 0

    async def initialize(self):
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
        body = json.dumps(message).encode()
        status, headers, content = await self.wire.request("POST", "/acp", [JSON], body)
        if status != 200 or "result" not in json.loads(content):
            raise Refused(f"initialize: {status} {content[:200]}")
        self.token = headers["acp-connection-id"]
        return self

    async def call(self, method, params, wire=None):
        """The answer to a request, which comes in the body."""
        self.ids += 1
        message = {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}
        status, content = await self.post(message, [ONE_SHOT], wire)
        if status != 200:
            raise Refused(f"{method}: {status} {content[:200]}")
        lines = [line[5:] for line in content.split(b"\n") if line.startswith(b"data:")]
        for line in reversed(lines):
            answer = json.loads(line)
            if answer.get("id") == self.ids and "method" not in answer:
                if "result" not in answer:
                    raise Refused(f"{method}: {answer['error']}")
                return answer["result"]
        raise Refused(f"{method}: no answer in {content[-200:]}")

    async def post(self, message, headers=(), wire=None):
        named = [JSON, f"acp-connection-id: {self.token}", *headers]
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        status, _, content = await (wire or self.wire).request("POST", "/acp", named, body)
        return status, content

    async def new_session(self):
        result = await self.call("session/new", {"cwd": "/tmp", "mcpServers": []})
        return result["sessionId"]

    async def turn(self, session, text="/count 5", wire=None):
        """How long a turn takes, from the first byte sent to the last received."""
        began = time.perf_counter()
        prompt = [{"type": "text", "text": text}]
        result = await self.call("session/prompt", {"sessionId": session, "prompt": prompt}, wire)
        if result.get("stopReason") != "end_turn":
            raise Refused(f"session/prompt: {result}")
        return time.perf_counter() - began
