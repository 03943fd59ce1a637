// A client over HTTP, as small as it gets: every request is one-shot and gets its own events in its body. It treats
// tokens as a browser treats cookies: what an answer sets is sent along from then on.

import http from 'k6/http';
import { config } from './config.js';

const VERSION = 1;

export class Client {
  constructor() {
    this.connection = '';
    this.tokens = {};
    this.id = 0;
  }

  /// Opens a connection. Whoever gets 404 later opens another one and loads its sessions.
  open() {
    const params = { protocolVersion: VERSION, clientCapabilities: {} };
    const response = this.post({ jsonrpc: '2.0', id: this.id++, method: 'initialize', params }, {});
    this.connection = response.headers['Acp-Connection-Id'] || '';
    return response.status === 200 && this.connection !== '' && !!response.json('result');
  }

  /// One request and its answer: { status, answer, events, response }.
  call(method, params) {
    const message = { jsonrpc: '2.0', id: this.id++, method, params };
    return this.send(message, params.sessionId);
  }

  /// Sends a message that may have been sent before: within a connection it happens once.
  send(message, session, cursor) {
    const headers = { Accept: 'text/event-stream', 'Acp-Connection-Id': this.connection };
    if (session) headers['Acp-Session-Id'] = session;
    if (session && this.tokens[session]) headers['Acp-Session-Token'] = this.tokens[session];
    if (cursor) headers['Last-Event-ID'] = cursor;
    const response = this.post(message, headers);
    const events = parse(response.body);
    const answer = events.map((event) => event.message).find((it) => it && it.id === message.id && !it.method);
    const opened = session || (answer && answer.result && answer.result.sessionId);
    const token = response.headers['Acp-Session-Token'];
    if (opened && token) this.tokens[opened] = token;
    return { status: response.status, answer, events, response };
  }

  newSession() {
    const { answer } = this.call('session/new', { cwd: '/tmp', mcpServers: [] });
    return answer && answer.result ? answer.result.sessionId : undefined;
  }

  post(message, headers) {
    if (config.credential) headers.Authorization = `Bearer ${config.credential}`;
    headers['Content-Type'] = 'application/json';
    const tags = { name: message.method };
    return http.post(config.http, JSON.stringify(message), { headers, tags, timeout: '120s' });
  }
}

/// The events of a body: { id, kind, message }.
export function parse(body) {
  const events = [];
  for (const block of (body || '').split('\n\n')) {
    const event = { id: '', kind: 'message', message: undefined };
    for (const line of block.split('\n')) {
      if (line.startsWith('id: ')) event.id = line.slice(4);
      else if (line.startsWith('event: ')) event.kind = line.slice(7);
      // The last one may be cut off in its middle.
      else if (line.startsWith('data: ')) event.message = json(line.slice(6));
    }
    if (event.id || event.message) events.push(event);
  }
  return events;
}

function json(text) {
  try {
    return JSON.parse(text);
  } catch (_) {
    return undefined;
  }
}
