/**
 * A connection to Baton for web pages: ACP over one WebSocket that comes back by itself. After a cut
 * it goes on behind the last message that arrived, on whichever gateway it reaches, and repeats the
 * requests that have no answer yet: a repeated request is not carried out twice.
 *
 * No dependencies. Import it from any gateway: `import { BatonClient } from '/console/baton-client.js'`.
 * @module baton-client
 */

/** @typedef {'connecting'|'live'|'reconnecting'|'draining'|'away'|'refused'|'closed'} ClientState */
/** @typedef {{jsonrpc: '2.0', id?: string|number, method?: string, params?: any, result?: any, error?: RpcError}} RpcMessage */
/** @typedef {{code: number, message: string, data?: any}} RpcError */
/** @typedef {{at: number, cursor: string, size: number, kind: string}} SeenEvent */
/**
 * @typedef {object} ClientOptions
 * @property {string} [origin] the gateway, if it is not where the page is from
 * @property {string} [path] `/acp`, or `/acp/NAME` for an agent
 * @property {() => Promise<string|null>} [credential] the value of `Authorization`; a ticket is bought
 *   with it before each socket. Without it the browser's login cookie counts
 * @property {boolean} [names] the gateway that serves a socket is named in `gateway`
 * @property {object} [clientInfo] name, title, version
 * @property {object} [capabilities] of `initialize`
 */

const FIRST_PAUSE = 200;
const LONGEST_PAUSE = 8000;
/** A socket that says nothing for so long after it was opened is given up. */
const OPEN_TIMEOUT = 8000;
const REMEMBERED_EVENTS = 200;
const REMEMBERED_ANSWERS = 16;

/** An error that the other side has answered with. */
export class RpcFailure extends Error {
  /** @param {RpcError} error */
  constructor(error) {
    super(error?.message ?? 'unknown error');
    this.code = error?.code;
    this.data = error?.data;
  }
}

/**
 * Events: `state` (the connection changed its state), `message` (`detail`: a notification or request
 * of the agent), `reset` (`detail`: why; what was seen may have gaps: load your sessions again),
 * `renewed` (the connection is a new one: load your sessions again), `refused` (who calls is not
 * known: log in, then `open`).
 */
export class BatonClient extends EventTarget {
  /** @param {ClientOptions} [options] */
  constructor(options = {}) {
    super();
    this.options = options;
    /** @type {ClientState} */
    this.state = 'connecting';
    /** @type {string|null} the connection token; kept in memory, never in a URL */
    this.token = null;
    /** @type {string|null} the place behind the last message */
    this.cursor = null;
    /** @type {any} the answer to `initialize` */
    this.agent = null;
    /** The name of the gateway that serves the socket, if that was asked for. */
    this.gateway = '';
    this.resumed = 0;
    this.received = 0;
    /** @type {SeenEvent[]} the last events, newest last */
    this.events = [];
    /** @type {{code: number, reason: string}|null} why the last socket was closed */
    this.lastClose = null;
    this.nextId = 1;
    /** @type {Map<string|number, {message: RpcMessage, path?: string, sent: boolean, tried?: boolean, resolve: Function, reject: Function}>} */
    this.pending = new Map();
    /** @type {RpcMessage[]} */
    this.unsent = [];
    /** @type {RpcMessage[]} */
    this.answers = [];
    this.pause = FIRST_PAUSE;
    /** @type {WebSocket|null} */
    this.socket = null;
    this.timer = 0;
    this.wanted = false;
    this.failures = 0;
    if (typeof window !== 'undefined') {
      window.addEventListener('online', () => this.retryNow());
      window.addEventListener('offline', () => this.lose());
    }
  }

  /** Connects, and stays connected until `close`. */
  open() {
    this.wanted = true;
    this.pause = FIRST_PAUSE;
    this.connect();
  }

  /** Ends the socket; nothing is sent any more. Sessions and turns go on. */
  close() {
    this.wanted = false;
    clearTimeout(this.timer);
    this.drop();
    this.become('closed');
  }

  /** Cuts the socket as a lost network would. It comes back. */
  cut() {
    if (!this.socket) return;
    this.lastClose = { code: 0, reason: 'cut' };
    this.drop();
    this.become('reconnecting');
    this.schedule(FIRST_PAUSE);
  }

  /** Connects now, if it waits for its next try. */
  retryNow() {
    if (!this.wanted || this.socket) return;
    clearTimeout(this.timer);
    this.pause = FIRST_PAUSE;
    this.connect();
  }

  /**
   * @param {string} method
   * @param {object} params
   * @param {{path?: string}} [way] `path`: by a POST to this path; the answer comes here all the same
   * @returns {Promise<any>} the result
   */
  request(method, params, way = {}) {
    const id = this.nextId++;
    const message = /** @type {RpcMessage} */ ({ jsonrpc: '2.0', id, method, params });
    const answer = new Promise((resolve, reject) => {
      this.pending.set(id, { message, path: way.path, sent: false, resolve, reject });
    });
    this.flush();
    return Object.assign(answer, { id });
  }

  /** @param {string} method @param {object} params */
  notify(method, params) {
    this.unsent.push({ jsonrpc: '2.0', method, params });
    this.flush();
  }

  /** Answers a request of the agent. Said twice it counts once. @param {string|number} id @param {object} result */
  answer(id, result) {
    const message = /** @type {RpcMessage} */ ({ jsonrpc: '2.0', id, result });
    this.answers = [...this.answers.slice(1 - REMEMBERED_ANSWERS), message];
    this.unsent.push(message);
    this.flush();
  }

  /** @param {string|number} id @param {RpcError} error */
  refuse(id, error) {
    this.unsent.push({ jsonrpc: '2.0', id, error });
    this.flush();
  }

  // ---- the socket ----

  async connect() {
    clearTimeout(this.timer);
    if (!this.wanted || this.socket || this.opening) return;
    this.opening = true;
    try {
      const protocols = await this.protocols();
      if (this.wanted && !this.socket) this.attach(new WebSocket(this.url(), protocols));
    } catch (error) {
      if (error?.status === 401 || error?.status === 403) return this.refused(error.status);
      this.schedule();
    } finally {
      this.opening = false;
    }
  }

  url() {
    const url = new URL(this.options.path ?? '/acp', this.options.origin ?? location.href);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    url.search = this.options.names ? '?resume=1&names=1' : '?resume=1';
    return url.href;
  }

  /** A page cannot send headers with a socket: it buys a ticket, which is good once. */
  async protocols() {
    const credential = await this.options.credential?.();
    if (!credential) return [];
    const url = new URL('/v1/tickets', this.options.origin ?? location.href);
    const headers = { Authorization: credential, 'Content-Type': 'application/json' };
    const response = await fetch(url, { method: 'POST', headers });
    if (!response.ok) throw Object.assign(new Error('no ticket'), { status: response.status });
    const { ticket } = await response.json();
    return ['acp', `baton.ticket.${ticket}`];
  }

  /** @param {WebSocket} socket */
  attach(socket) {
    this.socket = socket;
    this.opened = false;
    const own = () => this.socket === socket;
    const late = setTimeout(() => own() && !this.opened && (this.drop(), this.failed()), OPEN_TIMEOUT);
    socket.onopen = () => {
      if (!own()) return;
      clearTimeout(late);
      this.opened = true;
      this.failures = 0;
      this.begin();
    };
    socket.onmessage = (event) => own() && this.receive(event.data);
    socket.onclose = (event) => {
      clearTimeout(late);
      if (!own()) return;
      this.socket = null;
      this.lastClose = { code: event.code, reason: event.reason };
      this.closed(event.code);
    };
  }

  begin() {
    const resumes = this.token !== null;
    if (resumes) {
      const resume = { connection: this.token, cursor: this.cursor ?? '0' };
      this.socket.send(JSON.stringify({ resume }));
      this.resumed += 1;
      this.live();
    } else {
      const params = {
        protocolVersion: 1,
        clientInfo: this.options.clientInfo ?? { name: 'baton-client', version: '1' },
        clientCapabilities: this.options.capabilities ?? {},
      };
      this.socket.send(JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params }));
    }
  }

  live() {
    this.pause = FIRST_PAUSE;
    for (const request of this.pending.values()) request.sent = false;
    this.unsent = [...this.answers.filter((answer) => !this.unsent.includes(answer)), ...this.unsent];
    this.become('live');
    this.flush();
  }

  flush() {
    if (this.state !== 'live' || this.socket?.readyState !== 1) return;
    for (const message of this.unsent.splice(0)) this.socket.send(JSON.stringify(message));
    for (const request of this.pending.values()) {
      if (request.sent) continue;
      request.sent = true;
      request.tried = true;
      if (request.path) this.post(request);
      else this.socket.send(JSON.stringify(request.message));
    }
  }

  async post(request) {
    try {
      const credential = await this.options.credential?.();
      const headers = { 'Content-Type': 'application/json', 'Acp-Connection-Id': this.token };
      if (credential) headers.Authorization = credential;
      const body = JSON.stringify(request.message);
      const url = new URL(request.path, this.options.origin ?? location.href);
      const response = await fetch(url, { method: 'POST', headers, body, ...cookies(credential) });
      if (isRefusal(response.status)) return this.decline(request, response);
      if (!response.ok) throw new Error(`${response.status}`);
    } catch {
      // Sent again, it joins the first.
      request.sent = false;
      setTimeout(() => this.flush(), 1000);
    }
  }

  /** Said again, it would be refused again. */
  async decline(request, response) {
    const body = await response.json().catch(() => null);
    if (!this.pending.delete(request.message.id)) return;
    const message = `the gateway answered with status ${response.status}`;
    request.reject(new RpcFailure({ code: 0, message, ...body?.error }));
  }

  receive(text) {
    const envelope = JSON.parse(text);
    const { cursor, message, reset } = envelope;
    if (envelope.gateway) {
      this.gateway = envelope.gateway;
      return this.say('event', null);
    }
    if (cursor !== undefined) this.cursor = cursor;
    this.received += 1;
    const kind = message ? (message.method ?? 'answer') : reset ? 'reset' : 'position';
    this.events.push({ at: Date.now(), cursor, size: text.length, kind: kindOf(kind, message) });
    if (this.events.length > REMEMBERED_EVENTS) this.events.shift();
    if (reset !== undefined) this.say('reset', reset);
    // A gateway that was not asked for cursors sends messages as they are.
    const plain = message ?? (envelope.jsonrpc ? envelope : null);
    if (plain) this.handle(plain);
    this.say('event', null);
  }

  /** @param {RpcMessage} message */
  handle(message) {
    if (message.method !== undefined) return this.say('message', message);
    if (message.id === 0) return this.initialized(message);
    const request = this.pending.get(message.id);
    if (!request) return;
    this.pending.delete(message.id);
    if (message.error) request.reject(new RpcFailure(message.error));
    else request.resolve(message.result);
  }

  initialized({ result, error }) {
    if (error) {
      this.agent = { error };
      this.say('failed', error);
      this.drop();
      return this.failed();
    }
    const isNew = this.agent !== null;
    this.agent = result;
    this.token = result._meta?.['baton/connection']?.token ?? null;
    this.live();
    if (isNew) this.say('renewed', null);
  }

  closed(code) {
    if (!this.wanted) return;
    // Another page has taken this connection over, or it was detached.
    if (code === 1000) return this.close();
    if (code === 4001 || code === 1002) this.forget();
    if (code === 4003) return this.forget(), this.check();
    if (!this.opened) return this.check();
    this.become(code === 1001 ? 'draining' : 'reconnecting');
    this.schedule(code === 1013 ? LONGEST_PAUSE / 4 : undefined);
  }

  async knock() {
    const credential = await this.options.credential?.();
    const url = new URL('/v1/agents', this.options.origin ?? location.href);
    const headers = credential ? { Authorization: credential } : {};
    return fetch(url, { headers, cache: 'no-store', ...cookies(credential) });
  }

  /** A socket that could not be opened says not why: a request does. */
  async check() {
    const response = await this.knock().catch(() => null);
    // It may have been closed or connected meanwhile.
    if (!this.wanted || this.socket || this.opening) return;
    if (response?.status === 401 || response?.status === 403) return this.refused(response.status);
    this.failed();
  }

  failed() {
    this.failures += 1;
    this.become(this.state === 'draining' && this.failures < 3 ? 'draining' : 'reconnecting');
    this.schedule();
  }

  refused(status) {
    this.wanted = false;
    this.become('refused');
    this.say('refused', status);
  }

  /**
   * The next connection is another one, and does not know what was asked on this: what may have been
   * carried out is not asked again.
   */
  forget() {
    this.token = null;
    this.cursor = null;
    this.answers = [];
    for (const [id, request] of this.pending) {
      if (!request.tried) continue;
      this.pending.delete(id);
      request.reject(new RpcFailure({ code: 0, message: 'the connection is gone' }));
    }
  }

  lose() {
    if (!this.wanted) return;
    this.lastClose = { code: 0, reason: 'offline' };
    this.drop();
    this.become('away');
  }

  drop() {
    const socket = this.socket;
    this.socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  schedule(pause = this.pause) {
    clearTimeout(this.timer);
    if (typeof navigator !== 'undefined' && navigator.onLine === false) this.become('away');
    // Not all at once, when many have lost the same gateway.
    this.timer = setTimeout(() => this.connect(), pause * (0.5 + Math.random() / 2));
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }

  become(state) {
    if (this.state === state) return;
    this.state = state;
    this.say('state', state);
  }

  say(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

/** Timeouts and limits pass. */
const isRefusal = (status) => status >= 400 && status < 500 && status !== 408 && status !== 429;

/** Who has no credential is known by the cookie, also to a gateway of another origin. */
const cookies = (credential) => (credential ? {} : { credentials: /** @type {const} */ ('include') });

function kindOf(kind, message) {
  const update = message?.params?.update?.sessionUpdate;
  return update ?? kind;
}
