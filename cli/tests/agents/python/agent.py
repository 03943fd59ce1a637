"""A small agent on the official Python SDK. It says what it is told, a chunk per word, and cannot bring sessions back.

Prompts: `permission` asks for it, `wait` goes on until it is cancelled, `recall` tells the prompts so far.
"""

import asyncio
import json
import uuid

from acp import (
    PROTOCOL_VERSION,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    RequestError,
    run_agent,
    update_agent_message_text,
)
from acp.schema import AgentCapabilities, Implementation, PermissionOption, ToolCallUpdate


class SmallAgent:
    def __init__(self):
        self.sessions = {}
        self.cancelled = {}

    def on_connect(self, conn):
        self.client = conn

    async def initialize(self, protocol_version, **_rest):
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="sdk-python", version="1.0.0"),
            agent_capabilities=AgentCapabilities(),
        )

    async def new_session(self, cwd, **_rest):
        session_id = uuid.uuid4().hex
        self.sessions[session_id] = []
        return NewSessionResponse(session_id=session_id)

    async def prompt(self, session_id, prompt, **_rest):
        if session_id not in self.sessions:
            raise RequestError.resource_not_found(session_id)
        self.sessions[session_id].append("".join(block.text for block in prompt))
        cancelled = self.cancelled[session_id] = asyncio.Event()
        async for piece in self.reply(session_id, prompt[-1].text, cancelled):
            await self.client.session_update(session_id=session_id, update=update_agent_message_text(piece))
        return PromptResponse(stop_reason="cancelled" if cancelled.is_set() else "end_turn")

    async def reply(self, session_id, text, cancelled):
        """What is said in return, piece by piece."""
        if text == "permission":
            yield await self.ask_permission(session_id)
        elif text == "wait":
            while not cancelled.is_set():
                yield "still here "
                await asyncio.sleep(0.05)
        elif text == "recall":
            yield json.dumps(self.sessions[session_id])
        else:
            for word in text.split(" "):
                yield f"{word} "

    async def ask_permission(self, session_id):
        answer = await self.client.request_permission(
            session_id=session_id,
            tool_call=ToolCallUpdate(tool_call_id=uuid.uuid4().hex, title="Something"),
            options=[
                PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
                PermissionOption(option_id="no", name="No", kind="reject_once"),
            ],
        )
        return getattr(answer.outcome, "option_id", answer.outcome.outcome)

    async def cancel(self, session_id, **_rest):
        if session_id in self.cancelled:
            self.cancelled[session_id].set()


asyncio.run(run_agent(SmallAgent()))
