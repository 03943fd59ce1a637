// The connection, honestly: what state it is in, which events came, and a way to cut it.
import { Component, html } from '../vendor.js';
import { oneLine } from '../markdown.js';
import { t } from '../texts.js';

const SHOWN = 60;

export function ConnectionState({ store }) {
  const { state } = store.client;
  return html`
    <a class="pill" href="#/connection" data-connection=${state} title=${t.stateHint[state]}>
      <span class="dot" aria-hidden="true"></span><span role="status">${t[state]}</span>
    </a>`;
}

/** What the token of the open session says, and its clock. */
class Token extends Component {
  componentDidMount() {
    this.timer = setInterval(() => this.setState({}), 1000);
  }

  componentWillUnmount() {
    clearInterval(this.timer);
  }

  render({ session }) {
    const { token } = session;
    const left = Math.round(token.exp - Date.now() / 1000);
    const share = Math.max(0, Math.min(1, left / (token.exp - token.iat)));
    const clock = left <= 0 ? t.tokenOver : t.tokenLeft(left < 120 ? `${left} s` : `${Math.round(left / 60)} min`);
    const rows = t.tokenRows;
    return html`
      <h2>${t.token}</h2>
      <dl class="facts" id="token">
        <dt>${rows.scope}</dt><dd>${t.tokenScope[token.scp] ?? token.scp}</dd>
        <dt>${rows.principal}</dt><dd><code dir="ltr">${oneLine(token.prn, 60)}</code></dd>
        <dt>${rows.generation}</dt><dd>${token.gen}</dd>
        <dt>${rows.family}</dt><dd><code dir="ltr">${oneLine(token.fam, 20)}</code></dd>
        <dt>${rows.received}</dt><dd>${session.tokens}</dd>
        <dt>${rows.issued}</dt><dd>${new Date(token.iat * 1000).toLocaleTimeString()}</dd>
        <dt>${rows.expires}</dt><dd>${new Date(token.exp * 1000).toLocaleTimeString()} · <span class="clock">${clock}</span>
          <progress max="1" value=${share} aria-label=${clock}></progress></dd>
      </dl>`;
  }
}

export function Connection({ store }) {
  const session = store.lastSession;
  const workers = session?.workers ?? [];
  const { client } = store;
  const events = client.events.slice(-SHOWN).reverse();
  const close = client.lastClose;
  const agent = client.agent?.agentInfo;
  return html`
    <section class="page" aria-labelledby="connection-title">
      <h1 id="connection-title">${t.connection}</h1>
      <p class="lead"><span class="pill big" data-connection=${client.state}>
        <span class="dot" aria-hidden="true"></span>${t[client.state]}</span> ${t.stateHint[client.state]}</p>
      <dl class="facts">
        <dt>${t.gateway}</dt><dd><code id="gateway" dir="ltr">${client.gateway || t.unknownName}</code></dd>
        <dt>${t.worker}</dt><dd><code id="worker" dir="ltr">${workers[0] ?? t.unknownName}</code>
          ${workers.length > 1 && html` <span class="muted">${t.workersBefore(workers.slice(1).join(', '))}</span>`}</dd>
        <dt>${t.resumed}</dt><dd id="resumed">${client.resumed}</dd>
        <dt>${t.received}</dt><dd>${client.received}</dd>
        <dt>${t.cursor}</dt><dd><code id="cursor" dir="ltr" tabindex="0">${client.cursor ?? '–'}</code></dd>
        <dt>${t.lastClose}</dt>
        <dd>${close ? `${close.code || ''} ${close.reason}`.trim() || '–' : '–'}</dd>
        <dt>${t.agent}</dt>
        <dd>${agent ? `${agent.title ?? agent.name} ${agent.version ?? ''}` : '–'}</dd>
      </dl>
      <div class="row">
        <button id="cut" onClick=${() => client.cut()} disabled=${client.state !== 'live'}>${t.cutNow}</button>
        <span class="muted">${t.cutHint}</span>
      </div>
      ${store.caller.demo && html`
        <div class="row">
          <button id="kill" class="danger" onClick=${() => store.killWorker(session)} disabled=${!workers.length}>${t.killWorker}</button>
          <span class="muted">${workers.length ? t.killHint : t.demoWants}</span>
        </div>`}
      ${store.caller.login && html`
        <div class="row"><button id="logout" onClick=${() => store.logout()}>${t.logout}</button></div>`}
      ${session?.token && html`<${Token} session=${session} />`}
      <h2>${t.events}</h2>
      <div class="table" tabindex="0" role="region" aria-label=${t.events}>
        <table class="events">
          <thead><tr><th>${t.time}</th><th>${t.kind}</th><th>${t.bytes}</th><th>${t.eventId}</th></tr></thead>
          <tbody>${events.map((event) => html`
            <tr><td>${new Date(event.at).toLocaleTimeString()}</td><td>${event.kind}</td>
              <td class="number">${event.size}</td><td><code dir="ltr">${event.cursor ?? ''}</code></td></tr>`)}
          </tbody>
        </table>
      </div>
      ${events.length === 0 && html`<p class="muted">${t.noEvents}</p>`}
    </section>`;
}
