// The page: what was to be kept, then for each time its percentiles as bars.

import { shown } from './summary.js';

const STEPS = ['min', 'med', 'p(90)', 'p(95)', 'p(99)', 'max'];
const STYLE = `body{font:15px system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left;font-family:monospace}.kept{color:#176f2c}.broken{color:#b3261e;font-weight:bold}
svg text{font:12px system-ui,sans-serif}rect{fill:#4a7bb5}`;

export function page(name, rows, verdicts) {
  const times = rows.filter((row) => row.type === 'trend' && row.values.count > 0);
  const others = rows.filter((row) => row.type !== 'trend');
  const body = [
    `<h1>${escape(name)}</h1>`,
    '<h2>Limits</h2>',
    table(['metric', 'limit', ''], verdicts.map(({ metric, limit, ok }) => [escape(metric), escape(limit), mark(ok)])),
    '<h2>Counts</h2>',
    table(['metric', 'values'], others.map((row) => [row.name, escape(pairs(row.values))])),
    '<h2>Times</h2>',
    table(['metric', ...STEPS, 'count'], times.map((row) => [row.name, ...[...STEPS, 'count'].map((it) => shown(row.values[it]))])),
    ...times.map(plot),
  ];
  return `<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>${escape(name)}</title><style>${STYLE}</style>\n${body.join('\n')}\n</html>\n`;
}

/// One bar per percentile, all to one scale.
function plot(row) {
  const most = row.values.max || 1;
  const bars = STEPS.map((step, at) => {
    const value = row.values[step] || 0;
    const width = Math.max(1, (value / most) * 440);
    const y = at * 24;
    return `<text x="60" y="${y + 15}" text-anchor="end">${step}</text><rect x="68" y="${y + 2}" width="${width.toFixed(1)}" height="18"/><text x="${(width + 74).toFixed(1)}" y="${y + 15}">${shown(value)} ${row.unit}</text>`;
  });
  return `<h3>${escape(row.name)}</h3>\n<svg width="620" height="${STEPS.length * 24}" role="img">${bars.join('')}</svg>`;
}

function table(head, lines) {
  const cells = (tag, line) => `<tr>${line.map((cell) => `<${tag}>${cell}</${tag}>`).join('')}</tr>`;
  return `<table>${cells('th', head)}${lines.map((line) => cells('td', line)).join('')}</table>`;
}

function mark(ok) {
  return ok ? '<span class="kept">kept</span>' : '<span class="broken">broken</span>';
}

function pairs(values) {
  return Object.entries(values).map(([stat, value]) => `${stat} ${shown(value)}`).join(', ');
}

function escape(text) {
  return String(text).replace(/[&<>"]/g, (it) => `&#${it.charCodeAt(0)};`);
}
