// The list of sessions: searched, opened, deleted. Forks stand below what they were made of.
import { Component, html } from '../vendor.js';
import { t } from '../texts.js';
import { StateMark, ago } from './parts.js';

export class Sessions extends Component {
  constructor() {
    super();
    this.state = { confirming: null };
  }

  render({ store, compact }) {
    const words = store.search.toLowerCase().split(/\s+/).filter(Boolean);
    const all = store.order.map((id) => store.sessions.get(id)).filter((session) => session && !session.deleting);
    const found = all.filter((session) => {
      const text = [session.name, session.cwd, session.agent, t.state[session.state]].join(' ').toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const rows = words.length ? found.map((session) => [session, 0]) : tree(found);
    const id = compact ? 'search-side' : 'search';
    return html`
      <section class=${compact ? 'sessions' : 'sessions page'} aria-label=${t.sessions}>
        ${!compact && html`<h1>${t.sessions}</h1>`}
        <div class="row tools">
          ${!store.readOnly && html`<a class="button primary new" href="#/">${t.newSession}</a>`}
          ${!compact && html`<button onClick=${() => store.list()}>${t.refresh}</button>`}
        </div>
        <label class="hidden" for=${id}>${t.search}</label>
        <input id=${id} class="search" type="search" placeholder=${t.search} value=${store.search}
          onInput=${(event) => { store.search = event.target.value; store.changed(); }} />
        <ul class="list">
          ${rows.map(([session, depth]) => html`
            <${Row} key=${session.id} store=${store} session=${session} depth=${depth}
              version=${session.version} current=${store.route.session === session.id} />`)}
        </ul>
        ${all.length === 0 && html`<p class="muted pad">${t.none}</p>`}
        ${all.length > 0 && rows.length === 0 && html`<p class="muted pad">${t.noMatch}</p>`}
        ${store.nextCursor && html`<button class="more" onClick=${() => store.list(true)}>${t.more}</button>`}
      </section>`;
  }
}

/** Children behind their parents, as far as both are known. */
function tree(sessions) {
  const known = new Set(sessions.map((session) => session.id));
  const children = new Map();
  for (const session of sessions) {
    const parent = known.has(session.parent) && session.parent !== session.id ? session.parent : null;
    children.set(parent, [...(children.get(parent) ?? []), session]);
  }
  const seen = new Set();
  const below = (parent, depth) => (children.get(parent) ?? []).flatMap((session) => {
    if (seen.has(session.id)) return [];
    seen.add(session.id);
    return [[session, Math.min(depth, 4)], ...below(session.id, depth + 1)];
  });
  return below(null, 0);
}

class Row extends Component {
  shouldComponentUpdate(next) {
    const { version, current, depth } = this.props;
    return next.version !== version || next.current !== current || next.depth !== depth;
  }

  render({ store, session, depth, current }) {
    return html`
      <li class="entry" data-depth=${depth} data-session=${session.id}>
        <a href=${`#/s/${encodeURIComponent(session.id)}`} aria-current=${current ? 'true' : null}
          class=${session.unread ? 'unread' : ''}>
          <span class="title" dir="auto">${depth > 0 && html`<span aria-hidden="true">↳ </span>`}${session.name}</span>
          <${StateMark} state=${session.shownState} />
          <span class="where" dir="ltr" title=${session.cwd}>${session.cwd}</span>
          <span class="when">${session.agent ? `${session.agent} · ` : ''}${ago(session.updatedAt)}</span>
        </a>
        ${!store.readOnly && html`<button class="remove" aria-label=${`${t.delete}: ${session.name}`} title=${t.delete}
          onClick=${() => store.remove(session)}>×</button>`}
      </li>`;
  }
}
