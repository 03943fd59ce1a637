// Turns over WebSockets, each event timed as it comes.

import { check } from 'k6';
import exec from 'k6/execution';
import { Trend } from 'k6/metrics';
import { Socket } from './lib/socket.js';
import { config, limits } from './lib/config.js';
import { summary } from './lib/summary.js';
import { Turn, counting } from './lib/turn.js';

const CHUNKS = config.chunks ?? 50;
const DELAY = config.delay ?? 20;
const SECONDS = config.seconds ?? 20;

const opened = new Trend('opened', true);
const firstEvent = new Trend('first_event', true);
const chunkGap = new Trend('chunk_gap', true);
const turnTime = new Trend('turn', true);

const CLIENTS = config.clients ?? 32;

export const options = {
  scenarios: { talk: { executor: 'per-vu-iterations', vus: CLIENTS, iterations: 1, maxDuration: `${SECONDS + 60}s` } },
  ...limits({
    opened: ['p(95)<1000'],
    first_event: ['p(95)<500'],
    chunk_gap: [`p(95)<${DELAY + 50}`],
    turns_good: [`count>=${CLIENTS}`],
  }),
};

export default async function () {
  const begun = Date.now();
  const socket = new Socket();
  await socket.open();
  opened.add(Date.now() - begun);
  const made = await socket.call('session/new', { cwd: '/tmp', mcpServers: [] });
  const end = exec.scenario.startTime + SECONDS * 1000;
  do {
    await talk(socket, made.result.sessionId);
  } while (Date.now() < end);
  socket.close();
}

async function talk(socket, session) {
  const turn = new Turn(CHUNKS);
  const begun = Date.now();
  let last;
  socket.heard = (message) => {
    if (!turn.take(message)) return;
    const now = Date.now();
    if (last === undefined) firstEvent.add(now - begun);
    else chunkGap.add(now - last);
    last = now;
  };
  const answer = await socket.call('session/prompt', { sessionId: session, prompt: counting(CHUNKS, DELAY) });
  turnTime.add(Date.now() - begun);
  check(turn.good(answer), { 'a turn is streamed in full': (good) => good });
}

export const handleSummary = summary('websocket');
