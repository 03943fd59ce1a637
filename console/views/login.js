// Who calls has to say so: a key, which becomes a cookie that no script can read.
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
    this.input.current.focus();
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

  render(_, { error, busy }) {
    return html`
      <main class="login">
        <form class="card" onSubmit=${(event) => this.submit(event)}>
          <h1><${Logo} /> ${t.name}</h1>
          <label for="key">${t.key}</label>
          <input id="key" ref=${this.input} type="password" autocomplete="current-password" required
            spellcheck="false" aria-describedby="key-hint key-error" aria-invalid=${error ? 'true' : null} />
          <p id="key-hint" class="muted">${t.keyHint}</p>
          <p id="key-error" class="error" role="alert">${error}</p>
          <button class="primary" disabled=${busy}>${t.login}</button>
        </form>
      </main>`;
  }
}
