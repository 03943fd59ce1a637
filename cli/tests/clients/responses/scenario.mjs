// The official clients for Node, unmodified, against Baton's door for Open Responses.
//
//     scenario.mjs BASE_URL      BASE_URL ends with /v1

import assert from "node:assert/strict";
import { createOpenResponses } from "@ai-sdk/open-responses";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";

const baseURL = process.argv[2];
const client = new OpenAI({ baseURL, apiKey: "bk_alice", maxRetries: 0 });

const words = (chunks, prompt) =>
  Array.from({ length: chunks }, (_, at) => `chunk ${at + 1} of ${chunks}, prompt ${prompt} `).join("");

async function official() {
  const listed = [];
  for await (const model of client.models.list()) listed.push(model.id);
  assert.ok(listed.includes("scripted"));

  const first = await client.responses.create({ model: "scripted", input: "/count 2" });
  assert.equal(first.output_text, words(2, 1));
  const second = await client.responses.create({
    model: "scripted",
    input: "/count 1",
    previous_response_id: first.id,
  });
  assert.equal(second.output_text, words(1, 2));

  const numbers = [];
  let text = "";
  const events = await client.responses.create({ model: "scripted", input: "/count 4", stream: true });
  for await (const event of events) {
    numbers.push(event.sequence_number);
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  assert.deepEqual(numbers, numbers.map((_, at) => at));
  assert.equal(text, words(4, 1));

  const helped = client.responses.stream({ model: "scripted", input: "hello world" });
  const final = await helped.finalResponse();
  assert.equal(final.output_text, "hello world ");

  const begun = await client.responses.create({ model: "scripted", input: "/count 3", background: true });
  let now = begun;
  while (now.status === "queued" || now.status === "in_progress") {
    now = await client.responses.retrieve(begun.id);
  }
  assert.equal(now.output_text, words(3, 1));
  await assert.rejects(client.responses.retrieve("resp_1"), { status: 404, code: "response_not_found" });
}

async function open() {
  const baton = createOpenResponses({ name: "baton", url: `${baseURL}/responses`, apiKey: "bk_alice" });
  const told = await generateText({ model: baton("scripted"), prompt: "/think\n/count 2", maxRetries: 0 });
  assert.equal(told.text, words(2, 1));
  assert.equal(told.reasoningText, "thinking it over ");

  // The library calls the function itself, and keeps the conversation, too.
  const add = tool({
    description: "adds two numbers",
    inputSchema: jsonSchema({ type: "object", properties: { a: { type: "number" }, b: { type: "number" } } }),
    execute: async ({ a, b }) => String(a + b),
  });
  const summed = await generateText({
    model: baton("scripted"),
    prompt: '/call functions add {"a": 1, "b": 2}',
    tools: { add },
    stopWhen: stepCountIs(3),
    maxRetries: 0,
  });
  assert.equal(summed.text, "add says 3 ");

  const streamed = streamText({ model: baton("scripted"), prompt: "/count 3", maxRetries: 0 });
  let text = "";
  for await (const part of streamed.textStream) text += part;
  assert.equal(text, words(3, 1));
  assert.equal(await streamed.finishReason, "stop");
}

await official();
await open();
console.log("scenario passed");
