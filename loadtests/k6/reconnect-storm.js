// Everybody loses the network in the middle of a turn and is back within a second. Nobody may miss an event, see one
// twice, or wait long.

import { check } from 'k6';
import exec from 'k6/execution';
import { Counter, Trend } from 'k6/metrics';
import { Socket } from './lib/socket.js';
import { config, limits } from './lib/config.js';
import { summary } from './lib/summary.js';
import { Turn, counting } from './lib/turn.js';

const CLIENTS = config.clients ?? 200;
// When, after the start; all must be in a turn by then.
const STORM_SECONDS = config.seconds ?? Math.max(5, Math.ceil(CLIENTS / 100));
const DELAY = config.delay ?? 200;
// Long enough that every turn is under way when the storm comes, and for some seconds after it.
const CHUNKS = config.chunks ?? Math.ceil(((STORM_SECONDS + 8) * 1000) / DELAY);

const live = new Trend('live_again', true);
const resets = new Counter('resets');
const early = new Counter('turns_over_before_the_storm');

export const options = {
  scenarios: {
    storm: { executor: 'per-vu-iterations', vus: CLIENTS, iterations: 1, maxDuration: `${STORM_SECONDS + 120}s` },
  },
  ...limits({
    live_again: ['max<5000'],
    resets: ['count==0'],
    turns_over_before_the_storm: ['count==0'],
    turns_good: [`count==${CLIENTS}`],
  }),
};

export default async function () {
  const socket = new Socket();
  socket.reset = () => resets.add(1);
  await socket.open();
  const made = await socket.call('session/new', { cwd: '/tmp', mcpServers: [] });
  const turn = new Turn(CHUNKS);
  let heard = () => {};
  socket.glance = (frame) => {
    const cursor = turn.glance(frame);
    if (cursor === undefined) return false;
    socket.cursor = cursor;
    heard();
    return true;
  };
  let over = false;
  const answered = socket.call('session/prompt', { sessionId: made.result.sessionId, prompt: counting(CHUNKS, DELAY) });
  answered.then(() => (over = true), () => (over = true));

  // All within one second.
  await until(exec.scenario.startTime + STORM_SECONDS * 1000 + Math.random() * 1000);
  if (over) early.add(1);
  socket.cut();
  const begun = Date.now();
  const again = new Promise((resolve) => (heard = resolve));
  await socket.open();
  await again;
  live.add(Date.now() - begun);
  const answer = await answered;
  check(turn.good(answer), { 'nothing lost, nothing twice': (good) => good });
  socket.close();
}

function until(time) {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, time - Date.now())));
}

export const handleSummary = summary('reconnect-storm');
