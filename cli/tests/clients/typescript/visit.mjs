// A visit to any agent behind Baton with the official TypeScript SDK, unmodified: whatever the agent can do by itself,
// its sessions can be listed, loaded, resumed, forked, closed and deleted.
// Usage: node visit.mjs <http|ws> <url> <prompt>...
import assert from "node:assert/strict";
import { methods } from "@agentclientprotocol/sdk/unstable";
import { Peer, SESSION_AT, chunkTexts, play, run, turnsOf } from "./peer.mjs";

/** What the agent says to a prompt. */
async function says(peer, sessionId, user) {
  const { stopReason } = await peer.prompt(sessionId, user);
  assert.equal(stopReason, "end_turn");
  const agent = chunkTexts(peer.takeUpdates()).join("");
  assert.notEqual(agent, "", `nothing was said to ${user}`);
  return { user, agent };
}

async function visit(transport, url, ...prompts) {
  const [first, second] = [new Peer(transport, url), new Peer(transport, url)];
  const live = [];
  const past = async (sessionId) => {
    await second.request(methods.agent.session.load, { sessionId, ...SESSION_AT });
    return turnsOf(second.takeUpdates());
  };

  await run("initialize", async () => {
    for (const peer of [first, second]) {
      const { agentCapabilities } = await peer.initialize();
      assert.equal(agentCapabilities?.loadSession, true, "agentCapabilities.loadSession");
    }
  });

  const { sessionId } = await run("session/new", () => first.request(methods.agent.session.new, SESSION_AT));

  await run("session/prompt", async () => {
    for (const prompt of prompts) live.push(await says(first, sessionId, prompt));
  });

  await run("session/list", async () => assert.ok((await second.listed()).includes(sessionId)));

  await run("session/load", async () => assert.deepEqual(await past(sessionId), live));

  await run("session/close", () => second.request(methods.agent.session.close, { sessionId }));

  await run("session/resume", async () => {
    await second.request(methods.agent.session.resume, { sessionId, cwd: "/tmp" });
    assert.deepEqual(chunkTexts(second.takeUpdates()), [], "a resume replays nothing");
    live.push(await says(second, sessionId, prompts[0]));
  });

  const fork = await run("session/fork", async () => {
    const child = await second.request(methods.agent.session.fork, { sessionId, cwd: "/tmp" });
    assert.notEqual(child.sessionId, sessionId);
    assert.deepEqual(await past(child.sessionId), live, "the fork's past");
    await says(second, child.sessionId, prompts[0]);
    return child.sessionId;
  });

  await run("session/delete", async () => {
    await second.request(methods.agent.session.delete, { sessionId });
    const listed = await second.listed();
    assert.ok(!listed.includes(sessionId) && listed.includes(fork), "the fork lives on");
    await says(second, fork, prompts[0]);
  });

  await run("close transports", async () => {
    await second.close();
    await first.close();
  });
}

await play(visit);
