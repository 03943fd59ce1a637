// A link with which others watch a session.
import { Component, createRef, html } from '../vendor.js';
import { t } from '../texts.js';

export class Share extends Component {
  constructor() {
    super();
    this.dialog = createRef();
    this.state = { link: '', expiresAt: '', lasts: t.shareTimes[0][0], copied: false };
  }

  open() {
    this.setState({ link: '', copied: false });
    this.dialog.current.showModal();
  }

  async make() {
    const made = await this.props.store.share(this.props.session, Number(this.state.lasts));
    if (made) this.setState({ ...made, copied: false });
  }

  async copy() {
    await navigator.clipboard?.writeText(this.state.link).then(() => this.setState({ copied: true }), () => {});
  }

  async end() {
    await this.props.store.unshare(this.props.session);
    this.setState({ link: '' });
  }

  render(_, { link, expiresAt, lasts, copied }) {
    return html`
      <button id="share" onClick=${() => this.open()}>${t.share}</button>
      <dialog ref=${this.dialog} aria-labelledby="share-title">
        <form method="dialog" class="sheet">
          <h2 id="share-title">${t.shareTitle}</h2>
          <p class="muted">${t.shareHint}</p>
          <div class="row">
            <label class="choice"><span>${t.shareFor}</span>
              <select value=${lasts} onChange=${(event) => this.setState({ lasts: event.target.value })}>
                ${t.shareTimes.map(([seconds, name]) => html`<option key=${seconds} value=${seconds}>${name}</option>`)}
              </select></label>
            <button type="button" id="make-link" class="primary" onClick=${() => this.make()}>${t.shareMake}</button>
          </div>
          ${link && html`
            <label for="link">${t.link}</label>
            <div class="row link-row"><input id="link" readonly value=${link} dir="ltr" onFocus=${(event) => event.target.select()} />
              <button type="button" onClick=${() => this.copy()}>${copied ? t.shareCopied : t.shareCopy}</button></div>
            <p class="muted">${t.shareUntil(new Date(expiresAt).toLocaleString())}</p>`}
          <div class="row"><button type="button" id="unshare" class="danger" onClick=${() => this.end()}>${t.unshare}</button>
            <button class="last">${t.close}</button></div>
        </form>
      </dialog>`;
  }
}
