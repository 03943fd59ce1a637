"""A connection of the official Python SDK, unmodified, and what every scenario is made of."""

import asyncio
import os
import sys
import traceback
from contextlib import contextmanager
from itertools import zip_longest

import httpx
from acp import RequestPermissionResponse, connect_to_agent, text_block
from acp.http import create_http_stream
from acp.schema import AllowedOutcome, ClientCapabilities, DeniedOutcome, Implementation
from acp.ws import create_websocket_stream

LIMIT_S = 60
SESSION_AT = {"cwd": "/tmp", "mcp_servers": []}


class Peer:
    """One transport with its SDK connection, and everything the agent sent over it."""

    def __init__(self):
        self.updates = []
        self.permission_requests = []
        self.delete_statuses = []
        self._arrived = asyncio.Event()
        self._http = None

    @classmethod
    async def connect(cls, transport, url):
        peer = cls()
        if transport == "ws":
            stream = await create_websocket_stream("ws" + url.removeprefix("http"))
        else:
            # The SDK drops the outcome of its DELETE, so it gets a client that notes it.
            peer._http = httpx.AsyncClient(
                http2=True,
                timeout=httpx.Timeout(None),
                event_hooks={"response": [peer._note_delete]},
            )
            stream = create_http_stream(url, client=peer._http)
        peer.agent = connect_to_agent(peer, stream)
        return peer

    async def _note_delete(self, response):
        if response.request.method == "DELETE":
            self.delete_statuses.append(response.status_code)

    async def session_update(self, session_id, update, **_meta):
        self.updates.append(update)
        self._arrived.set()

    async def request_permission(self, session_id, options, **_rest):
        self.permission_requests.append((session_id, options))
        for option in options:
            if option.kind == "allow_once":
                outcome = AllowedOutcome(outcome="selected", option_id=option.option_id)
                return RequestPermissionResponse(outcome=outcome)
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    async def initialize(self):
        return await self.agent.initialize(
            protocol_version=1,
            client_capabilities=ClientCapabilities(),
            client_info=Implementation(name="baton-scenario", version="1.0.0"),
        )

    async def prompt(self, session_id, text):
        return await settled(self.agent.prompt(session_id=session_id, prompt=[text_block(text)]))

    def take_updates(self):
        """Hands over the updates collected so far and starts collecting afresh."""
        taken, self.updates = self.updates, []
        return taken

    async def until_chunks(self, count):
        while len(chunk_texts(self.updates)) < count:
            self._arrived.clear()
            await self._arrived.wait()

    async def close(self):
        await self.agent.close()
        if self._http is not None:
            await self._http.aclose()
            [status] = self.delete_statuses
            expect(200 <= status < 300, f"DELETE was answered with {status}")


async def settled(call):
    """The answer to a call, once the updates that came before it have been handled.

    The SDK handles each update in a task of its own. If updates and answer arrive together, before the POST's 202 is
    noticed, the call returns while those tasks still wait for their first turn.
    """
    answer = await call
    await asyncio.sleep(0)
    return answer


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def expect_equal(actual, expected, what):
    expect(actual == expected, f"{what}: expected {expected!r}, got {actual!r}")


def expect_same_items(actual, expected, what):
    """Like `expect_equal` for lists, but names only the first difference."""
    for k, (got, wanted) in enumerate(zip_longest(actual, expected)):
        expect_equal(got, wanted, f"{what}, item {k} ({len(expected)} expected, {len(actual)} received)")


def chunk_texts(updates, kind="agent_message_chunk"):
    return [update.content.text for update in updates if update.session_update == kind]


def turns_of(updates):
    """Groups a replay into turns: each user message and the agent text that follows it."""
    turns = []
    for update in updates:
        if update.session_update == "user_message_chunk":
            turns.append((update.content.text, ""))
        elif update.session_update == "agent_message_chunk":
            expect(turns, "the replay begins with an agent message, not with the user's prompt")
            user, agent = turns[-1]
            turns[-1] = (user, agent + update.content.text)
    return turns


class Steps:
    """Prints each step that passed and remembers the one that is running."""

    current = "start"

    @contextmanager
    def __call__(self, name):
        self.current = name
        yield
        print(f"ok {name}", flush=True)

    def fail(self, message):
        print(f"failed at {self.current}: {message}", flush=True)
        os._exit(1)


async def run(scenario, transport, url, *rest):
    step = Steps()
    asyncio.get_running_loop().call_later(LIMIT_S, step.fail, f"no end after {LIMIT_S} s")
    try:
        await scenario(step, transport, url, *rest)
    except AssertionError as error:
        step.fail(error)
    except Exception:
        step.fail(traceback.format_exc())
    print("scenario passed", flush=True)


def play(scenario):
    """What a scenario's file is: runs it with the words of the command line."""
    if len(sys.argv) < 3 or sys.argv[1] not in ("http", "ws"):
        print("usage: <http|ws> <url>, and what this scenario wants beside that")
        sys.exit(1)
    asyncio.run(run(scenario, *sys.argv[1:]))
