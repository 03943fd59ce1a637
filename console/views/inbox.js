// Everything that waits for a person, in one place, answered there.
import { Component, html } from '../vendor.js';
import { t } from '../texts.js';
import { Question } from './question.js';

export class Inbox extends Component {
  async permit() {
    await Notification.requestPermission();
    this.setState({});
  }

  render({ store }) {
    const waiting = store.waiting;
    return html`
      <section class="page" aria-labelledby="inbox-title">
        <h1 id="inbox-title">${t.inbox}</h1>
        <p class="muted">${t.inboxHint}</p>
        ${window.Notification?.permission === 'default' && html`
          <div class="row"><button id="notify" onClick=${() => this.permit()}>${t.notify}</button></div>`}
        <div aria-live="polite">
          ${waiting.length === 0 && html`<p class="empty">${t.inboxEmpty}</p>`}
          ${waiting.map((question) => {
            const session = store.session(question.session);
            const href = `#/s/${encodeURIComponent(session.id)}`;
            return html`
              <article class="waiting" key=${question.id}>
                <h2><a href=${href} dir="auto">${session.name}</a>
                  <span class="where" dir="ltr">${session.cwd}</span></h2>
                ${question.elsewhere
                  ? html`<div class="row"><span>${t.waitsHere}</span>
                      <button onClick=${() => store.resume(session)}>${t.show}</button></div>`
                  : html`<${Question} store=${store} question=${question} />`}
              </article>`;
          })}
        </div>
      </section>`;
  }
}
