// Small things that several views use.
import { Component, html } from '../vendor.js';
import { t } from '../texts.js';

export const Logo = () => html`
  <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="8" class="logo-back" />
    <path d="M9 23 23 9" class="logo-stick" /><circle cx="23" cy="9" r="3.2" class="logo-end" />
  </svg>`;

export const ForkIcon = () => html`
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><circle cx="4" cy="3.5" r="1.8" /><circle cx="12" cy="3.5" r="1.8" />
    <circle cx="8" cy="12.5" r="1.8" /><path d="M4 5.3v1.2Q4 8 5.5 8h5Q12 8 12 6.5V5.3M8 8v2.7" /></svg>`;

export const ClipIcon = () => html`
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="M13 7.5 7.8 12.7a3.2 3.2 0 0 1-4.5-4.5l5.6-5.6a2.1 2.1 0 0 1 3 3L6.4 11.1a1 1 0 0 1-1.5-1.5l4.7-4.7" /></svg>`;

export const StateMark = ({ state }) => html`
  <span class="mark" data-state=${state}><span class="dot" aria-hidden="true"></span>
    <span class="mark-text">${t.state[state] ?? ''}</span></span>`;

const UNITS = [['year', 31536000], ['month', 2592000], ['day', 86400], ['hour', 3600], ['minute', 60]];
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'narrow' });

/** @param {string} when ISO 8601 */
export function ago(when) {
  const seconds = (Date.parse(when) - Date.now()) / 1000;
  if (!Number.isFinite(seconds)) return '';
  const [unit, size] = UNITS.find(([, length]) => -seconds >= length) ?? ['second', 1];
  return unit === 'second' ? 'now' : relative.format(Math.round(seconds / size), unit);
}

/**
 * What cannot be shown does not take the page with it. Another `version` is tried again.
 */
export class Boundary extends Component {
  componentDidCatch(error) {
    console.warn(error);
    this.setState({ failed: { version: this.props.version } });
  }

  render({ children, version }, { failed }) {
    if (!failed || failed.version !== version) return children;
    return html`<p class="muted unshown">${t.unshown}</p>`;
  }
}

/** Text that nobody wants to see whole is shown in part. */
const SHOWN = 20000;

export function Code({ text, kind = '', end = false }) {
  const more = text.length - SHOWN;
  return html`<pre class=${`code ${kind}`} tabindex="0" dir="ltr"><code>${end ? text.slice(-SHOWN) : text.slice(0, SHOWN)}</code>${
    more > 0 && html`<span class="muted">${'\n'}${t.cut(more)}</span>`}</pre>`;
}

export const json = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));
