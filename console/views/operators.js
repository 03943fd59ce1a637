// The whole cluster, for administrators: what its processes say of themselves, and what can be done about it.
import { Component, html } from '../vendor.js';
import { t } from '../texts.js';
import { list, oneLine } from '../markdown.js';
import { Plot } from './plot.js';

const REFRESH_MS = 5000;
const MINUTES = 60;
const PLOTS = [
  ['messages', 'counters'], ['delivered', 'counters'], ['turns', 'counters'],
  ['delivery', 'latencies'], ['wait', 'latencies'], ['request', 'latencies'],
];

export class Operators extends Component {
  componentDidMount() {
    this.props.store.refreshCluster();
    this.timer = setInterval(() => !document.hidden && this.props.store.refreshCluster(), REFRESH_MS);
  }

  componentWillUnmount() {
    clearInterval(this.timer);
  }

  render({ store }) {
    const { cluster, clusterError } = store;
    const processes = list(cluster?.processes).sort((one, other) => compare(one, other));
    return html`
      <section class="page wide" aria-labelledby="operators-title">
        <h1 id="operators-title">${t.operators}</h1>
        ${clusterError && html`<p class="error" role="alert">${clusterError}</p>`}
        ${!processes.length && html`<p class="muted">${t.clusterWait}</p>`}
        ${processes.length > 0 && html`
          <${Figures} cluster=${cluster} processes=${processes} />
          <${Hour} processes=${processes} />
          <${Processes} store=${store} here=${cluster.gateway} processes=${processes} />
          <${Agents} agents=${list(cluster.agents)} />
          <div class="columns">
            <${TopSessions} store=${store} processes=${processes} />
            <${TopCallers} store=${store} processes=${processes} />
          </div>
          <p class="muted">${t.audited}</p>`}
      </section>`;
  }
}

const ROLES = ['serve', 'gateway', 'worker'];
const compare = (one, other) => ROLES.indexOf(one.report.role) - ROLES.indexOf(other.report.role)
  || one.process.localeCompare(other.process);
const is = (role) => ({ report }) => report.role === role || report.role === 'serve';
const sum = (processes, kind, name) => processes.reduce((total, { report }) => total + (Number(report[kind]?.[name]) || 0), 0);
const most = (processes, name) => Math.max(0, ...processes.map(({ report }) => Number(report.gauges?.[name]) || 0));
const number = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const whole = (value) => number.format(Number(value) || 0);
const bytes = (value) => (value < 1 << 20 ? `${Math.round(value / 1024)} KB` : value < 2 ** 30 ? `${whole(value / (1 << 20))} MB`
  : `${whole(value / 2 ** 30)} GB`);

function Figures({ cluster, processes }) {
  const names = t.facts;
  const memory = list(cluster.memory);
  const used = memory.reduce((total, server) => total + server.used, 0);
  const limit = memory.reduce((total, server) => total + (server.limit ?? 0), 0);
  const bad = (name) => sum(processes, 'counters', name);
  const facts = [
    [names.gateways, processes.filter(is('gateway')).length], [names.workers, processes.filter(is('worker')).length],
    [names.streams, sum(processes, 'gauges', 'streams')], [names.sessions, sum(processes, 'gauges', 'sessions')],
    [names.running, sum(processes, 'gauges', 'turns_running')], [names.queued, most(processes, 'queued'), most(processes, 'queued') > 0],
    [names.memory, !memory.length ? t.inProcess : limit ? t.ofLimit(bytes(used), bytes(limit)) : bytes(used), limit && used / limit > 0.8],
    [names.takeovers, bad('takeovers')], [names.fenced, bad('fenced')], [names.resumes, bad('resumes')],
    [names.resets, bad('resets'), bad('resets') > 0], [names.refused, bad('refused')], [names.failed, bad('failed'), bad('failed') > 0],
    [names.revocations, cluster.revocations],
  ];
  return html`
    <dl class="tiles">${facts.map(([name, value, warns]) => html`
      <div key=${name} data-warns=${warns ? 'yes' : 'no'}><dt>${name}</dt><dd>${typeof value === 'number' ? whole(value) : value}</dd></div>`)}</dl>`;
}

function Hour({ processes }) {
  const last = Math.max(...processes.map(({ report }) => Math.floor(report.at / 60) - 1));
  const minutes = Array.from({ length: MINUTES }, (_, index) => last - MINUTES + 1 + index);
  const known = processes.flatMap(({ report }) => list(report.minutes));
  const byMinute = new Map(minutes.map((minute) => [minute, []]));
  for (const one of known) byMinute.get(one.at)?.push(one);
  const series = (name, kind) => {
    const of = (pick) => minutes.map((minute) => {
      const all = byMinute.get(minute);
      return all.length ? pick(all) : null;
    });
    if (kind === 'counters') return [of((all) => all.reduce((total, one) => total + (one.counters?.[name] ?? 0), 0))];
    const worst = (at) => of((all) => {
      const found = all.map((one) => one.latencies?.[name]?.[at]).filter((value) => value !== undefined);
      return found.length ? Math.max(...found) : null;
    });
    return [worst(0), worst(1)];
  };
  return html`
    <h2>${t.lastHour}</h2>
    ${known.length === 0 ? html`<p class="muted">${t.noPlot}</p>` : html`
      <div class="plots">${PLOTS.map(([name, kind]) => html`
        <${Plot} key=${name} title=${t.plots[name]} series=${series(name, kind)} />`)}</div>`}`;
}

function up(report) {
  const seconds = report.at - report.started;
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

function Processes({ store, here, processes }) {
  const drain = (process) => confirm(t.drainAsk(process)) && store.operate('drain', { process }, t.drainTold(process));
  const load = ({ gauges, role }) => [
    role !== 'gateway' && t.slotsUsed(whole(gauges.sessions), whole(gauges.slots)),
    role !== 'worker' && t.streamsOpen(whole(gauges.streams)),
  ].filter(Boolean).join(' · ');
  return html`
    <h2>${t.processes}</h2>
    <div class="table" tabindex="0" role="region" aria-label=${t.processes}>
      <table id="processes">
        <thead><tr><th>${t.process}</th><th>${t.role}</th><th>${t.version}</th><th>${t.since}</th><th>${t.load}</th><th>${t.agent}</th><th></th></tr></thead>
        <tbody>${processes.map(({ process, report }) => html`
          <tr key=${process} data-process=${process} data-role=${report.role}>
            <td><code dir="ltr">${oneLine(process, 64)}</code>${process === here && html` <span class="muted">(${t.thisOne})</span>`}</td>
            <td>${report.role}</td><td>${oneLine(report.version, 20)}</td><td>${up(report)}</td>
            <td>${load(report)}</td>
            <td>${report.details?.agent ? `${oneLine(report.details.agent.name, 40)} ${oneLine(report.details.agent.version, 20)}` : ''}</td>
            <td>${report.draining ? html`<span class="muted">${t.draining}</span>`
              : html`<button class="drain" aria-label=${`${t.drain} ${process}`} onClick=${() => drain(process)}>${t.drain}</button>`}</td>
          </tr>`)}</tbody>
      </table>
    </div>`;
}

function Agents({ agents }) {
  return html`
    <h2>${t.agents}</h2>
    <div class="table" tabindex="0" role="region" aria-label=${t.agents}><table>
      <thead><tr><th>${t.agent}</th><th>${t.version}</th><th class="number">${t.facts.workers}</th><th class="number">${t.waits}</th></tr></thead>
      <tbody>${agents.map((agent) => html`
        <tr key=${agent.name}><td>${oneLine(agent.name, 60)}</td><td>${oneLine(agent.version, 30)}</td>
          <td class="number">${whole(agent.workers)}</td><td class="number">${whole(agent.waiting)}</td></tr>`)}</tbody>
    </table></div>`;
}

/** Of all gateways together. */
function top(processes, kind, name) {
  const found = new Map();
  for (const { report } of processes) {
    for (const one of list(report.details?.top?.[kind])) {
      const known = found.get(one[name]) ?? { ...one, messages: 0 };
      known.messages += one.messages;
      found.set(one[name], known);
    }
  }
  return [...found.values()].sort((one, other) => other.messages - one.messages).slice(0, 10);
}

function TopSessions({ store, processes }) {
  const rows = top(processes, 'sessions', 'session');
  const close = ({ session, caller }) => confirm(t.closeAsk(session)) && store.operate('close', { session, caller }, t.closeTold(session));
  const revoke = ({ session }) => confirm(t.revokeAsk(session)) && store.operate('revoke', { session }, t.revokeTold(session));
  return html`
    <div><h2>${t.topSessions}</h2>
      <div class="table" tabindex="0" role="region" aria-label=${t.topSessions}><table id="top-sessions">
        <thead><tr><th>${t.session}</th><th>${t.caller}</th><th class="number">${t.messages}</th><th></th></tr></thead>
        <tbody>${rows.map((row) => html`
          <tr key=${row.session} data-session=${row.session}><td><code dir="ltr" title=${row.session}>${oneLine(row.session, 14)}</code></td>
            <td><code dir="ltr" title=${row.caller}>${oneLine(row.caller, 18)}</code></td><td class="number">${whole(row.messages)}</td>
            <td><span class="row tight"><button class="close" aria-label=${`${t.closeSession} ${row.session}`} onClick=${() => close(row)}>${t.closeSession}</button>
              <button class="danger" aria-label=${`${t.revoke} ${row.session}`} onClick=${() => revoke(row)}>${t.revoke}</button></span></td></tr>`)}</tbody>
      </table></div></div>`;
}

function TopCallers({ store, processes }) {
  const rows = top(processes, 'callers', 'caller');
  const revoke = ({ caller }) => confirm(t.revokeAsk(caller)) && store.operate('revoke', { principal: caller }, t.revokeTold(caller));
  return html`
    <div><h2>${t.topCallers}</h2>
      <div class="table" tabindex="0" role="region" aria-label=${t.topCallers}><table id="top-callers">
        <thead><tr><th>${t.caller}</th><th class="number">${t.messages}</th><th></th></tr></thead>
        <tbody>${rows.map((row) => html`
          <tr key=${row.caller} data-caller=${row.caller}><td><code dir="ltr" title=${row.caller}>${oneLine(row.caller, 30)}</code></td>
            <td class="number">${whole(row.messages)}</td>
            <td><button class="danger" aria-label=${`${t.revoke} ${row.caller}`} onClick=${() => revoke(row)}>${t.revoke}</button></td></tr>`)}</tbody>
      </table></div></div>`;
}
