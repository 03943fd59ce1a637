// What a run comes to: a text for people, JSON for programs, and a page that needs nothing else.

import { STATS } from './config.js';
import { page } from './page.js';

/// For `export const handleSummary = summary('stream')`.
export function summary(name) {
  return (data) => {
    const results = __ENV.RESULTS || '.';
    return {
      stdout: text(name, data),
      [`${results}/${name}.json`]: JSON.stringify(data, null, 2),
      [`${results}/${name}.html`]: page(name, rows(data), verdicts(data)),
    };
  };
}

/// Metrics that say something, in the order of their names.
export function rows(data) {
  return Object.keys(data.metrics)
    .sort()
    .filter((name) => !/^(data_|iteration|vus|http_req_(blocked|connecting|sending|tls|receiving|waiting))/.test(name))
    .map((name) => ({ name, type: data.metrics[name].type, unit: unit(data.metrics[name]), values: data.metrics[name].values }));
}

/// Every threshold, and whether it was kept.
export function verdicts(data) {
  return Object.entries(data.metrics).flatMap(([metric, { thresholds }]) =>
    Object.entries(thresholds || {}).map(([limit, { ok }]) => ({ metric, limit, ok })),
  );
}

function unit(metric) {
  return metric.contains === 'time' ? 'ms' : '';
}

function text(name, data) {
  const lines = [`\n${name}: ${(data.state.testRunDurationMs / 1000).toFixed(1)} s`];
  for (const row of rows(data)) {
    const stats = row.type === 'trend' ? STATS : Object.keys(row.values).sort();
    const values = stats.map((stat) => `${stat}=${shown(row.values[stat])}`);
    lines.push(`  ${row.name.padEnd(40)} ${values.join(' ')}${row.unit && ` ${row.unit}`}`);
  }
  for (const { metric, limit, ok } of verdicts(data)) lines.push(`  ${ok ? 'kept  ' : 'BROKEN'} ${metric}: ${limit}`);
  return `${lines.join('\n')}\n`;
}

export function shown(value) {
  if (value === undefined || value === null) return '–';
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}
