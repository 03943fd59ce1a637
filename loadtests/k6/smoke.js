// Does it work at all? One client goes once through everything that the other scripts do many times.

import { check } from 'k6';
import { Client } from './lib/client.js';
import { Socket } from './lib/socket.js';
import { limits } from './lib/config.js';
import { summary } from './lib/summary.js';
import { Turn, counting } from './lib/turn.js';

const CHUNKS = 5;

export const options = {
  vus: 1,
  iterations: 1,
  ...limits({ turns_good: ['count==2'], http_req_failed: ['rate==0'], http_req_duration: ['max<10000'] }),
};

export default async function () {
  const client = new Client();
  check(client.open(), { 'initialize opens a connection': (open) => open });
  const session = client.newSession();
  check(session, { 'session/new makes a session': (id) => !!id });
  const turn = new Turn(CHUNKS);
  const { answer, events } = client.call('session/prompt', { sessionId: session, prompt: counting(CHUNKS) });
  events.forEach(({ message }) => message && turn.take(message));
  check(turn.good(answer), { 'a prompt is answered in full': (good) => good });
  check(client.tokens[session], { 'a session token was set': (token) => !!token });
  const loaded = client.call('session/load', { sessionId: session, cwd: '/tmp', mcpServers: [] });
  check(loaded, {
    'session/load replays it': ({ answer, events }) => !!(answer && answer.result) && events.length > CHUNKS,
  });
  const forked = client.call('session/fork', { sessionId: session, cwd: '/tmp', mcpServers: [] });
  check(forked.answer, { 'session/fork makes another': (it) => !!(it && it.result && it.result.sessionId !== session) });
  const listed = client.call('session/list', {});
  check(listed.answer, { 'session/list shows it': (it) => JSON.stringify(it).includes(session) });
  await overWebSocket();
}

async function overWebSocket() {
  const socket = new Socket();
  await socket.open();
  const made = await socket.call('session/new', { cwd: '/tmp', mcpServers: [] });
  const turn = new Turn(CHUNKS);
  socket.heard = (message) => turn.take(message);
  const answer = await socket.call('session/prompt', { sessionId: made.result.sessionId, prompt: counting(CHUNKS) });
  check(turn.good(answer), { 'a prompt over WebSocket is answered in full': (good) => good });
  socket.close();
}

export const handleSummary = summary('smoke');
