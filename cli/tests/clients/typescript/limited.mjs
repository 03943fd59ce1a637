// The official TypeScript SDK, unmodified, against a Baton with `--limit-turns 1`: a refused prompt is an error of
// that prompt, and the connection goes on. Usage: node limited.mjs <http|ws> <url>
import assert from "node:assert/strict";
import { client, methods } from "@agentclientprotocol/sdk/unstable";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";

const LIMIT_MS = 60_000;

const [transport, url] = process.argv.slice(2);
setTimeout(() => {
  console.log(`no end after ${LIMIT_MS / 1000} s`);
  process.exit(1);
}, LIMIT_MS);

const stream =
  transport === "ws" ? createWebSocketStream(url.replace(/^http/, "ws"), { WebSocket }) : createHttpStream(url);
let heard;
const begun = new Promise((resolve) => (heard = resolve));
const { agent } = client({ name: "baton-limited" })
  .onNotification(methods.client.session.update, () => heard())
  .connect(stream);

const prompt = (sessionId, text) =>
  agent.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
const create = async () => {
  const { sessionId } = await agent.request(methods.agent.session.new, { cwd: "/tmp", mcpServers: [] });
  return sessionId;
};

await agent.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
const [one, other] = [await create(), await create()];
const running = prompt(one, "/count 1\n/sleep 600000");
await begun;
for (let times = 0; times < 3; times += 1) {
  await assert.rejects(prompt(other, "/count 1"), (error) => {
    assert.equal(error.code, 4004);
    assert.equal(error.data.limit, "turns");
    assert.equal(error.data.retryable, true);
    return true;
  });
}
await agent.notify(methods.agent.session.cancel, { sessionId: one });
assert.equal((await running).stopReason, "cancelled");
assert.equal((await prompt(other, "/count 1")).stopReason, "end_turn");
console.log("scenario passed");
process.exit(0);
