// What a turn must look like: the scripted agent numbers its chunks, so that none can be missing unnoticed.

import { Counter } from 'k6/metrics';

const good = new Counter('turns_good');
const wrong = new Counter('turns_wrong');
const delivered = new Counter('chunks');

const CHUNK_FRAME = /^{"cursor":"([^"]+)","message":{"jsonrpc":"2.0","method":"session\/update",.*"text":"chunk (\d+) of/;

/// A prompt that is answered by this many chunks, this far apart.
export function counting(chunks, delay) {
  return [{ type: 'text', text: `/count ${chunks}${delay ? ` delay=${delay}` : ''}` }];
}

/// Checks the chunks of one turn as they come.
export class Turn {
  constructor(chunks) {
    this.chunks = chunks;
    this.next = 1;
    this.taken = 0;
    this.faults = [];
  }

  /// Takes a message of the session; says whether it was a chunk.
  take(message) {
    const update = message.method === 'session/update' && message.params.update;
    if (!update || update.sessionUpdate !== 'agent_message_chunk') return false;
    const number = /^chunk (\d+) of/.exec(update.content.text);
    if (!number) return false;
    this.count(Number(number[1]));
    return true;
  }

  /// The same of a frame on a WebSocket that nobody has parsed; returns its cursor if it was a chunk. Thousands of clients
  /// would otherwise keep k6 busier than the gateways that they are there for.
  glance(frame) {
    const chunk = CHUNK_FRAME.exec(frame);
    if (!chunk) return undefined;
    this.count(Number(chunk[2]));
    return chunk[1];
  }

  count(number) {
    if (number !== this.next) this.faults.push(`chunk ${number} instead of ${this.next}`);
    this.next = number + 1;
    this.taken += 1;
  }

  /// At its end: whether all came, in order, once.
  good(answer) {
    // Not one by one: a sample costs k6 as much as a message.
    delivered.add(this.taken);
    if (this.next !== this.chunks + 1) this.faults.push(`${this.next - 1} of ${this.chunks} chunks`);
    const reason = answer && answer.result && answer.result.stopReason;
    if (reason !== 'end_turn') this.faults.push(`ended with ${JSON.stringify(answer && (answer.error || reason))}`);
    if (this.faults.length === 0) {
      good.add(1);
      return true;
    }
    wrong.add(1);
    console.error(`a turn went wrong: ${this.faults.join(', ')}`);
    return false;
  }
}
