// Who calls has to say so: with a key, or at the page of an identity provider. Either becomes a cookie
// that no script can read.
import { Component, createRef, html } from '../vendor.js';
import { t } from '../texts.js';
import { Logo } from './parts.js';

export class Login extends Component {
  constructor() {
    super();
    this.state = { error: '', busy: false };
    this.input = createRef();
  }

  componentDidMount() {
    this.input.current?.focus();
  }

  async leave() {
    this.setState({ busy: true, error: '' });
    const error = await this.props.store.loginAtProvider();
    if (error) this.setState({ error, busy: false });
  }

  async submit(event) {
    event.preventDefault();
    const key = this.input.current.value.trim();
    if (!key || this.state.busy) return;
    this.setState({ busy: true, error: '' });
    const error = await this.props.store.login(key);
    if (!error) return;
    if (this.input.current) this.input.current.value = '';
    this.setState({ error, busy: false });
    this.input.current?.focus();
  }

  render({ store }, { error, busy }) {
    const told = error || t.loginFault[store.route.fault] || '';
    return html`
      <main class="login">
        <form class="card" onSubmit=${(event) => this.submit(event)}>
          <h1><${Logo} /> ${t.name}</h1>
          ${store.provider && html`
            <button id="provider" type="button" class="primary" disabled=${busy} onClick=${() => this.leave()}>
              ${t.loginWith(store.provider)}</button>
            <p class="or muted">${t.loginOr}</p>`}
          <label for="key">${t.key}</label>
          <input id="key" ref=${this.input} type="password" autocomplete="current-password" required
            spellcheck="false" aria-describedby="key-hint key-error" aria-invalid=${told ? 'true' : null} />
          <p id="key-hint" class="muted">${t.keyHint}</p>
          <p id="key-error" class="error" role="alert">${told}</p>
          <button class=${store.provider ? '' : 'primary'} disabled=${busy}>${t.login}</button>
        </form>
      </main>`;
  }
}
