// A conversation: its turns, the agent's questions, and the line to write in.
import { Component, createRef, html } from '../vendor.js';
import { t } from '../texts.js';
import { list, oneLine, words } from '../markdown.js';
import { recalled } from '../memory.js';
import { attach, kilobytes } from '../attachments.js';
import { ClipIcon, ForkIcon, StateMark } from './parts.js';
import { Question } from './question.js';
import { Share } from './share.js';
import { Turn } from './items.js';

const DRAGS = ['dragover', 'dragleave', 'drop'];

/** So near to the end the page follows what comes. */
const NEAR = 80;

export class Talk extends Component {
  constructor() {
    super();
    this.scroller = createRef();
    this.follows = true;
  }

  componentDidMount() {
    const { store } = this.props;
    if (store.route.session) store.show(store.route.session);
    this.settle();
  }

  componentDidUpdate() {
    this.settle();
  }

  settle() {
    const box = this.scroller.current;
    if (box && this.follows) box.scrollTop = box.scrollHeight;
  }

  scrolled() {
    const box = this.scroller.current;
    const follows = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
    if (follows === this.follows) return;
    this.follows = follows;
    this.setState({});
  }

  render({ store }) {
    const session = store.current;
    if (!session) return html`<${Welcome} store=${store} />`;
    const questions = [...store.questions.values()].filter((question) => question.session === session.id);
    const working = session.state === 'working' || session.state === 'waiting';
    const turns = session.turns;
    return html`
      <div class="talk">
        <${Head} store=${store} session=${session} />
        <div class="scroll" ref=${this.scroller} onScroll=${() => this.scrolled()} tabindex="0"
          role="log" aria-label=${session.name} aria-busy=${session.attached === 'loading'} aria-live="off">
          <div class="column">
            ${session.attached === 'loading' && html`<p class="muted">${t.loading}</p>`}
            ${session.error && html`<p class="error" role="alert">${session.error}</p>`}
            ${turns.map((turn, index) => html`
              <${Turn} key=${turn.key} turn=${turn} version=${turn.version}
                finished=${!(working && index === turns.length - 1)}
                onEdit=${!store.readOnly && ((which, text) => { this.follows = true; store.rephrase(session, which, text); })}
                onFork=${!store.readOnly && ((which) => store.fork(session, index === turns.length - 1 ? null : which))} />`)}
            ${questions.map((question) => html`<${Question} key=${question.id} store=${store} question=${question} />`)}
            ${session.queued.filter((entry) => !entry.withdrawn).map((entry) => html`
              <div class="item user queued" key=${entry.key} dir="auto">${entry.text}
                ${entry.files.length > 0 && html`<span class="muted"> · ${entry.files.map(({ name }) => oneLine(name, 60)).join(', ')}</span>`}
                <span class="row"><span class="muted">${t.queued}</span>
                  <button class="link" onClick=${() => store.withdraw(session, entry)}>${t.withdraw}</button></span>
              </div>`)}
            <p class="working" data-on=${session.state === 'working' ? 'yes' : 'no'} aria-hidden="true"><i></i><i></i><i></i></p>
          </div>
        </div>
        ${!this.follows && html`<button class="jump" aria-label=${t.jump} title=${t.jump}
          onClick=${() => { this.follows = true; this.setState({}); }}>↓</button>`}
        ${store.readOnly ? html`<p class="watching" role="note"><strong>${t.watching}</strong> ${t.watchingHint}</p>` : html`<${Composer} key=${session.id} store=${store} name=${session.id} session=${session} working=${working}
          onSend=${(text, files) => { this.follows = true; store.prompt(session, text, files); }} />`}
      </div>`;
  }
}

const compact = new Intl.NumberFormat('en', { notation: 'compact' });
const count = (number) => compact.format(Number(number) || 0);

function Head({ store, session }) {
  const hasMode = session.config.some((option) => option.category === 'mode');
  const modes = hasMode ? [] : list(session.modes?.availableModes);
  const { usage } = session;
  return html`
    <header class="head">
      <a class="back" href="#/sessions" aria-label=${t.back}>‹</a>
      <div class="head-title"><h1 dir="auto">${session.name}</h1>
        <span class="where" dir="ltr" title=${session.cwd}>${session.agent ? `${session.agent} · ` : ''}${session.cwd}${
          usage && html`<span class="usage"> · ${t.usage(count(usage.used), count(usage.size))}</span>`}</span></div>
      <span role="status"><${StateMark} state=${session.shownState} /></span>
      <div class="head-options">
        ${!store.readOnly && modes.length > 0 && html`<${Choice} label=${t.mode} value=${session.modes.currentModeId}
          options=${modes.map((mode) => [mode.id, mode.name])} onChange=${(id) => store.setMode(session, id)} />`}
        ${!store.readOnly && session.config.slice(0, 12).map((option) => html`
          <${Option} key=${option.id} option=${option} onChange=${(value) => store.setOption(session, option, value)} />`)}
        ${store.caller.shares && html`<${Share} key=${session.id} store=${store} session=${session} />`}
        ${!store.readOnly && html`<a class="button" download=${`${session.id}.ndjson`}
          href=${`/v1/sessions/${encodeURIComponent(session.id)}/export`}>${t.export}</a>
        <button onClick=${() => store.fork(session, null)} disabled=${!session.turns.length}><${ForkIcon} /> ${t.fork}</button>`}
      </div>
    </header>`;
}

function Choice({ label, value, options, onChange }) {
  return html`<label class="choice"><span>${oneLine(label, 40)}</span>
    <select value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${options.map(([id, name]) => html`<option key=${id} value=${id} selected=${id === value}>${oneLine(name, 60)}</option>`)}
    </select></label>`;
}

function Option({ option, onChange }) {
  if (option.type === 'boolean') {
    return html`<label class="choice"><input type="checkbox" checked=${option.currentValue}
      onChange=${(event) => onChange(event.target.checked)} /> <span>${oneLine(option.name, 40)}</span></label>`;
  }
  const flat = list(option.options).flatMap((one) => (one.options ? list(one.options) : [one]));
  return html`<${Choice} label=${option.name} value=${option.currentValue} onChange=${onChange}
    options=${flat.map((one) => [one.value, one.name])} />`;
}

class Composer extends Component {
  constructor({ store, name }) {
    super();
    this.input = createRef();
    this.state = { text: store.drafts.get(name) ?? '', chosen: 0, dismissed: '', files: store.attachments.get(name) ?? [], over: false };
    this.picker = createRef();
  }

  keep(files) {
    this.props.store.attachments.set(this.props.name, files);
    this.setState({ files });
  }

  async attach(given) {
    const { store, session, name } = this.props;
    const { files, faults } = await attach(store.attachments.get(name) ?? [], [...given], store.takes(session));
    this.keep(files);
    for (const fault of faults.slice(0, 3)) store.toast(fault);
  }

  paste(event) {
    const files = event.clipboardData?.files;
    if (!files?.length) return;
    event.preventDefault();
    this.attach(files);
  }

  /** Also where the conversation is: a drop elsewhere would lead the browser away. */
  drag(event) {
    if (![...(event.dataTransfer?.types ?? [])].includes('Files')) return;
    event.preventDefault();
    const over = event.type === 'dragover';
    if (over !== this.state.over) this.setState({ over });
    if (event.type === 'drop') this.attach(event.dataTransfer.files);
  }

  componentWillUnmount() {
    for (const type of DRAGS) window.removeEventListener(type, this.dragged);
  }

  componentDidMount() {
    this.dragged = (event) => this.drag(event);
    for (const type of DRAGS) window.addEventListener(type, this.dragged);
    // A keyboard that covers half a phone comes only when it is asked for.
    if (matchMedia('(hover: hover)').matches) this.input.current.focus({ preventScroll: true });
    this.fit();
  }

  change(text) {
    this.props.store.drafts.set(this.props.name, text);
    this.setState({ text, chosen: 0 }, () => this.fit());
  }

  fit() {
    const box = this.input.current;
    box.style.height = 'auto';
    box.style.height = `${Math.min(box.scrollHeight + 2, 240)}px`;
  }

  get found() {
    const typed = /^\/(\S*)$/.exec(this.state.text);
    if (!typed || this.state.dismissed === this.state.text) return [];
    const commands = this.props.session?.commands ?? [];
    return commands.filter((command) => words(command.name).startsWith(typed[1])).slice(0, 8);
  }

  take(command) {
    this.change(`/${command.name} `);
    this.input.current.focus();
  }

  send() {
    const text = this.state.text.trim();
    const { files } = this.state;
    if ((!text && !files.length) || this.props.busy) return;
    this.change('');
    this.keep([]);
    this.props.onSend(text, files);
  }

  keyDown(event) {
    const found = this.found;
    if (found.length && (event.key === 'ArrowDown' || event.key === 'ArrowUp')) {
      event.preventDefault();
      const step = event.key === 'ArrowDown' ? 1 : found.length - 1;
      return this.setState({ chosen: (this.state.chosen + step) % found.length });
    }
    if (found.length && (event.key === 'Tab' || (event.key === 'Enter' && !event.ctrlKey && !event.metaKey))) {
      event.preventDefault();
      return this.take(found[this.state.chosen]);
    }
    if (event.key === 'Escape') {
      if (found.length) return this.setState({ dismissed: this.state.text });
      if (this.props.working) this.props.store.stop(this.props.session);
      return;
    }
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.send();
    }
  }

  render({ store, session, working, busy }, { text, chosen, files, over }) {
    const found = this.found;
    return html`
      <form class="composer" data-over=${over ? 'yes' : 'no'} onSubmit=${(event) => { event.preventDefault(); this.send(); }}>
        ${found.length > 0 && html`
          <ul class="commands" id="commands" role="listbox" aria-label=${t.commands}>
            ${found.map((command, index) => html`
              <li key=${command.name} id=${`command-${index}`} role="option" aria-selected=${index === chosen}
                onMouseDown=${(event) => { event.preventDefault(); this.take(command); }}>
                <code>/${oneLine(command.name, 60)}</code> <span class="muted" dir="auto">${oneLine(command.description, 120)}</span></li>`)}
          </ul>`}
        ${over && html`<p class="drop" aria-hidden="true">${t.dropHere}</p>`}
        ${files.length > 0 && html`
          <ul class="files" aria-label=${t.attached}>${files.map((file) => html`
            <li key=${file.key}>${file.preview && html`<img alt="" src=${file.preview} />`}
              <span class="file-name" dir="auto">${oneLine(file.name, 80)}</span> <span class="muted">${kilobytes(file.size)}</span>
              <button type="button" class="link" aria-label=${t.removeFile(oneLine(file.name, 80))}
                onClick=${() => this.keep(files.filter((one) => one !== file))}>×</button></li>`)}</ul>`}
        <input ref=${this.picker} type="file" id="files" class="hidden" multiple tabindex="-1" aria-hidden="true"
          onChange=${(event) => { this.attach(event.target.files); event.target.value = ''; }} />
        <button type="button" class="attach" aria-label=${t.attach} title=${t.attach}
          onClick=${() => this.picker.current.click()}><${ClipIcon} /></button>
        <label class="hidden" for="message">${t.message}</label>
        <textarea id="message" ref=${this.input} rows="1" dir="auto" value=${text} placeholder=${t.placeholder}
          role="combobox" aria-autocomplete="list" aria-expanded=${found.length > 0} aria-controls="commands"
          aria-activedescendant=${found.length ? `command-${chosen}` : null}
          onInput=${(event) => this.change(event.target.value)} onPaste=${(event) => this.paste(event)} onKeyDown=${(event) => this.keyDown(event)}></textarea>
        <div class="composer-buttons">
          ${working && html`<button type="button" class="stop" disabled=${session.stopping}
            onClick=${() => store.stop(session)}>${session.stopping ? t.stopping : t.stop}</button>`}
          <button class="primary send" disabled=${(!text.trim() && !files.length) || busy} aria-keyshortcuts="Control+Enter">
            <span>${working ? t.queue : t.send}</span><kbd aria-hidden="true">${t.sendKey}</kbd></button>
        </div>
      </form>`;
  }
}

class Welcome extends Component {
  constructor({ store }) {
    super();
    const last = store.order.map((id) => store.sessions.get(id)?.cwd).find(Boolean);
    this.state = { agent: '', cwd: recalled('baton.cwd') ?? last ?? '/tmp', busy: false };
  }

  async start(text, files = []) {
    const { store } = this.props;
    const { cwd, agent } = this.state;
    this.setState({ busy: true });
    const session = await store.create({ agent: agent || this.preferred?.name, cwd: cwd.trim() });
    this.setState({ busy: false });
    if (session && (text || files.length)) store.prompt(session, text, files);
    else if (!session) {
      if (text) store.drafts.set('new', text);
      store.attachments.set('new', files);
    }
  }

  get preferred() {
    const agents = this.props.store.agents ?? [];
    return agents.find((agent) => agent.default) ?? agents[0];
  }

  render({ store }, { agent, cwd, busy }) {
    if (store.readOnly) {
      return html`<section class="page"><h1>${t.sessions}</h1><p class="muted">${t.watchOnly}</p></section>`;
    }
    const agents = store.agents ?? [];
    const directories = [...new Set(store.order.map((id) => store.sessions.get(id)?.cwd).filter(Boolean))];
    return html`
      <div class="talk welcome">
        <div class="scroll"><div class="column">
          <h1>${t.welcome}</h1>
          <p class="muted">${t.welcomeHint}</p>
          ${store.agents && agents.length === 0 && html`<p class="error" role="alert">${t.noAgents}
            <button class="link" onClick=${() => store.refreshAgents()}>${t.refresh}</button></p>`}
          <div class="setup">
            <label><span>${t.agent}</span>
              <select value=${agent || this.preferred?.name} onChange=${(event) => this.setState({ agent: event.target.value })}>
                ${agents.map((one) => html`<option key=${one.name} value=${one.name}
                  selected=${one.name === (agent || this.preferred?.name)}>${oneLine(one.title ?? one.name, 60)}</option>`)}
              </select></label>
            <label><span>${t.directory}</span>
              <input value=${cwd} list="directories" spellcheck="false" dir="ltr" aria-describedby="directory-hint"
                onInput=${(event) => this.setState({ cwd: event.target.value })} /></label>
            <datalist id="directories">${directories.map((one) => html`<option value=${one} />`)}</datalist>
            <button disabled=${busy || !cwd.trim()} onClick=${() => this.start('')}>${t.start}</button>
          </div>
          <p id="directory-hint" class="muted">${t.directoryHint}</p>
          ${(agent || this.preferred?.name) === 'scripted' && html`
            <div class="examples"><p class="label">${t.examples}</p>
              <div class="row">${t.tries.map(([label, text]) => html`
                <button key=${label} disabled=${busy} onClick=${() => this.start(text)}>${label}</button>`)}</div></div>`}
        </div></div>
        <${Composer} store=${store} name="new" session=${null} working=${false} busy=${busy}
          onSend=${(text, files) => this.start(text, files)} />
      </div>`;
  }
}
