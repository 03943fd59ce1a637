// A connection of the official TypeScript SDK, unmodified, and what every scenario is made of.
import assert from "node:assert/strict";
import { once } from "node:events";
import { setImmediate } from "node:timers/promises";
// The unstable half knows session/fork.
import { client, methods } from "@agentclientprotocol/sdk/unstable";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";

const LIMIT_MS = 60_000;
export const SESSION_AT = { cwd: "/tmp", mcpServers: [] };

/** One transport with its SDK connection, and everything the agent sent over it. */
export class Peer {
  updates = [];
  permissionRequests = [];
  #wake = () => {};

  constructor(transport, url) {
    this.stream = transport === "ws" ? this.#openSocket(url) : createHttpStream(url);
    this.connection = client({ name: "baton-scenario" })
      .onNotification(methods.client.session.update, ({ params }) => {
        this.updates.push(params);
        this.#wake();
      })
      .onRequest(methods.client.session.requestPermission, ({ params }) => this.#allowOnce(params))
      .connect(this.stream);
  }

  #openSocket(url) {
    const keep = (socket) => (this.socket = socket);
    const KeptSocket = class extends WebSocket {
      constructor(...args) {
        super(...args);
        keep(this);
      }
    };
    return createWebSocketStream(url.replace(/^http/, "ws"), { WebSocket: KeptSocket });
  }

  #allowOnce(params) {
    this.permissionRequests.push(params);
    const option = params.options.find(({ kind }) => kind === "allow_once");
    return { outcome: option ? { outcome: "selected", optionId: option.optionId } : { outcome: "cancelled" } };
  }

  async request(method, params) {
    const answer = await this.connection.agent.request(method, params);
    // The SDK runs update handlers in later microtasks; let those of updates that came before the answer finish.
    await setImmediate();
    return answer;
  }

  prompt(sessionId, text) {
    return this.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  }

  /** The ids of all sessions in /tmp. */
  async listed() {
    const { sessions } = await this.request(methods.agent.session.list, { cwd: "/tmp" });
    return sessions.map(({ sessionId }) => sessionId);
  }

  cancel(sessionId) {
    return this.connection.agent.notify(methods.agent.session.cancel, { sessionId });
  }

  initialize() {
    return this.request(methods.agent.initialize, {
      protocolVersion: 1,
      clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
      clientInfo: { name: "baton-scenario", version: "1.0.0" },
    });
  }

  /** Hands over the updates collected so far and starts collecting afresh. */
  takeUpdates() {
    return this.updates.splice(0);
  }

  async untilChunks(count) {
    while (chunkTexts(this.updates).length < count) {
      await new Promise((resolve) => (this.#wake = resolve));
    }
  }

  /** Closes the transport; over HTTP this rejects unless the DELETE is answered with success. */
  async close() {
    const socketClosed = this.socket && once(this.socket, "close");
    // The SDK holds the writer until a POST is acknowledged, which its answer may overtake.
    while (this.stream.writable.locked) {
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await this.stream.writable.close();
    await this.connection.closed;
    if (socketClosed) {
      const [code] = await socketClosed;
      assert.notEqual(code, 1006, "the WebSocket ended without a close frame");
    }
  }
}

export function chunkTexts(updates, kind = "agent_message_chunk") {
  return updates
    .filter(({ update }) => update.sessionUpdate === kind)
    .map(({ update }) => update.content.text);
}

/** Groups a replay into turns: each user message and the agent text that follows it. */
export function turnsOf(updates) {
  const turns = [];
  for (const { update } of updates) {
    if (update.sessionUpdate === "user_message_chunk") {
      turns.push({ user: update.content.text, agent: "" });
    } else if (update.sessionUpdate === "agent_message_chunk") {
      assert.ok(turns.length > 0, "the replay begins with an agent message, not with the user's prompt");
      turns.at(-1).agent += update.content.text;
    }
  }
  return turns;
}

let step = "start";

export async function run(name, body) {
  step = name;
  const result = await body();
  console.log(`ok ${name}`);
  return result;
}

function fail(message) {
  console.log(`failed at ${step}: ${message}`);
  process.exit(1);
}

/** What a scenario's file is: runs it with the words of the command line. */
export async function play(scenario) {
  const [transport, url, ...rest] = process.argv.slice(2);
  if (!["http", "ws"].includes(transport) || !url) {
    console.log("usage: <http|ws> <url>, and what this scenario wants beside that");
    process.exit(1);
  }
  setTimeout(() => fail(`no end after ${LIMIT_MS / 1000} s`), LIMIT_MS);
  try {
    await scenario(transport, url, ...rest);
  } catch (error) {
    fail(error?.stack ?? error);
  }
  console.log("scenario passed");
  process.exit(0);
}
