// A guest's connection: one session, read along. Cookies say who it is, so no token is in this page. The
// history comes as the answer to a load, and what follows it on a stream that goes on behind it.
import { RpcFailure } from './baton-client.js';

const PAUSES = [200, 500, 1000, 2000, 4000, 8000];
const REMEMBERED_EVENTS = 200;

/** The same events and properties as `BatonClient`, as far as reading goes. */
export class Watcher extends EventTarget {
  constructor(session) {
    super();
    this.session = session;
    this.state = 'connecting';
    this.agent = null;
    this.gateway = '';
    this.cursor = null;
    this.resumed = 0;
    this.received = 0;
    this.events = [];
    this.lastClose = null;
    this.wanted = false;
    this.tries = 0;
    window.addEventListener('online', () => this.retryNow());
    window.addEventListener('offline', () => this.stop('away'));
  }

  open() {
    this.wanted = true;
    this.become('live');
  }

  close() {
    this.wanted = false;
    this.stop('closed');
  }

  cut() {
    this.lastClose = { code: 0, reason: 'cut' };
    this.stop('reconnecting');
    this.schedule();
  }

  retryNow() {
    if (!this.wanted || this.reading || !this.cursor) return;
    clearTimeout(this.timer);
    this.follow();
  }

  /** Only a load can be asked for. */
  async request(method, params) {
    if (method !== 'session/load') throw new RpcFailure({ code: 4008, message: 'a guest only watches' });
    this.stop(this.state);
    const response = await this.ask('POST', JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }));
    if (!response.ok) throw this.refused(response.status);
    let answer = null;
    await this.read(response, (message) => {
      if (message.id === 1 && !message.method) answer = message;
      else this.say('message', message);
    });
    if (!answer) throw new RpcFailure({ code: 0, message: 'the history broke off' });
    if (answer.error) throw new RpcFailure(answer.error);
    // From here on events are live, and no part of a load.
    this.cursor = this.cursor?.split('.').slice(0, 2).join('.') ?? '0';
    this.follow();
    return answer.result;
  }

  notify() {}

  answer() {}

  refuse() {}

  async follow() {
    const own = new AbortController();
    this.reading = own;
    try {
      const response = await this.ask('GET', undefined, own.signal);
      if (response.status === 401 || response.status === 403) throw this.refused(response.status);
      if (!response.ok) throw new Error(`${response.status}`);
      this.tries = 0;
      this.become('live');
      await this.read(response, (message) => this.say('message', message));
    } catch (error) {
      if (own.signal.aborted || this.state === 'refused') return;
      this.lastClose = { code: 0, reason: error.message };
    }
    if (this.reading !== own) return;
    this.reading = null;
    this.resumed += 1;
    this.become('reconnecting');
    this.schedule();
  }

  ask(method, body, signal) {
    const headers = { Accept: 'text/event-stream', 'Acp-Session-Id': this.session };
    if (body) headers['Content-Type'] = 'application/json';
    else headers['Last-Event-ID'] = this.cursor;
    return fetch('/acp', { method, headers, body, signal, cache: 'no-store' });
  }

  async read(response, take) {
    this.gateway = response.headers.get('Baton-Gateway') ?? '';
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split('\n\n');
      rest = blocks.pop();
      for (const block of blocks) this.take(block, take);
    }
  }

  take(block, take) {
    const field = (name) => block.split('\n').find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    const [id, kind, data] = [field('id'), field('event'), field('data')];
    if (id) this.cursor = id;
    if (kind === 'reset') return this.say('reset', data);
    if (!data) return;
    const message = JSON.parse(data);
    this.received += 1;
    this.events.push({ at: Date.now(), cursor: id, size: data.length, kind: message.params?.update?.sessionUpdate ?? message.method ?? 'answer' });
    if (this.events.length > REMEMBERED_EVENTS) this.events.shift();
    take(message);
    this.say('event', null);
  }

  refused(status) {
    this.wanted = false;
    this.become('refused');
    this.say('refused', status);
    return new RpcFailure({ code: status, message: 'this link is not valid any more' });
  }

  stop(state) {
    clearTimeout(this.timer);
    this.reading?.abort();
    this.reading = null;
    this.become(state);
  }

  schedule() {
    if (!this.wanted) return;
    const pause = PAUSES[Math.min(this.tries, PAUSES.length - 1)];
    this.tries += 1;
    this.timer = setTimeout(() => this.follow(), pause);
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
