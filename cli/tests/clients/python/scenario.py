"""Drives a Baton endpoint with the official Python SDK, unmodified, and the scripted agent behind it.

Usage: python scenario.py <http|ws> <url>, for example: python scenario.py ws http://127.0.0.1:8080/acp
"""

import asyncio

from peer import SESSION_AT, Peer, chunk_texts, expect, expect_equal, expect_same_items, play, settled, turns_of


def counted(n, prompt, up_to=None):
    return [f"chunk {k} of {n}, prompt {prompt} " for k in range(1, (n if up_to is None else up_to) + 1)]


def other_choice(config_options):
    """The id of a select option and one of its values that is not the current one."""
    for option in config_options or []:
        if option.type != "select":
            continue
        for entry in option.options:
            for choice in getattr(entry, "options", [entry]):
                if choice.value != option.current_value:
                    return option.id, choice.value
    return None


def value_of(config_options, config_id):
    return next((option.current_value for option in config_options if option.id == config_id), None)


async def scenario(step, transport, url):
    live = []

    async def turn(text, during=None):
        """Runs a turn on the first connection and notes it for the comparison with the replay.

        A straggler of the turn before would count as a chunk of this one and so be noticed.
        """
        answer, _ = await asyncio.gather(first.prompt(session_id, text), during or asyncio.sleep(0))
        chunks = chunk_texts(first.take_updates())
        live.append((text, "".join(chunks)))
        return answer.stop_reason, chunks

    with step("initialize"):
        first = await Peer.connect(transport, url)
        answer = await first.initialize()
        expect_equal(answer.protocol_version, 1, "protocolVersion")
        expect(answer.agent_capabilities and answer.agent_capabilities.load_session, "no agentCapabilities.loadSession")

    with step("session/new"):
        session = await first.agent.new_session(**SESSION_AT)
        session_id = session.session_id
        expect(session_id, "sessionId is empty")
        expect(session.modes, "no modes")
        expect_equal(session.modes.current_mode_id, "code", "modes.currentModeId")

    with step("prompt echo"):
        stop_reason, chunks = await turn("hello brave new world")
        expect_equal("".join(chunks).strip(), "hello brave new world", "echo")
        expect_equal(stop_reason, "end_turn", "stopReason")

    with step("permission"):
        stop_reason, _ = await turn("/permission")
        expect_equal(len(first.permission_requests), 1, "permission requests received")
        [(asked, options)] = first.permission_requests
        expect_equal(asked, session_id, "sessionId of the permission request")
        expect(any(option.kind == "allow_once" for option in options), "no allow_once option was offered")
        expect_equal(stop_reason, "end_turn", "stopReason")

    with step("prompt count 50"):
        stop_reason, chunks = await turn("/count 50")
        expect_same_items(chunks, counted(50, 3), "chunks")
        expect_equal(stop_reason, "end_turn", "stopReason")

    with step("cancel"):

        async def cancel_after_three():
            await first.until_chunks(3)
            await first.agent.cancel(session_id=session_id)

        stop_reason, chunks = await turn("/count 1000 delay=20", cancel_after_three())
        expect_equal(stop_reason, "cancelled", "stopReason")
        expect(len(chunks) < 1000, "the turn ran to its end in spite of the cancel")
        expect_same_items(chunks, counted(1000, 4, len(chunks)), "chunks")

    with step("session/set_mode"):
        await first.agent.set_session_mode(session_id=session_id, mode_id="ask")

    choice = other_choice(session.config_options)
    if choice:
        with step("session/set_config_option"):
            config_id, value = choice
            answer = await first.agent.set_config_option(config_id=config_id, session_id=session_id, value=value)
            expect_equal(value_of(answer.config_options, config_id), value, "config option")

    with step("second connection initialize"):
        second = await Peer.connect(transport, url)
        answer = await second.initialize()
        expect(answer.agent_capabilities and answer.agent_capabilities.load_session, "no agentCapabilities.loadSession")

    with step("session/load"):
        answer = await settled(second.agent.load_session(session_id=session_id, **SESSION_AT))
        expect_same_items(turns_of(second.take_updates()), live, "replay, compared with what the first connection saw")
        if answer.modes:
            expect_equal(answer.modes.current_mode_id, "ask", "modes.currentModeId after load")
        if choice and answer.config_options:
            expect_equal(value_of(answer.config_options, config_id), value, "config option after load")

    with step("prompt on second connection"):
        answer = await second.prompt(session_id, "/count 5")
        expect_same_items(chunk_texts(second.take_updates()), counted(5, 5), "chunks")
        expect_equal(answer.stop_reason, "end_turn", "stopReason")

    with step("session/close"):
        await second.agent.close_session(session_id=session_id)

    with step("session/resume"):
        answer = await settled(second.agent.resume_session(session_id=session_id, cwd="/tmp"))
        expect_equal(second.take_updates(), [], "updates of a resume")
        expect_equal(answer.modes.current_mode_id, "ask", "modes.currentModeId after resume")
        await second.prompt(session_id, "/count 2")
        expect_same_items(chunk_texts(second.take_updates()), counted(2, 6), "chunks after resume")

    with step("session/fork"):
        child = await second.agent.fork_session(session_id=session_id, cwd="/tmp")
        expect(child.session_id != session_id, "the fork has its parent's id")
        expect_equal(child.modes.current_mode_id, "ask", "modes.currentModeId of the fork")
        await settled(second.agent.load_session(session_id=child.session_id, **SESSION_AT))
        past = [*live, ("/count 5", "".join(counted(5, 5))), ("/count 2", "".join(counted(2, 6)))]
        expect_same_items(turns_of(second.take_updates()), past, "the fork's past")
        await second.prompt(child.session_id, "/count 3")
        expect_same_items(chunk_texts(second.take_updates()), counted(3, 7), "chunks of the fork")

    # The SDK has no call for session/delete.
    with step("session/list"):
        answer = await second.agent.list_sessions(cwd="/tmp")
        listed = [session.session_id for session in answer.sessions]
        expect_equal(listed[:2], [child.session_id, session_id], "the latest sessions")

    with step("close transports"):
        late = chunk_texts(first.take_updates())
        expected = [*counted(5, 5), *counted(2, 6)][: len(late)]
        expect_same_items(late, expected, "updates on the observing connection")
        requests = len(first.permission_requests) + len(second.permission_requests)
        expect_equal(requests, 1, "permission requests in all")
        await second.close()
        await first.close()


if __name__ == "__main__":
    play(scenario)
