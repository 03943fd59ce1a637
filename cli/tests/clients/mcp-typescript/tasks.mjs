// Long turns as tasks, with the official client of the extension.
//
//     node tasks.mjs http://127.0.0.1:8080/mcp

import assert from "node:assert/strict";

import { createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client";

import { connect } from "./connect.mjs";

const [url] = process.argv.slice(2);
const tasks = { "io.modelcontextprotocol/tasks": {} };
const clientCapabilities = { elicitation: { form: {} }, extensions: tasks };
const { client } = await connect("sessionless", url, {
  elicit: async () => ({ action: "accept", content: { choice: "allow_always" } }),
  capabilities: { extensions: tasks },
});
let count = 0;
// As the package's guide has it: one request, its raw response.
const dispatch = async (request) => {
  count += 1;
  const headers = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": request.method,
  };
  const name = request.params?.name ?? request.params?.taskId ?? request.params?.uri;
  if (name) headers["mcp-name"] = name;
  const body = JSON.stringify({ jsonrpc: "2.0", id: request.id ?? `task-${count}`, ...request });
  const response = await fetch(url, { method: "POST", headers, body });
  return await response.json();
};
const session = createTaskSessionFromClient(client, {
  endpointId: "baton",
  rawDispatch: dispatch,
  v2RequestFraming: {
    protocolVersion: "2026-07-28",
    clientInfo: { name: "scenario", version: "1" },
    clientCapabilities,
  },
  onInputRequest: async (request) => {
    assert.equal(request.kind, "elicitation");
    return { action: "accept", content: { choice: "allow_always" } };
  },
});
const seen = [];
const settle = async (name, args) => {
  const execution = await session.callTool(name, args);
  return await execution.settle({ onEvent: (event) => void seen.push(event) });
};
const counted = await settle("start", { prompt: "/count 3 delay=50" });
const result = resultFromTaskOutcome(counted.outcome);
assert.equal(result.structuredContent.text, "chunk 1 of 3, prompt 1 chunk 2 of 3, prompt 1 chunk 3 of 3, prompt 1 ");
assert.ok(seen.some((event) => event.type === "task"), "it was a task");
const asked = await settle("continue", { session: result.structuredContent.session, prompt: "/permission" });
assert.equal(resultFromTaskOutcome(asked.outcome).structuredContent.text, "permission allow_always ");
await session.close();
await client.close();
console.log("scenario passed");
