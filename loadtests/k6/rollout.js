// Turns while replicas are restarted by somebody else. A client does what clients should: what was cut off is sent
// again as it was, with the last cursor. No turn may fail, lose an event or get one twice.

import { check, sleep } from 'k6';
import { Counter, Trend } from 'k6/metrics';
import { Client } from './lib/client.js';
import { config, limits } from './lib/config.js';
import { summary } from './lib/summary.js';
import { Turn, counting } from './lib/turn.js';

const CHUNKS = config.chunks ?? 50;
const DELAY = config.delay ?? 40;
const PATIENCE = 30;

const again = new Counter('sent_again');
const refused = new Counter('requests_refused');
const turnTime = new Trend('turn', true);

export const options = {
  vus: config.clients ?? 16,
  duration: `${config.seconds ?? 60}s`,
  ...limits({ requests_refused: ['count==0'], turn: [`p(95)<${CHUNKS * DELAY + 12000}`] }),
};

let client;
let session;

export default function () {
  if (!client) {
    client = new Client();
    if (!check(client.open(), { 'initialize opens a connection': (open) => open })) return;
    session = client.newSession();
  }
  const message = {
    jsonrpc: '2.0',
    id: client.id++,
    method: 'session/prompt',
    params: { sessionId: session, prompt: counting(CHUNKS, DELAY) },
  };
  const turn = new Turn(CHUNKS);
  const begun = Date.now();
  let answer;
  let cursor = '';
  for (let tries = 0; tries < PATIENCE && !answer; tries += 1) {
    if (tries > 0) {
      again.add(1);
      sleep(1);
    }
    const sent = client.send(message, session, cursor);
    if (sent.status >= 400 && sent.status !== 503) refused.add(1);
    for (const event of sent.events) {
      if (event.message) turn.take(event.message);
      if (event.id) cursor = event.id;
    }
    answer = sent.answer;
  }
  turnTime.add(Date.now() - begun);
  check(turn.good(answer), { 'a turn is streamed in full': (good) => good });
}

export const handleSummary = summary('rollout');
