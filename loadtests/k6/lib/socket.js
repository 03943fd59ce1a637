// A client over WebSocket that can resume: every message comes with a cursor, and after a cut a new socket goes on after it.

import { config } from './config.js';

// Newer versions of k6 have it as k6/websockets.
const { WebSocket } = require(__ENV.WS_MODULE || 'k6/experimental/websockets');

export class Socket {
  constructor() {
    this.cursor = '';
    this.token = '';
    this.id = 0;
    this.waiting = {};
    // Told of everything that is no answer.
    this.heard = () => {};
    // Offered every frame as text, to save k6 from parsing it: returns whether that was enough.
    this.glance = () => false;
    this.reset = () => {};
  }

  /// Connects, and either initializes or goes on where the socket before was.
  open() {
    return new Promise((resolve, reject) => {
      const headers = { 'Acp-Resume': '1' };
      if (config.credential) headers.Authorization = `Bearer ${config.credential}`;
      const socket = new WebSocket(config.websocket, null, { headers, tags: { name: 'websocket' } });
      this.socket = socket;
      // What is still heard of a socket that was left does not count.
      const current = (f) => (event) => this.socket === socket && f(event);
      socket.onmessage = current((event) => this.glance(event.data) || this.take(JSON.parse(event.data)));
      socket.onerror = current((event) => reject(new Error(`socket: ${event.error}`)));
      socket.onclose = current((event) => this.failed(new Error(`socket closed: ${event.code}`)));
      socket.onopen = current(() => {
        if (this.token) {
          socket.send(JSON.stringify({ resume: { connection: this.token, cursor: this.cursor } }));
          resolve();
          return;
        }
        this.call('initialize', { protocolVersion: 1, clientCapabilities: {} }).then((answer) => {
          this.token = answer.result._meta['baton/connection'].token;
          resolve();
        }, reject);
      });
    });
  }

  take(frame) {
    if (frame.cursor) this.cursor = frame.cursor;
    if (frame.reset !== undefined) this.reset(frame.reset);
    const message = frame.message;
    if (!message) return;
    const waits = message.method === undefined && this.waiting[message.id];
    if (waits) {
      delete this.waiting[message.id];
      waits.resolve(message);
    } else {
      this.heard(message);
    }
  }

  /// Sends a request; its answer may come on a later socket.
  call(method, params) {
    const id = this.id++;
    return new Promise((resolve, reject) => {
      this.waiting[id] = { resolve, reject };
      this.socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
    });
  }

  /// Leaves, and takes nothing more of what still comes; what is waited for is waited for on.
  cut() {
    const socket = this.socket;
    this.socket = undefined;
    socket.close();
  }

  close() {
    this.cut();
    this.waiting = {};
  }

  failed(error) {
    for (const waits of Object.values(this.waiting)) waits.reject(error);
    this.waiting = {};
  }
}
