// A small agent on the official TypeScript SDK. It says what it is told, a chunk per word, and keeps its sessions in a
// folder, so that it can load them. Usage: node agent.mjs FOLDER
// Prompts: `permission` asks for it, `wait` goes on until it is cancelled, `recall` tells the prompts so far.
import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { setTimeout } from "node:timers/promises";

// The SDK is where the clients have it.
const { resolve } = createRequire(new URL("../../clients/typescript/", import.meta.url));
const { agent, methods, ndJsonStream, RequestError } = await import(resolve("@agentclientprotocol/sdk"));

const [folder] = process.argv.slice(2);
/** The turns of each session: what the user said, and what was said in return. */
const sessions = new Map();
/** Ends the turn that a session is in. */
const turns = new Map();

const keep = (sessionId) => writeFile(join(folder, sessionId), JSON.stringify(sessions.get(sessionId)));

function tell(client, sessionId, text, sessionUpdate = "agent_message_chunk") {
  const update = { sessionUpdate, content: { type: "text", text } };
  return client.notify(methods.client.session.update, { sessionId, update });
}

async function askPermission(client, sessionId) {
  const { outcome } = await client.request(methods.client.session.requestPermission, {
    sessionId,
    toolCall: { toolCallId: randomUUID(), title: "Something" },
    options: [
      { optionId: "yes", name: "Yes", kind: "allow_once" },
      { optionId: "no", name: "No", kind: "reject_once" },
    ],
  });
  return outcome.optionId ?? outcome.outcome;
}

/** What is said in return, piece by piece. */
async function* reply(client, sessionId, text, signal) {
  if (text === "permission") {
    yield await askPermission(client, sessionId);
  } else if (text === "wait") {
    while (!signal.aborted) {
      yield "still here ";
      await setTimeout(50, undefined, { signal }).catch(() => {});
    }
  } else if (text === "recall") {
    yield JSON.stringify(sessions.get(sessionId).map(({ user }) => user));
  } else {
    yield* text.split(" ").map((word) => `${word} `);
  }
}

async function prompt({ params: { sessionId, prompt }, client }) {
  const cancel = new AbortController();
  turns.set(sessionId, cancel);
  const turn = { user: prompt.map(({ text }) => text).join(""), agent: "" };
  sessions.get(sessionId).push(turn);
  for await (const piece of reply(client, sessionId, prompt.at(-1).text, cancel.signal)) {
    turn.agent += piece;
    await tell(client, sessionId, piece);
  }
  await keep(sessionId);
  return { stopReason: cancel.signal.aborted ? "cancelled" : "end_turn" };
}

async function load({ params: { sessionId }, client }) {
  const kept = await readFile(join(folder, sessionId), "utf8").catch(() => {
    throw RequestError.resourceNotFound(sessionId);
  });
  sessions.set(sessionId, JSON.parse(kept));
  for (const turn of sessions.get(sessionId)) {
    await tell(client, sessionId, turn.user, "user_message_chunk");
    await tell(client, sessionId, turn.agent);
  }
  return {};
}

agent({ name: "sdk-typescript" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: 1,
    agentInfo: { name: "sdk-typescript", version: "1.0.0" },
    agentCapabilities: { loadSession: true },
  }))
  .onRequest(methods.agent.session.new, async () => {
    const sessionId = randomUUID();
    sessions.set(sessionId, []);
    await keep(sessionId);
    return { sessionId };
  })
  .onRequest(methods.agent.session.load, load)
  .onRequest(methods.agent.session.prompt, prompt)
  .onNotification(methods.agent.session.cancel, ({ params }) => turns.get(params.sessionId)?.abort())
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
