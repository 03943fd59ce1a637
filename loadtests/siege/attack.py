#!/usr/bin/env python3
"""Callers with a credential and one without, who try to take the others down.

usage: attack.py ROLE PORT KEY SECONDS SESSION     prints how often each was answered how, as JSON
ROLE is bodies or floods, with the key, or stranger, without. SESSION is somebody else's."""

import asyncio
import collections
import json
import resource
import sys

from wire import Caller, JSON, Target, Wire

MIB = 1 << 20
NDJSON = "content-type: application/x-ndjson"
LARGE = 16 * MIB
SILENT = 1500
done = collections.Counter()


def note(what, outcome):
    done[f"{what} {outcome}"] += 1


async def forever(what, attempt):
    """Again and again, whatever comes of it."""
    while True:
        try:
            note(what, await attempt())
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, ValueError) as error:
            note(what, type(error).__name__)
            await asyncio.sleep(0.05)
        except Exception as error:  # Refused, and whatever else: the next try is another one.
            note(what, type(error).__name__)
            await asyncio.sleep(0.01)


async def half_sent(target, token, path, chunked):
    """Most of a body, and then nothing until somebody hangs up."""
    reader, writer = await target.open()
    try:
        kind = JSON if path == "/acp" else NDJSON
        headers = [kind, f"acp-connection-id: {token}"]
        if chunked:
            headers.append("transfer-encoding: chunked")
        writer.write(target.head("POST", path, headers, None if chunked else LARGE))
        if chunked:
            writer.write(f"{LARGE - 1:x}\r\n".encode())
        for _ in range(15):
            writer.write(b" " * MIB)
            await writer.drain()
        answer = await asyncio.wait_for(reader.read(4096), 30)
        await asyncio.sleep(0.2)
        return answer[9:12].decode() or "closed"
    finally:
        writer.close()


async def silent(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        await reader.read(1)
        await asyncio.sleep(0.2)
        return "closed"
    finally:
        writer.close()


async def half_a_head(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"POST /acp HTTP/1.1\r\nhost: loc")
        await writer.drain()
        await reader.read(1)
        return "closed"
    finally:
        writer.close()


async def opened(target):
    """A connection, as soon as one is to be had."""
    while True:
        try:
            return await Caller(target).initialize()
        except Exception as error:
            note("initialize", type(error).__name__)
            await asyncio.sleep(0.05)


async def own_session(caller):
    while True:
        try:
            return await caller.new_session()
        except Exception as error:
            note("first session", type(error).__name__)
            await asyncio.sleep(0.05)


async def bodies(port, key, foreign):
    """A caller with a credential sends nothing to its end."""
    target = Target(port, key)
    caller = await opened(target)
    tasks = []
    for number in range(40):
        path = "/v1/sessions/import" if number % 4 == 3 else "/acp"
        attempt = lambda path=path, number=number: half_sent(target, caller.token, path, number % 2)
        tasks.append(forever("half-sent body", attempt))
    await asyncio.gather(*tasks)


async def floods(port, key, foreign):
    """A caller with a credential asks for everything at once."""
    target = Target(port, key)
    caller = await opened(target)
    session = await own_session(caller)
    tasks = []

    def flood(what, messages, wires):
        for _ in range(wires):
            wire, numbers = Wire(target), iter(range(1 << 60))

            async def attempt(wire=wire, numbers=numbers):
                status, _ = await caller.post(messages(next(numbers)), wire=wire)
                return status

            tasks.append(forever(what, attempt))

    def request(method, params, kind):
        return lambda n: {"jsonrpc": "2.0", "id": f"{kind}-{n}", "method": method, "params": params(n)}

    flood("list", request("session/list", lambda n: {}, "l"), 2)
    flood("fork", request("session/fork", lambda n: {"sessionId": session}, "f"), 2)
    flood("fork at a message", request("session/fork", lambda n: {
        "sessionId": session, "_meta": {"baton/fork": {"atMessageId": f"m-{n}"}}}, "m"), 1)
    flood("new session", request("session/new", lambda n: {"cwd": "/tmp", "mcpServers": []}, "n"), 2)
    flood("prompt", request("session/prompt", lambda n: {
        "sessionId": session, "prompt": [{"type": "text", "text": "/count 1000"}]}, "p"), 1)
    flood("somebody else's session", request("session/load", lambda n: {
        "sessionId": foreign, "cwd": "/tmp", "mcpServers": []}, "o"), 1)
    flood("cancel", lambda n: {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": f"c-{n}"}}, 2)
    flood("large field", request("session/new", lambda n: {
        "cwd": "/" + "x" * 2 * MIB, "mcpServers": []}, "x"), 1)
    flood("large method", lambda n: {"jsonrpc": "2.0", "id": f"y-{n}", "method": "x" * 4 * MIB}, 1)
    for _ in range(2):
        wire = Wire(target)

        async def login(wire=wire):
            status, _, _ = await wire.request("POST", "/v1/login", [JSON, "origin: http://localhost"])
            return status

        tasks.append(forever("login", login))
    await asyncio.gather(*tasks)


async def stranger(port, key, foreign):
    """What anybody can do."""
    tasks = [forever("silent connection", lambda: silent(port)) for _ in range(SILENT)]
    tasks += [forever("half a head", lambda: half_a_head(port)) for _ in range(100)]
    for key in ["bk_wrong", None]:
        for _ in range(2):
            wire = Wire(Target(port, key))

            async def guess(wire=wire):
                status, _, _ = await wire.request("POST", "/v1/login", [JSON])
                return status

            tasks.append(forever("login without a key", guess))
    await asyncio.gather(*tasks)


async def main(role, port, key, seconds, foreign):
    attack = {"bodies": bodies, "floods": floods, "stranger": stranger}[role]
    try:
        await asyncio.wait_for(attack(port, key, foreign), seconds)
    except asyncio.TimeoutError:
        pass
    print(json.dumps(dict(sorted(done.items()))))


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    role, port, key, seconds, foreign = sys.argv[1:]
    asyncio.run(main(role, int(port), key, float(seconds), foreign))
