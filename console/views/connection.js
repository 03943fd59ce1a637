// The connection, honestly: what state it is in, which events came, and a way to cut it.
import { html } from '../vendor.js';
import { recalled } from '../memory.js';
import { t } from '../texts.js';

const SHOWN = 60;

export function ConnectionState({ store }) {
  const { state } = store.client;
  return html`
    <a class="pill" href="#/connection" data-connection=${state} title=${t.stateHint[state]}>
      <span class="dot" aria-hidden="true"></span><span role="status">${t[state]}</span>
    </a>`;
}

export function Connection({ store }) {
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
        <dt>${t.resumed}</dt><dd id="resumed">${client.resumed}</dd>
        <dt>${t.received}</dt><dd>${client.received}</dd>
        <dt>${t.cursor}</dt><dd><code id="cursor" dir="ltr">${client.cursor ?? '–'}</code></dd>
        <dt>${t.lastClose}</dt>
        <dd>${close ? `${close.code || ''} ${close.reason}`.trim() || '–' : '–'}</dd>
        <dt>${t.agent}</dt>
        <dd>${agent ? `${agent.title ?? agent.name} ${agent.version ?? ''}` : '–'}</dd>
      </dl>
      <div class="row">
        <button id="cut" onClick=${() => client.cut()} disabled=${client.state !== 'live'}>${t.cutNow}</button>
        <span class="muted">${t.cutHint}</span>
      </div>
      ${recalled('baton.login') && html`
        <div class="row"><button id="logout" onClick=${() => store.logout()}>${t.logout}</button></div>`}
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
