// The figures of an hour as lines. Gaps stay gaps: nobody was there to count.
import { html } from '../vendor.js';
import { t } from '../texts.js';

const WIDTH = 300;
const HEIGHT = 84;

const short = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

/** A round number that is not below the largest. */
function ceiling(values) {
  const largest = Math.max(0, ...values);
  if (!largest) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= largest);
}

function path(values, top) {
  const step = WIDTH / (values.length - 1);
  let pen = 'M';
  return values.map((value, index) => {
    if (value === null) {
      pen = 'M';
      return '';
    }
    const point = `${pen}${(index * step).toFixed(1)} ${(HEIGHT - (value / top) * HEIGHT).toFixed(1)}`;
    // A minute alone is a dot.
    const dot = pen === 'M' && (values[index + 1] ?? null) === null ? 'h.1' : '';
    pen = 'L';
    return point + dot;
  }).join('');
}

/** @param {{title: string, series: (number|null)[][]}} props */
export function Plot({ title, series }) {
  const all = series.flat().filter((value) => value !== null);
  const top = ceiling(all);
  const last = series.map((values) => values.findLast((value) => value !== null) ?? 0);
  const said = `${title}: ${last.map((value) => short.format(value)).join(', ')}`;
  return html`
    <figure class="plot">
      <figcaption><span>${title}</span><strong>${last.map((value) => short.format(value)).join(' · ')}</strong></figcaption>
      <svg viewBox=${`0 -4 ${WIDTH} ${HEIGHT + 8}`} preserveAspectRatio="none" role="img" aria-label=${said}>
        ${[0, 0.5, 1].map((share) => html`<path key=${share} class="rule" d=${`M0 ${HEIGHT * share}H${WIDTH}`} />`)}
        ${series.map((values, index) => html`<path key=${index} class=${`series series-${index}`} d=${path(values, top)} />`)}
      </svg>
      <p class="scale" aria-hidden="true"><span>${t.minutesAgo(60)}</span><span>${t.topOf(short.format(top))}</span><span>${t.now}</span></p>
    </figure>`;
}
