// What an application does with Baton as an MCP server, with npm's official clients, unmodified.
//
//     node scenario.mjs sdk|legacy|auto|sessionless http://127.0.0.1:8080/mcp

import assert from "node:assert/strict";

import { call, connect } from "./connect.mjs";

const [kind, url] = process.argv.slice(2);
const keepsSessions = kind === "sdk" || kind === "legacy";
const elicited = [];
const elicit = async (request) => {
  elicited.push(request.params);
  const choice = request.params.requestedSchema.properties.choice;
  if (!choice) return { action: "accept", content: { name: "Ada" } };
  const offered = choice.enum ?? choice.oneOf.map((option) => option.const);
  assert.ok(offered.includes("allow_once"), JSON.stringify(choice));
  return { action: "accept", content: { choice: "allow_once" } };
};
const { client, transport } = await connect(kind, url, { elicit });
const tool = (name, args, options) => call(kind, client, name, args, options);
const counted = (count, prompt) =>
  Array.from({ length: count }, (_, at) => `chunk ${at + 1} of ${count}, prompt ${prompt} `).join("");

// The tools are few, and always the same.
const { tools } = await client.listTools();
assert.deepEqual(
  tools.map((each) => each.name),
  ["list_agents", "start", "continue", "status", "read", "cancel", "list_sessions", "close"],
);
assert.equal(tools.find((each) => each.name === "read").annotations.readOnlyHint, true);
const { structuredContent: listed } = await tool("list_agents", {});
assert.ok(listed.agents.some((agent) => agent.name === "scripted"));

// A turn, word by word.
const heard = [];
const onprogress = (progress) => heard.push(progress);
const started = await tool("start", { prompt: "/count 20 delay=5" }, { onprogress });
assert.equal(started.structuredContent.status, "completed");
assert.equal(started.structuredContent.stopReason, "end_turn");
assert.equal(started.structuredContent.text, counted(20, 1));
assert.equal(heard.map((each) => each.message).join(""), counted(20, 1));
heard.reduce((before, each) => {
  assert.ok(each.progress > before, "progress grows");
  return each.progress;
}, 0);
const { session } = started.structuredContent;
assert.ok(started.content.some((block) => block.text.includes(session)), "the handle is content, too");

// The next one, by its handle; where there are sessions, without.
const next = await tool("continue", keepsSessions ? { prompt: "/count 2" } : { session, prompt: "/count 2" });
assert.equal(next.structuredContent.text, counted(2, 2));
assert.equal(next.structuredContent.session, session);

// A fork goes its own way.
const fork = await tool("continue", { session, prompt: "/count 1", fork: true });
assert.notEqual(fork.structuredContent.session, session);
assert.equal(fork.structuredContent.text, counted(1, 3));
const own = await tool("continue", { session, prompt: "/count 1" });
assert.equal(own.structuredContent.text, counted(1, 3));

// A permission, and a form.
const asked = await tool("continue", { session, prompt: "/permission\n/elicit" }, { onprogress: () => {} });
assert.equal(asked.structuredContent.status, "completed");
assert.equal(asked.structuredContent.text, "permission allow_once elicitation accept Ada ");
assert.deepEqual(
  elicited.map((params) => params.message),
  ["Something that needs permission", "What is your name?"],
);

// A turn that is not waited for, and is cancelled.
const long = await tool("continue", { session, prompt: "/sleep 600000", waitSeconds: 0 });
assert.equal(long.structuredContent.status, "working");
const status = await tool("status", { session });
assert.equal(status.structuredContent.status, "working");
await tool("cancel", { session });
const cancelled = await tool("status", { session, waitSeconds: 50 });
assert.equal(cancelled.structuredContent.status, "cancelled");

// Closed, it can be read, and goes on when it is continued.
await tool("close", { session });
let cursor;
const entries = [];
do {
  const page = (await tool("read", { session, cursor, limit: 3 })).structuredContent;
  assert.ok(page.entries.length <= 3);
  entries.push(...page.entries);
  cursor = page.nextCursor;
} while (cursor);
const said = entries.filter((entry) => entry.role === "agent").map((entry) => entry.text);
assert.equal(said.slice(0, 3).join(""), counted(20, 1) + counted(2, 2) + counted(1, 3));
assert.ok(entries.some((entry) => entry.role === "user" && entry.text === "/count 2"));
const again = await tool("continue", { session, prompt: "/count 1" });
assert.equal(again.structuredContent.status, "completed", JSON.stringify(again));

// Lists and resources.
const sessions = (await tool("list_sessions", {})).structuredContent.sessions;
assert.ok(sessions.some((each) => each.session === session));
const { resources } = await client.listResources();
const uri = `baton://sessions/${session}`;
assert.ok(resources.some((resource) => resource.uri === uri));
const { contents } = await client.readResource({ uri });
assert.ok(contents[0].text.includes(counted(2, 2)));

// What a model can mend is a result; what the client got wrong is an error.
const missing = await tool("status", { session: "000-0123456789012345678901" });
assert.ok(missing.isError && missing.content[0].text.startsWith("there is no session"));
const junk = await tool("start", { prompt: "x", colour: "red" });
assert.ok(junk.isError && junk.content[0].text.includes("colour"));
await assert.rejects(tool("paint", {}));

if (keepsSessions) {
  const before = transport.sessionId;
  assert.ok(before);
  await transport.terminateSession();
}
await client.close();
console.log("scenario passed");
