// One-shot streams, paced as a model speaks. k6 sees a body only when it has ended, so the first event is timed by a
// turn that has no other, and gaps by how much longer a turn takes than its pace.

import { check } from 'k6';
import { Trend } from 'k6/metrics';
import { Client } from './lib/client.js';
import { config, limits } from './lib/config.js';
import { summary } from './lib/summary.js';
import { Turn, counting } from './lib/turn.js';

const CHUNKS = config.chunks ?? 50;
const DELAY = config.delay ?? 20;

const firstEvent = new Trend('first_event', true);
const firstByte = new Trend('first_byte', true);
const chunkGap = new Trend('chunk_gap', true);

export const options = {
  vus: config.clients ?? 32,
  duration: `${config.seconds ?? 20}s`,
  ...limits({
    http_req_failed: ['rate==0'],
    first_event: ['p(95)<500'],
    first_byte: ['p(95)<500'],
    chunk_gap: [`p(95)<${DELAY + 20}`],
  }),
};

let client;
let session;

export default function () {
  if (!client) {
    client = new Client();
    if (!check(client.open(), { 'initialize opens a connection': (open) => open })) return;
    session = client.newSession();
  }
  const short = prompt(1, 0);
  firstEvent.add(short.timings.duration);
  const long = prompt(CHUNKS, DELAY);
  firstByte.add(long.timings.waiting);
  chunkGap.add(long.timings.duration / CHUNKS);
}

function prompt(chunks, delay) {
  const turn = new Turn(chunks);
  const { answer, events, response } = client.call('session/prompt', { sessionId: session, prompt: counting(chunks, delay) });
  events.forEach(({ message }) => message && turn.take(message));
  check(turn.good(answer), { 'a turn is streamed in full': (good) => good });
  return response;
}

export const handleSummary = summary('stream');
