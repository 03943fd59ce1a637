// Drives a Baton endpoint with the official TypeScript SDK, unmodified, and the scripted agent behind it.
// Usage: node scenario.mjs <http|ws> <url>, for example: node scenario.mjs ws http://127.0.0.1:8080/acp
import assert from "node:assert/strict";
import { methods } from "@agentclientprotocol/sdk/unstable";
import { Peer, SESSION_AT, chunkTexts, play, run, turnsOf } from "./peer.mjs";

function counted(n, prompt, upTo = n) {
  return Array.from({ length: upTo }, (_, k) => `chunk ${k + 1} of ${n}, prompt ${prompt} `);
}

/** A select option and one of its values that is not the current one. */
function otherChoice(configOptions) {
  for (const option of configOptions ?? []) {
    if (option.type !== "select") continue;
    const choices = option.options.flatMap((entry) => entry.options ?? [entry]);
    const choice = choices.find(({ value }) => value !== option.currentValue);
    if (choice) return { configId: option.id, value: choice.value };
  }
}

function valueOf(configOptions, configId) {
  return configOptions.find(({ id }) => id === configId)?.currentValue;
}

async function scenario(transport, url) {
  const first = new Peer(transport, url);
  const live = [];

  /** Runs a turn on the first connection and notes it for the comparison with the replay. A straggler of the turn
   * before would count as a chunk of this one and so be noticed. */
  async function turn(text, during = async () => {}) {
    const [{ stopReason }] = await Promise.all([first.prompt(session.sessionId, text), during()]);
    const chunks = chunkTexts(first.takeUpdates());
    live.push({ user: text, agent: chunks.join("") });
    return { stopReason, chunks };
  }

  await run("initialize", async () => {
    const { protocolVersion, agentCapabilities } = await first.initialize();
    assert.equal(protocolVersion, 1);
    assert.equal(agentCapabilities?.loadSession, true, "agentCapabilities.loadSession");
  });

  const session = await run("session/new", async () => {
    const answer = await first.request(methods.agent.session.new, SESSION_AT);
    assert.ok(answer.sessionId, "sessionId is empty");
    assert.equal(answer.modes?.currentModeId, "code", "modes.currentModeId");
    return answer;
  });
  const { sessionId } = session;

  await run("prompt echo", async () => {
    const { stopReason, chunks } = await turn("hello brave new world");
    assert.equal(chunks.join("").trim(), "hello brave new world");
    assert.equal(stopReason, "end_turn");
  });

  await run("permission", async () => {
    const { stopReason } = await turn("/permission");
    assert.equal(first.permissionRequests.length, 1, "permission requests received");
    const [{ sessionId: asked, options }] = first.permissionRequests;
    assert.equal(asked, sessionId);
    assert.ok(options.some(({ kind }) => kind === "allow_once"), "no allow_once option was offered");
    assert.equal(stopReason, "end_turn");
  });

  await run("prompt count 50", async () => {
    const { stopReason, chunks } = await turn("/count 50");
    assert.deepEqual(chunks, counted(50, 3));
    assert.equal(stopReason, "end_turn");
  });

  await run("cancel", async () => {
    const { stopReason, chunks } = await turn("/count 1000 delay=20", async () => {
      await first.untilChunks(3);
      await first.cancel(sessionId);
    });
    assert.equal(stopReason, "cancelled");
    assert.ok(chunks.length < 1000, "the turn ran to its end in spite of the cancel");
    assert.deepEqual(chunks, counted(1000, 4, chunks.length));
  });

  await run("session/set_mode", () =>
    first.request(methods.agent.session.setMode, { sessionId, modeId: "ask" }),
  );

  const choice = otherChoice(session.configOptions);
  if (choice) {
    await run("session/set_config_option", async () => {
      const { configOptions } = await first.request(methods.agent.session.setConfigOption, { sessionId, ...choice });
      assert.equal(valueOf(configOptions, choice.configId), choice.value);
    });
  }

  const second = new Peer(transport, url);
  await run("second connection initialize", async () => {
    const { agentCapabilities } = await second.initialize();
    assert.equal(agentCapabilities?.loadSession, true, "agentCapabilities.loadSession");
  });

  await run("session/load", async () => {
    const answer = await second.request(methods.agent.session.load, { sessionId, ...SESSION_AT });
    assert.deepEqual(turnsOf(second.takeUpdates()), live, "the replay differs from what the first connection saw");
    assert.equal(answer.modes?.currentModeId ?? "ask", "ask", "modes.currentModeId after load");
    if (choice && answer.configOptions) {
      assert.equal(valueOf(answer.configOptions, choice.configId), choice.value, "config option after load");
    }
  });

  await run("prompt on second connection", async () => {
    const { stopReason } = await second.prompt(sessionId, "/count 5");
    assert.deepEqual(chunkTexts(second.takeUpdates()), counted(5, 5));
    assert.equal(stopReason, "end_turn");
  });

  await run("session/close", () => second.request(methods.agent.session.close, { sessionId }));

  await run("session/resume", async () => {
    const { modes } = await second.request(methods.agent.session.resume, { sessionId, cwd: "/tmp" });
    assert.deepEqual(second.takeUpdates(), [], "a resume replays nothing");
    assert.equal(modes?.currentModeId, "ask", "modes.currentModeId after resume");
    await second.prompt(sessionId, "/count 2");
    assert.deepEqual(chunkTexts(second.takeUpdates()), counted(2, 6));
  });

  const forked = await run("session/fork", async () => {
    const child = await second.request(methods.agent.session.fork, { sessionId, cwd: "/tmp" });
    assert.notEqual(child.sessionId, sessionId);
    assert.equal(child.modes?.currentModeId, "ask", "modes.currentModeId of the fork");
    await second.request(methods.agent.session.load, { sessionId: child.sessionId, ...SESSION_AT });
    const turn = (n, prompt) => ({ user: `/count ${n}`, agent: counted(n, prompt).join("") });
    const past = [...live, turn(5, 5), turn(2, 6)];
    assert.deepEqual(turnsOf(second.takeUpdates()), past, "the fork's past");
    await second.prompt(child.sessionId, "/count 3");
    assert.deepEqual(chunkTexts(second.takeUpdates()), counted(3, 7));
    return child.sessionId;
  });

  await run("session/list", async () => {
    const listed = await second.listed();
    assert.deepEqual(listed.slice(0, 2), [forked, sessionId], "the latest first");
  });

  await run("session/delete", async () => {
    await second.request(methods.agent.session.delete, { sessionId });
    await second.request(methods.agent.session.delete, { sessionId });
    assert.ok(!(await second.listed()).includes(sessionId), "the deleted session is listed");
    await assert.rejects(second.request(methods.agent.session.load, { sessionId, ...SESSION_AT }), { code: -32002 });
    await second.prompt(forked, "/count 1");
    assert.deepEqual(chunkTexts(second.takeUpdates()), counted(1, 8), "the fork lives on");
  });

  await run("close transports", async () => {
    const late = chunkTexts(first.takeUpdates());
    const expected = [...counted(5, 5), ...counted(2, 6)].slice(0, late.length);
    assert.deepEqual(late, expected, "unexpected updates on the observing connection");
    assert.equal(first.permissionRequests.length + second.permissionRequests.length, 1, "permission requests in all");
    await second.close();
    await first.close();
  });
}

await play(scenario);
