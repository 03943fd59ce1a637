// The life of sessions: each client makes one, talks to it, loads, forks and lists, and deletes them, over and over.

import { check } from 'k6';
import { Client } from './lib/client.js';
import { config, limits } from './lib/config.js';
import { summary } from './lib/summary.js';
import { Turn, counting } from './lib/turn.js';

const CHUNKS = config.chunks ?? 20;
const METHODS = ['session/new', 'session/prompt', 'session/load', 'session/fork', 'session/list', 'session/delete'];

export const options = {
  vus: config.clients ?? 16,
  duration: `${config.seconds ?? 20}s`,
  ...limits({
    http_req_failed: ['rate==0'],
    // A line for each method in the summary.
    ...Object.fromEntries(METHODS.map((method) => [`http_req_duration{name:${method}}`, ['p(95)<2000']])),
  }),
};

let client;

export default function () {
  if (!client) {
    client = new Client();
    if (!check(client.open(), { 'initialize opens a connection': (open) => open })) return;
  }
  const session = client.newSession();
  if (!check(session, { 'session/new makes a session': (id) => !!id })) return;
  const turn = new Turn(CHUNKS);
  const { answer, events } = client.call('session/prompt', { sessionId: session, prompt: counting(CHUNKS) });
  events.forEach(({ message }) => message && turn.take(message));
  check(turn.good(answer), { 'a prompt is answered in full': (good) => good });
  const loaded = client.call('session/load', { sessionId: session, cwd: '/tmp', mcpServers: [] });
  check(loaded, { 'session/load replays it': ({ answer, events }) => !!(answer && answer.result) && events.length > 1 });
  const forked = client.call('session/fork', { sessionId: session, cwd: '/tmp', mcpServers: [] });
  const child = forked.answer && forked.answer.result && forked.answer.result.sessionId;
  check(child, { 'session/fork makes another': (id) => !!id && id !== session });
  const listed = client.call('session/list', {});
  check(listed.answer, { 'session/list answers': (it) => !!(it && it.result && it.result.sessions.length > 0) });
  for (const id of [session, child]) {
    const { answer } = client.call('session/delete', { sessionId: id });
    check(answer, { 'session/delete answers': (it) => !!(it && it.result !== undefined) });
  }
}

export const handleSummary = summary('sessions');
