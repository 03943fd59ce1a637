// What the page knows: sessions, their turns, and the questions of agents. It is changed here, by what
// arrives, and shown by views/. Nothing of it outlives the page: the history is in Baton.
import { BatonClient } from './baton-client.js';
import { Watcher } from './watcher.js';
import { list, oneLine, words } from './markdown.js';
import { forgetAll, remember, rememberIn, rememberPlace, remembered, takePlace } from './memory.js';
import { Session, newKey } from './session.js';
import { t } from './texts.js';

/** Sessions at the top of the list whose state is followed although nobody has opened them. */
const WATCHED = 12;
const UNDO_MS = 6000;
/** How long another client that was asked has to show it, before this page asks to be asked. */
const TAKE_CONTROL_MS = 250;
const LOOK_MS = 2000;

const CAPABILITIES = {
  fs: { readTextFile: false, writeTextFile: false },
  terminal: false,
  elicitation: { form: {} },
  session: { configOptions: { boolean: {} } },
  _meta: { 'baton/turns': true },
};

export class Store {
  constructor() {
    /** @type {Map<string, Session>} */
    this.sessions = new Map();
    this.order = [];
    this.nextCursor = null;
    this.agents = null;
    this.agentsError = '';
    /** @type {Map<string, {id: string, session: string, method: string, params: any}>} */
    this.questions = new Map();
    this.toasts = [];
    this.search = '';
    /** @type {'unknown'|'in'|'out'} */
    this.auth = 'unknown';
    /** Where people log in, if there is an identity provider for them. */
    this.provider = null;
    /** Somebody was in, whose sessions and words this page may hold. */
    this.entered = false;
    this.listeners = new Set();
    this.route = parseRoute();
    /** Where the tab of the conversation leads back to. */
    this.lastTalk = this.route.session ? location.hash : '#/';
    this.drafts = new Map();
    /** Files that wait to be sent, likewise. */
    this.attachments = new Map();
    /** What the gateway says this page may do. @type {{observe?: boolean, admin?: boolean, shared?: string|null, login?: boolean, shares?: boolean, demo?: boolean}} */
    this.caller = {};
    /** What operators see, and why they do not. */
    this.cluster = null;
    this.clusterError = '';
    this.client = new BatonClient({
      clientInfo: { name: 'baton-console', title: 'Baton console', version: '1' },
      capabilities: CAPABILITIES, names: true,
    });
    this.listen();
    window.addEventListener('hashchange', () => this.go(parseRoute()));
    window.addEventListener('storage', ({ key, newValue }) => {
      if (key === 'baton.login' && newValue) this.startAgain();
    });
    document.addEventListener('visibilitychange', () => this.looked());
  }

  /** It shows, and changes nothing. */
  get readOnly() {
    return !!this.caller.observe;
  }

  listen() {
    const { client } = this;
    client.addEventListener('message', ({ detail }) => this.receive(detail));
    client.addEventListener('event', () => this.changed());
    client.addEventListener('state', ({ detail }) => {
      if (detail === 'live') this.goesOn();
      // Nobody knows whether it arrived: it can be asked for again.
      else for (const session of this.sessions.values()) session.stopping = false;
      this.changed();
    });
    client.addEventListener('renewed', () => this.reattach());
    client.addEventListener('reset', () => {
      this.toast(t.reset);
      this.reattach();
    });
    client.addEventListener('failed', ({ detail }) => {
      this.agentsError = detail.message;
      this.changed();
    });
    client.addEventListener('refused', () => this.out());
  }

  changed() {
    for (const listener of this.listeners) listener();
  }

  // ---- getting in ----

  /** Asks what it may do: the answer tells whether this page may come in. */
  async start() {
    if (this.route.join) await this.join(this.route.join);
    const response = await fetch('/v1/caller', { cache: 'no-store' }).catch(() => null);
    if (response?.status === 401 || response?.status === 403) {
      this.out();
    } else if (response?.ok) {
      this.caller = await response.json();
      await this.refreshAgents();
      this.enter();
    } else {
      setTimeout(() => this.start(), 1500);
    }
    this.changed();
  }

  /** A link that shares a session becomes a cookie, and leaves no trace in this browser's history. */
  async join(token) {
    history.replaceState(null, '', '#/');
    const headers = { 'Content-Type': 'application/json' };
    const answer = await fetch('/v1/shares/open', { method: 'POST', headers, body: JSON.stringify({ token }) }).catch(() => null);
    const opened = answer?.ok ? await answer.json() : null;
    history.replaceState(null, '', opened ? `#/s/${opened.sessionId}` : '#/login/link');
    this.route = parseRoute();
    // Other tabs of this browser are this guest now.
    if (opened) remember('baton.login', String(Date.now()));
  }

  /** Whoever it is has to log in: how, the gateway says. */
  async out() {
    this.auth = 'out';
    this.changed();
    const response = await fetch('/v1/login-methods', { cache: 'no-store' }).catch(() => null);
    if (response?.ok) this.provider = (await response.json()).provider;
    this.changed();
  }

  async refreshAgents() {
    const response = await fetch('/v1/agents', { cache: 'no-store' }).catch(() => null);
    if (response?.ok) this.agents = (await response.json()).agents;
    this.changed();
  }

  /** @returns {Promise<string>} what is wrong, or nothing */
  async login(key) {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const answer = await fetch('/v1/login', { method: 'POST', headers, body: '{}' }).catch(() => null);
    if (!answer) return t.loginUnreachable;
    if (answer.status === 403) return t.loginForbidden;
    if (!answer.ok) return t.loginFailed;
    const response = await fetch('/v1/caller', { cache: 'no-store' }).catch(() => null);
    if (!response?.ok) return t.cookieRefused;
    this.caller = await response.json();
    await this.refreshAgents();
    forgetAll();
    // Each login has its own name, so that other tabs hear of it.
    remember('baton.login', String(Date.now()));
    if (this.entered) {
      this.startAgain();
    } else {
      this.enter();
      this.changed();
    }
    return '';
  }

  /** At the provider's page: it leads back here, and no token does. @returns {Promise<string>} what is wrong */
  async loginAtProvider() {
    const headers = { 'Content-Type': 'application/json' };
    const answer = await fetch('/v1/login/oidc', { method: 'POST', headers, body: '{}' }).catch(() => null);
    if (!answer) return t.loginUnreachable;
    if (!answer.ok) return t.loginFault.provider;
    const { location: place } = await answer.json();
    rememberPlace(this.route.fault ? '#/' : location.hash || '#/');
    location.assign(place);
    return '';
  }

  enter() {
    if (!this.entered) this.comeBack();
    this.auth = 'in';
    this.entered = true;
    const { shared } = this.caller;
    if (shared && !(this.client instanceof Watcher)) {
      this.client = new Watcher(shared);
      this.listen();
      this.order = [shared];
      if (this.route.session !== shared) location.replace(`#/s/${shared}`);
      this.route = { view: 'talk', session: shared };
      this.session(shared);
    }
    this.client.open();
  }

  /** To where a login at the provider's page began. */
  comeBack() {
    const place = takePlace();
    if (place === null) return;
    forgetAll();
    // Other tabs of this browser may show what was somebody else's.
    remember('baton.login', String(Date.now()));
    if (!['', '#/'].includes(location.hash)) return;
    history.replaceState(null, '', place);
    this.route = parseRoute();
  }

  /** Nothing of what was shown stays in this page: the next to log in may be somebody else. */
  startAgain() {
    this.client.close();
    location.hash = '#/';
    location.reload();
  }

  async logout() {
    const headers = { 'Content-Type': 'application/json' };
    this.client.close();
    await fetch('/v1/logout', { method: 'POST', headers, body: '{}' }).catch(() => null);
    forgetAll();
    this.startAgain();
  }

  // ---- where the page is ----

  go(route) {
    // In a page that was open before: what it shows may be somebody else's.
    if (route.join) return void this.join(route.join).then(() => location.reload());
    this.route = route;
    if (route.view === 'talk') this.lastTalk = location.hash || '#/';
    if (route.session) this.show(route.session);
    this.changed();
  }

  get current() {
    return this.route.session ? this.sessions.get(this.route.session) : null;
  }

  /** The one that is shown, or was shown last. */
  get lastSession() {
    const [, id] = /^#\/s\/(.+)$/.exec(this.lastTalk) ?? [];
    return this.current ?? (id ? this.sessions.get(decoded(id)) ?? null : null);
  }

  session(id) {
    let session = this.sessions.get(id);
    if (!session) {
      session = new Session(id);
      session.agent = remembered('baton.agents')[id] ?? '';
      session.parent = remembered('baton.forks')[id] ?? null;
      this.sessions.set(id, session);
    }
    return session;
  }

  show(id) {
    const session = this.session(id);
    session.unread = false;
    if (this.client.state !== 'live') return;
    if (session.attached !== 'open' && session.attached !== 'loading') this.load(session);
    else this.askForQuestions(session);
  }

  // ---- what arrives ----

  /** The first time, and after a cut. */
  async goesOn() {
    if (!this.agents?.length) this.refreshAgents();
    if (this.listed) return;
    this.listed = true;
    if (this.caller.shared) return this.load(this.session(this.caller.shared));
    if (this.route.session) await this.load(this.session(this.route.session));
    await this.list();
    this.watchRecent();
  }

  reattach() {
    for (const session of this.sessions.values()) {
      const was = session.attached;
      session.attached = null;
      if (was === 'open' || was === 'loading') this.load(session);
    }
    this.questions.clear();
    this.watchRecent();
  }

  receive(message) {
    const { method, params, id } = message;
    const session = params?.sessionId && this.sessions.get(params.sessionId);
    if (method === 'session/update' && session) return this.update(session, params.update);
    if (method === '_baton/turn' && session) return this.turn(session, params);
    if (method === '$/cancel_request') return this.settled(params?.requestId);
    if (id === undefined) return;
    if (method === 'session/request_permission' || method === 'elicitation/create') {
      const known = params?.sessionId ?? String(id).split(':')[0];
      this.questions.set(id, { id, session: known, method, params: params ?? {} });
      this.session(known).version += 1;
      return this.badge();
    }
    this.client.refuse(id, { code: -32601, message: `this page does not know ${method}` });
  }

  update(session, update) {
    const quiet = ['session_info_update', 'usage_update', 'available_commands_update'];
    if (session.attached === 'watching' && !quiet.includes(update?.sessionUpdate)) {
      session.unread = true;
      return;
    }
    session.apply(update);
    if (session.attached === 'open' && this.current !== session) session.unread = true;
  }

  /** What a turn does, whoever has asked for it. */
  turn(session, { state, own, turn, asked, answered, stopReason, error }) {
    if (state !== 'idle') this.findWorker(session);
    const ran = session.state === 'working' || session.state === 'waiting';
    session.state = state;
    session.version += 1;
    if (asked) {
      if (!session.asked.has(asked)) this.askedElsewhere(session, asked);
    } else if (answered) {
      this.settled(answered);
      if (session.asked.size) session.state = 'waiting';
    } else if (turn) {
      // Said again to a page that comes back.
      if (turn === session.turnName) return;
      session.turnName = turn;
      if (!own || session.attached !== 'open') return this.changed();
      this.promptBegins(session);
    } else if (state === 'idle') {
      for (const id of [...session.asked]) this.settled(id);
      for (const question of this.questions.values()) {
        if (question.session === session.id) this.settled(question.id);
      }
      session.stopping = false;
      const ended = error ? t.ended.error(error.message) : t.ended[stopReason];
      // A prompt that was withdrawn ends without having begun.
      if (ended && ran && session.attached !== 'watching') session.add('end', { text: ended, failed: !!error });
      session.turns.at(-1) && session.touch(null);
    }
    this.badge();
  }

  /** Who runs it, as long as somebody looks: after a takeover it is another. */
  async findWorker(session) {
    if (session.finding || this.lastSession !== session || document.hidden) return;
    session.finding = setTimeout(() => {
      session.finding = 0;
      if (['working', 'waiting'].includes(session.state)) this.findWorker(session);
    }, LOOK_MS);
    const response = await fetch(`/v1/sessions/${encodeURIComponent(session.id)}/worker`, { cache: 'no-store' }).catch(() => null);
    const worker = response?.ok ? (await response.json()).worker : null;
    if (!worker || worker === session.workers[0]) return;
    session.workers = [worker, ...session.workers].slice(0, 5);
    session.version += 1;
    this.changed();
  }

  /** Of a demonstration: kill -9, and nothing else. */
  killWorker(session) {
    return this.attempt(() => post('/v1/demo/kill', { session: session.id }));
  }

  settled(id) {
    const question = this.questions.get(id);
    this.questions.delete(id);
    for (const session of this.sessions.values()) {
      session.askedFor.delete(id);
      if (session.asked.delete(id) || session.id === question?.session) session.version += 1;
    }
    this.badge();
  }

  askedElsewhere(session, id) {
    session.asked.add(id);
    this.call(session);
    session.askingSoon ||= setTimeout(() => {
      session.askingSoon = 0;
      this.askForQuestions(session);
    }, TAKE_CONTROL_MS);
  }

  /**
   * Questions go to the client in control. A page that somebody looks at asks to be asked, too: once
   * for each, because the answer may be that somebody else was asked.
   */
  async askForQuestions(session) {
    if (this.readOnly || session.attached !== 'open' || document.hidden || session.resuming) return;
    const unknown = [...session.asked].filter((id) => !this.questions.has(id) && !session.askedFor.has(id));
    if (!unknown.length) return;
    for (const id of unknown) session.askedFor.add(id);
    session.resuming = true;
    await this.resume(session);
    session.resuming = false;
    this.askForQuestions(session);
  }

  looked() {
    if (document.hidden) return;
    this.client.retryNow();
    for (const session of this.sessions.values()) {
      session.askedFor.clear();
      this.askForQuestions(session);
    }
    this.changed();
  }

  /** For somebody who is not looking, if that was asked for. */
  call(session) {
    if (!document.hidden || window.Notification?.permission !== 'granted') return;
    const notification = new Notification(t.asks(session.name), { tag: session.id });
    notification.onclick = () => {
      window.focus();
      location.hash = `#/s/${encodeURIComponent(session.id)}`;
    };
  }

  badge() {
    const waiting = this.waiting.length;
    const session = this.current;
    const name = session ? `${session.name} · ${t.name}` : t.name;
    document.title = waiting ? `(${waiting}) ${name}` : name;
    this.changed();
  }

  /** Everything that waits for a person: questions that were asked here, and those asked elsewhere. */
  get waiting() {
    const here = [...this.questions.values()];
    const known = new Set(here.map(({ id }) => id));
    const elsewhere = [...this.sessions.values()].flatMap((session) => [...session.asked]
      .filter((id) => !known.has(id)).map((id) => ({ id, session: session.id, elsewhere: true })));
    return [...here, ...elsewhere];
  }

  // ---- what people do ----

  async attempt(work) {
    try {
      return await work();
    } catch (error) {
      this.toast(t.failed(oneLine(error.message)));
      return null;
    } finally {
      this.changed();
    }
  }

  async list(more = false) {
    const params = more && this.nextCursor ? { cursor: this.nextCursor } : {};
    const result = await this.attempt(() => this.client.request('session/list', params));
    if (!result) return;
    if (!more) this.order = [];
    for (const entry of result.sessions) {
      const session = this.session(entry.sessionId);
      session.cwd = entry.cwd;
      session.updatedAt = entry.updatedAt ?? '';
      if (entry.title) session.title = words(entry.title);
      if (!this.order.includes(session.id)) this.order.push(session.id);
      session.version += 1;
    }
    this.nextCursor = result.nextCursor ?? null;
    this.changed();
  }

  watchRecent() {
    for (const id of this.order.slice(0, WATCHED)) {
      const session = this.session(id);
      if (session.attached) continue;
      session.attached = 'watching';
      const params = { sessionId: id, cwd: session.cwd, mcpServers: [], _meta: { 'baton/observe': true } };
      this.client.request('session/resume', params).catch(() => {
        if (session.attached === 'watching') session.attached = null;
      });
    }
  }

  async load(session) {
    session.attached = 'loading';
    session.error = '';
    const queued = session.queued;
    session.reset();
    session.queued = queued;
    this.changed();
    if (!session.cwd && !this.caller.shared) await this.list();
    try {
      const watched = { sessionId: session.id, _meta: { 'baton/observe': true } };
      const params = this.readOnly ? watched : { sessionId: session.id, cwd: session.cwd || '/', mcpServers: [] };
      const result = await this.client.request('session/load', params);
      this.opened(session, result);
      if (session.state === 'working') this.findWorker(session);
    } catch (error) {
      session.attached = null;
      session.error = t.loadFailed(oneLine(error.message));
    }
    this.badge();
  }

  async resume(session) {
    const params = { sessionId: session.id, cwd: session.cwd, mcpServers: [] };
    const result = await this.client.request('session/resume', params).catch(() => null);
    session.noteToken(result?._meta?.['baton/session']);
    return result;
  }

  // ---- sharing ----

  /** @returns {Promise<{link: string, expiresAt: string}|null>} */
  share(session, expiresIn) {
    return this.attempt(async () => {
      const { token, expiresAt } = await post('/v1/shares', { sessionId: session.id, expiresIn });
      // Browsers send what is behind the # to nobody.
      return { link: `${location.origin}/#/join/${token}`, expiresAt };
    });
  }

  unshare(session) {
    return this.attempt(async () => {
      await ask(`/v1/shares/${encodeURIComponent(session.id)}`, { method: 'DELETE' });
      this.toast(t.unshared);
    });
  }

  // ---- operators ----

  async refreshCluster() {
    const response = await fetch('/v1/operator/cluster', { cache: 'no-store' }).catch(() => null);
    this.clusterError = response?.ok ? '' : t.clusterAway;
    if (response?.ok) this.cluster = await response.json();
    this.changed();
  }

  /** @param {'drain'|'revoke'|'close'} what */
  operate(what, body, told) {
    return this.attempt(async () => {
      await post(`/v1/operator/${what}`, body);
      this.toast(told);
      this.refreshCluster();
    });
  }

  opened(session, result) {
    session.attached = 'open';
    session.noteToken(result?._meta?.['baton/session']);
    session.modes = result?.modes ?? null;
    session.config = list(result?.configOptions);
    session.version += 1;
  }

  /** @returns {Promise<Session|null>} */
  async create({ agent, cwd, parent = null }) {
    const chosen = this.agents?.find((known) => known.name === agent);
    const way = chosen && !chosen.default ? { path: chosen.path } : {};
    const params = { cwd, mcpServers: [] };
    // Updates may come before the answer says for which session: they wait in Baton until then.
    const result = await this.attempt(() => this.client.request('session/new', params, way));
    if (!result) return null;
    const session = this.adopt(result, { cwd, agent: chosen?.name ?? '', parent });
    remember('baton.cwd', cwd);
    location.hash = `#/s/${session.id}`;
    return session;
  }

  adopt(result, { cwd, agent, parent }) {
    const session = this.session(result.sessionId);
    Object.assign(session, { cwd, agent, parent, state: 'idle', updatedAt: new Date().toISOString() });
    this.opened(session, result);
    this.order = [session.id, ...this.order.filter((id) => id !== session.id)];
    if (agent) rememberIn('baton.agents', session.id, agent);
    if (parent) rememberIn('baton.forks', session.id, parent);
    return session;
  }

  async prompt(session, text, files = []) {
    const entry = { key: newKey(), text, files, id: null };
    session.queued.push(entry);
    session.version += 1;
    const prompt = [...(text ? [{ type: 'text', text }] : []), ...files.map((file) => file.block)];
    const answer = this.client.request('session/prompt', { sessionId: session.id, prompt });
    entry.id = answer.id;
    this.changed();
    try {
      await answer;
    } catch (error) {
      if (session.queued.includes(entry)) this.toast(t.failed(oneLine(error.message)));
    }
    session.queued = session.queued.filter((other) => other !== entry);
    session.updatedAt = new Date().toISOString();
    session.version += 1;
    this.changed();
  }

  promptBegins(session) {
    const entry = session.queued.shift();
    if (!entry) return;
    session.beginTurn();
    if (entry.text) session.add('user', { text: entry.text });
    for (const { block } of entry.files) session.add('content', { by: 'user', content: block });
  }

  /** What may go along with a prompt. */
  takes(session) {
    const agent = this.agents?.find((one) => (session?.agent ? one.name === session.agent : one.default));
    return agent?.capabilities?.promptCapabilities ?? this.client.agent?.agentCapabilities?.promptCapabilities ?? {};
  }

  /** The conversation before a turn goes on in a fork, with other words. */
  async rephrase(session, turn, text) {
    const before = session.turns[session.turns.indexOf(turn) - 1];
    const files = turn.items.filter((item) => item.kind === 'content' && item.by === 'user');
    const { cwd, agent, id } = session;
    const child = before ? await this.fork(session, before) : await this.create({ cwd, agent, parent: id });
    if (!child) return;
    if (before) await this.load(child);
    this.prompt(child, text, files.map((item) => ({ block: item.content })));
  }

  withdraw(session, entry) {
    entry.withdrawn = true;
    this.client.notify('$/cancel_request', { requestId: entry.id });
    session.version += 1;
    this.changed();
  }

  stop(session) {
    session.stopping = true;
    this.client.notify('session/cancel', { sessionId: session.id });
    session.version += 1;
    this.changed();
  }

  answer(question, result) {
    this.client.answer(question.id, result);
    this.settled(question.id);
  }

  setMode(session, modeId) {
    return this.attempt(async () => {
      await this.client.request('session/set_mode', { sessionId: session.id, modeId });
      if (session.modes) session.modes.currentModeId = modeId;
      session.version += 1;
    });
  }

  setOption(session, option, value) {
    const params = { sessionId: session.id, configId: option.id, value };
    if (option.type === 'boolean') params.type = 'boolean';
    return this.attempt(async () => {
      const result = await this.client.request('session/set_config_option', params);
      if (result?.configOptions) session.config = list(result.configOptions);
      session.version += 1;
    });
  }

  async fork(session, turn) {
    const at = turn && Session.lastMessage(turn);
    const _meta = at ? { 'baton/fork': { atMessageId: at } } : undefined;
    const params = { sessionId: session.id, cwd: session.cwd, mcpServers: [], _meta };
    const result = await this.attempt(() => this.client.request('session/fork', params));
    if (!result) return null;
    const { cwd, agent, id } = session;
    const child = this.adopt(result, { cwd, agent, parent: id });
    if (session.name !== t.untitled) child.title ||= session.title;
    child.attached = null;
    location.hash = `#/s/${child.id}`;
    return child;
  }

  /** Final only after a while: until then it can be undone, also by leaving the page. */
  remove(session) {
    const finish = async () => {
      const params = { sessionId: session.id };
      await this.attempt(async () => {
        await this.client.request('session/delete', params);
        this.order = this.order.filter((id) => id !== session.id);
        this.sessions.delete(session.id);
        if (this.route.session === session.id) location.hash = '#/';
      });
      session.deleting = 0;
      this.toasts = this.toasts.filter((toast) => toast.session !== session);
      this.badge();
    };
    session.deleting = setTimeout(finish, UNDO_MS);
    session.version += 1;
    this.toast(t.deleted(session.name), { session, label: t.undo, act: () => this.undo(session) }, 0);
    if (this.route.session === session.id) location.hash = '#/';
  }

  undo(session) {
    clearTimeout(session.deleting);
    session.deleting = 0;
    session.version += 1;
    this.toasts = this.toasts.filter((toast) => toast.session !== session);
    this.changed();
  }

  toast(text, extra = {}, lasts = 7000) {
    const toast = { key: newKey(), text, ...extra };
    this.toasts = [...this.toasts.slice(-3), toast];
    if (lasts) setTimeout(() => this.dismiss(toast), lasts);
    this.changed();
  }

  dismiss(toast) {
    this.toasts = this.toasts.filter((other) => other !== toast);
    this.changed();
  }
}

/** Nothing, if somebody has written it wrong. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function parseRoute() {
  const [view, id] = location.hash.replace(/^#\/?/, '').split('/');
  if (view === 's' && id) return { view: 'talk', session: decoded(id) };
  if (['sessions', 'inbox', 'connection'].includes(view)) return { view, session: null };
  if (view === 'operators') return { view, session: null };
  if (view === 'join' && id) return { view: 'talk', session: null, join: id };
  if (view === 'login') return { view: 'talk', session: null, fault: id ?? '' };
  return { view: 'talk', session: null };
}

async function ask(url, options) {
  const response = await fetch(url, { cache: 'no-store', ...options });
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new Error(body?.error?.message ?? `status ${response.status}`);
  return body;
}

function post(url, body) {
  return ask(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
}
