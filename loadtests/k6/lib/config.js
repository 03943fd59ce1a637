// What may be set from outside, with what it is otherwise.

const base = (__ENV.BASE_URL || 'http://127.0.0.1:8080').replace(/\/$/, '');

export const config = {
  http: `${base}/acp`,
  websocket: `${base.replace(/^http/, 'ws')}/acp`,
  // An API key or token, if gateways ask who calls.
  credential: __ENV.BATON_CREDENTIAL || '',
  // How many clients, how long, how much each turn says.
  clients: number('CLIENTS'),
  seconds: number('DURATION'),
  chunks: number('CHUNKS'),
  delay: number('DELAY_MS'),
};

function number(name) {
  const given = __ENV[name];
  if (given === undefined || given === '') return undefined;
  const value = Number(given);
  if (!Number.isInteger(value) || value < 0) throw new Error(`${name}=${given}: must be a whole number`);
  return value;
}

/// The summary's columns.
export const STATS = ['min', 'med', 'p(90)', 'p(95)', 'p(99)', 'max', 'count'];

/// For a script's options: what must hold in each of them, and in this one.
export function limits(thresholds) {
  return {
    summaryTrendStats: STATS,
    // A run in which nothing happened is no good one.
    thresholds: { checks: ['rate==1'], turns_wrong: ['count==0'], turns_good: ['count>0'], ...thresholds },
  };
}
