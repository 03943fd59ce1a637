// Hours of a working day: sessions that live long, paced turns, pauses, now and then a load, a list or a new session.
// Watch memory and the dashboard meanwhile.

import { check, sleep } from 'k6';
import { Trend } from 'k6/metrics';
import { Client } from './lib/client.js';
import { config, limits } from './lib/config.js';
import { summary } from './lib/summary.js';
import { Turn, counting } from './lib/turn.js';

const CHUNKS = config.chunks ?? 30;
const DELAY = config.delay ?? 20;
// A connection is good for a day, a session token for an hour: what an answer renews is used, see lib/client.js.
const TURNS_PER_SESSION = 50;

const overhead = new Trend('turn_overhead', true);

export const options = {
  vus: config.clients ?? 50,
  duration: `${config.seconds ?? 600}s`,
  ...limits({ http_req_failed: ['rate<0.001'], turn_overhead: ['p(95)<1000'] }),
};

let client;
let session;
let turns = 0;

export default function () {
  if (!client) {
    client = new Client();
    if (!check(client.open(), { 'initialize opens a connection': (open) => open })) return;
  }
  if (!session || turns === TURNS_PER_SESSION) {
    session = client.newSession();
    turns = 0;
  }
  const turn = new Turn(CHUNKS);
  const { answer, events, response } = client.call('session/prompt', { sessionId: session, prompt: counting(CHUNKS, DELAY) });
  events.forEach(({ message }) => message && turn.take(message));
  check(turn.good(answer), { 'a turn is streamed in full': (good) => good });
  overhead.add(response.timings.duration - CHUNKS * DELAY);
  turns += 1;
  if (turns % 10 === 0) {
    const loaded = client.call('session/load', { sessionId: session, cwd: '/tmp', mcpServers: [] });
    check(loaded.answer, { 'session/load answers': (it) => !!(it && it.result) });
    const listed = client.call('session/list', {});
    check(listed.answer, { 'session/list answers': (it) => !!(it && it.result) });
  }
  sleep(0.5 + Math.random());
}

export const handleSummary = summary('soak');
