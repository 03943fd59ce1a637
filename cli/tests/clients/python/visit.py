"""A visit to any agent behind Baton with the official Python SDK, unmodified: whatever the agent can do by itself, its
sessions can be listed, loaded, resumed, forked and closed. The SDK has no call for session/delete.

Usage: python visit.py <http|ws> <url> <prompt>...
"""

from peer import SESSION_AT, Peer, chunk_texts, expect, expect_equal, expect_same_items, play, settled, turns_of


async def says(peer, session_id, prompt):
    """What the agent says to a prompt."""
    answer = await peer.prompt(session_id, prompt)
    expect_equal(answer.stop_reason, "end_turn", "stopReason")
    said = "".join(chunk_texts(peer.take_updates()))
    expect(said, f"nothing was said to {prompt}")
    return prompt, said


async def past(peer, session_id):
    await settled(peer.agent.load_session(session_id=session_id, **SESSION_AT))
    return turns_of(peer.take_updates())


async def visit(step, transport, url, *prompts):
    with step("initialize"):
        first, second = [await Peer.connect(transport, url) for _ in range(2)]
        for peer in (first, second):
            answer = await peer.initialize()
            expect(answer.agent_capabilities.load_session, "no agentCapabilities.loadSession")

    with step("session/new"):
        session_id = (await first.agent.new_session(**SESSION_AT)).session_id

    with step("session/prompt"):
        live = [await says(first, session_id, prompt) for prompt in prompts]

    with step("session/list"):
        answer = await second.agent.list_sessions(cwd="/tmp")
        expect(session_id in [session.session_id for session in answer.sessions], "the session is not listed")

    with step("session/load"):
        expect_same_items(await past(second, session_id), live, "replay")

    with step("session/close"):
        await second.agent.close_session(session_id=session_id)

    with step("session/resume"):
        await settled(second.agent.resume_session(session_id=session_id, cwd="/tmp"))
        expect_equal(chunk_texts(second.take_updates()), [], "what a resume replays")
        live.append(await says(second, session_id, prompts[0]))

    with step("session/fork"):
        child = (await second.agent.fork_session(session_id=session_id, cwd="/tmp")).session_id
        expect(child != session_id, "the fork has its parent's id")
        expect_same_items(await past(second, child), live, "the fork's past")
        await says(second, child, prompts[0])

    with step("close transports"):
        await second.close()
        await first.close()


if __name__ == "__main__":
    play(visit)
