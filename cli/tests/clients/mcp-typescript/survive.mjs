// A call whose gateway is killed in the middle: the client comes back by itself, and gets the result once. Says
// `calling` when words come, and waits for nobody.
//
//     node survive.mjs sdk|legacy http://127.0.0.1:8080/mcp CHUNKS

import assert from "node:assert/strict";

import { call, connect } from "./connect.mjs";

const [kind, url, chunks] = process.argv.slice(2);
const { client, transport } = await connect(kind, url);
// A stream that breaks is an error here, and then goes on.
client.onerror = (error) => console.error(`[client] ${error.message}`);
const heard = [];
const onprogress = ({ message }) => {
  if (heard.push(message) === 3) console.log("calling");
};
const prompt = `/count ${chunks} delay=100`;
const options = { onprogress, timeout: 300_000, resetTimeoutOnProgress: true };
const result = await call(kind, client, "start", { prompt, waitSeconds: 600 }, options);
const expected = Array.from({ length: Number(chunks) }, (_, at) => `chunk ${at + 1} of ${chunks}, prompt 1 `);
assert.equal(result.structuredContent.status, "completed");
assert.equal(result.structuredContent.text, expected.join(""));
assert.deepEqual(heard, expected, "every word once, in order");
const { structuredContent } = await call(kind, client, "list_sessions", {});
assert.equal(structuredContent.sessions.length, 1, "there was one call");
// Its other stream is cut by closing.
client.onerror = () => {};
await transport.terminateSession().catch(() => {});
await client.close();
console.log("scenario passed");
