// The page: what is shown where. state.js knows, views/ show.
import { Component, html, render } from './vendor.js';
import { Store } from './state.js';
import { t } from './texts.js';
import { Connection, ConnectionState } from './views/connection.js';
import { Inbox } from './views/inbox.js';
import { Login } from './views/login.js';
import { Sessions } from './views/sessions.js';
import { Talk } from './views/talk.js';
import { Operators } from './views/operators.js';
import { Boundary, Logo } from './views/parts.js';

/** Words need no more than 25 pictures a second. */
const FRAME_MS = 40;
const HISTORY_MS = 400;

class App extends Component {
  componentDidMount() {
    const { store } = this.props;
    // Many events make one repaint: few where nobody looks, or where a history is being read.
    let due = false;
    let last = 0;
    const paint = () => {
      due = false;
      last = performance.now();
      this.setState({ version: (this.state.version ?? 0) + 1 });
    };
    store.listeners.add(() => {
      if (due) return;
      due = true;
      const slow = document.hidden || store.current?.attached === 'loading';
      const wait = (slow ? HISTORY_MS : FRAME_MS) - (performance.now() - last);
      if (document.hidden) setTimeout(paint, Math.max(wait, 0));
      else if (wait > 0) setTimeout(() => requestAnimationFrame(paint), wait);
      else requestAnimationFrame(paint);
    });
    store.start();
  }

  render({ store }) {
    if (store.auth === 'out') return html`<${Login} store=${store} />`;
    const { view, session } = store.route;
    const waiting = store.waiting.length;
    const shown = { talk: Talk, inbox: Inbox, connection: Connection, sessions: Sessions,
      operators: store.caller.admin ? Operators : Connection }[view];
    return html`
      <div class="shell" data-guest=${store.caller.shared ? 'yes' : 'no'} data-view=${view} data-session=${session ? 'yes' : 'no'}>
        <a class="skip" href="#main" onClick=${skip}>${t.skip}</a>
        ${!store.caller.shared && html`<aside class="side" aria-label=${t.sessionsList}>
          <header class="brand">
            <${Logo} /><strong>${t.name}</strong><${ConnectionState} store=${store} />
          </header>
          <${Boundary}><${Sessions} store=${store} compact /><//>
        </aside>`}
        <main id="main" class="main" tabindex="-1">
          <${Boundary} key=${view + (session ?? '')}><${shown} store=${store} /><//>
        </main>
        <nav class="nav" aria-label=${t.name}>
          ${store.caller.shared && html`<span class="guest-brand"><${Logo} /><strong>${t.name}</strong></span>`}
          <${Tab} store=${store} view="talk" href=${talkHref(store)} label=${t.talk} />
          ${!store.caller.shared && html`
            <${Tab} store=${store} view="sessions" href="#/sessions" label=${t.sessions} />
            <${Tab} store=${store} view="inbox" href="#/inbox" label=${t.inbox} count=${waiting} />`}
          <${Tab} store=${store} view="connection" href="#/connection" label=${t.connection} />
          ${store.caller.admin && html`<${Tab} store=${store} view="operators" href="#/operators" label=${t.operators} />`}
          <span class="nav-state"><${ConnectionState} store=${store} /></span>
        </nav>
        <div class="toasts" role="status" aria-live="polite">
          ${store.toasts.map((toast) => html`
            <div class="toast" key=${toast.key}>
              <span dir="auto">${toast.text}</span>
              ${toast.act && html`<button class="link" onClick=${toast.act}>${toast.label}</button>`}
              ${!toast.act && html`
                <button class="link" aria-label=${t.close} onClick=${() => store.dismiss(toast)}>×</button>`}
            </div>`)}
        </div>
      </div>`;
  }
}

function Tab({ store, view, href, label, count = 0 }) {
  const current = store.route.view === view;
  return html`
    <a class=${`tab tab-${view}`} href=${href} aria-current=${current ? 'page' : null}>
      <span>${label}</span>${count > 0 && html`<span class="badge">${count}</span>`}
    </a>`;
}

function talkHref(store) {
  if (store.route.view === 'talk') return location.hash || '#/';
  return store.lastTalk;
}

function skip(event) {
  event.preventDefault();
  document.getElementById('main').focus();
}

const store = new Store();
render(html`<${App} store=${store} />`, document.getElementById('app'));
