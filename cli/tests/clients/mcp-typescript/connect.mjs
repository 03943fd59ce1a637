// The three ways in which npm's clients connect: the 1.x line, and the 2.x line with and without sessions.

import { Client as OlderClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as OlderTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const info = { name: "scenario", version: "1" };

/** `elicit` answers forms; without it the client does not say that it can. */
export async function connect(kind, url, { elicit, headers, capabilities = {} } = {}) {
  const able = elicit ? { elicitation: { form: {} }, ...capabilities } : capabilities;
  const options = { requestInit: { headers: headers ?? {} } };
  if (kind === "sdk") {
    const client = new OlderClient(info, { capabilities: able });
    if (elicit) client.setRequestHandler(ElicitRequestSchema, elicit);
    const transport = new OlderTransport(new URL(url), options);
    await client.connect(transport);
    return { client, transport };
  }
  const mode = kind === "sessionless" ? { pin: "2026-07-28" } : kind === "auto" ? "auto" : "legacy";
  const client = new Client(info, { capabilities: able, versionNegotiation: { mode } });
  if (elicit) client.setRequestHandler("elicitation/create", elicit);
  const transport = new StreamableHTTPClientTransport(new URL(url), options);
  await client.connect(transport);
  return { client, transport };
}

/** A call of a tool, in either line's words. */
export function call(kind, client, name, args, options) {
  const params = { name, arguments: args };
  return kind === "sdk" ? client.callTool(params, undefined, options) : client.callTool(params, options);
}
