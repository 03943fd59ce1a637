// One session as the page knows it: its turns, made of what arrives.
import { Blocks, list, oneLine, withoutAnsi, words } from './markdown.js';
import { t } from './texts.js';

const UNFINISHED_ESCAPE = /\u001b(?:\[[0-9;?]{0,40})?$/;

const MOST_TERMINALS = 50;
const MOST_OUTPUT = 100000;

let nextKey = 1;
export const newKey = () => nextKey++;

export class Session {
  constructor(id) {
    this.id = id;
    this.cwd = '';
    this.title = '';
    this.updatedAt = '';
    this.agent = '';
    this.parent = null;
    /** @type {'unknown'|'idle'|'working'|'waiting'} */
    this.state = 'unknown';
    /** @type {null|'watching'|'loading'|'open'} */
    this.attached = null;
    this.error = '';
    this.unread = false;
    this.deleting = 0;
    /** The timer, and then the request, that brings questions here. */
    this.askingSoon = 0;
    this.resuming = false;
    /** The timer of the next look at who runs it. */
    this.finding = 0;
    /** Names of workers that have run it while this page looked, the last one first. */
    this.workers = [];
    /** What its tokens said, and how many there were. */
    this.token = null;
    this.tokens = 0;
    this.version = 0;
    this.reset();
  }

  reset() {
    this.turns = [];
    this.tools = new Map();
    /** What terminals of the agent have printed, by their id. */
    this.terminals = new Map();
    this.commands = [];
    this.modes = null;
    this.config = [];
    this.usage = null;
    /** Prompts that wait for their turn. */
    this.queued = [];
    /** Questions that are open somewhere, by id. */
    this.asked = new Set();
    /** Those of them that this page has asked to be asked. */
    this.askedFor = new Set();
    this.stopping = false;
    /** Of the turn that began last. */
    this.turnName = '';
    this.version += 1;
  }

  /** What a token says is for everybody to read: who has it may use it, so it is not kept. */
  noteToken(given) {
    try {
      const [, claims] = given.token.split('.');
      const text = atob(claims.replaceAll('-', '+').replaceAll('_', '/'));
      this.token = JSON.parse(text);
      this.tokens += 1;
    } catch {
      // None was given.
    }
  }

  get name() {
    return oneLine(this.title, 120) || this.firstWords || t.untitled;
  }

  /** While its history is read, it says what was, and not what is. */
  get shownState() {
    if (this.attached === 'loading') return 'unknown';
    return this.asked.size ? 'waiting' : this.state;
  }

  get firstWords() {
    const text = this.turns[0]?.items.find((item) => item.kind === 'user')?.text;
    return text ? oneLine(text, 80) : '';
  }

  // ---- turns ----

  beginTurn() {
    const turn = { key: newKey(), version: 0, items: [] };
    this.turns.push(turn);
    return turn;
  }

  touch(item, turn = this.turns.at(-1)) {
    if (item) item.version += 1;
    if (turn) turn.version += 1;
    this.version += 1;
  }

  add(kind, fields) {
    const turn = this.turns.at(-1) ?? this.beginTurn();
    const item = { key: newKey(), kind, version: 0, turn, ...fields };
    turn.items.push(item);
    this.touch(item, turn);
    return item;
  }

  /** @param {any} update of `session/update` */
  apply(update) {
    const kind = update?.sessionUpdate;
    const content = update?.content;
    switch (kind) {
      case 'user_message_chunk': return this.chunk('user', content, update.messageId);
      case 'agent_message_chunk': return this.chunk('agent', content, update.messageId);
      case 'agent_thought_chunk': return this.chunk('thought', content, update.messageId);
      case 'tool_call':
      case 'tool_call_update': return this.tool(update);
      case 'plan': return this.plan(list(update.entries));
      case 'available_commands_update': this.commands = list(update.availableCommands); break;
      case 'current_mode_update': if (this.modes) this.modes.currentModeId = update.currentModeId; break;
      case 'config_option_update': this.config = list(update.configOptions); break;
      case 'session_info_update':
        if (update.title !== undefined) this.title = words(update.title);
        if (update.updatedAt) this.updatedAt = words(update.updatedAt);
        break;
      case 'usage_update': this.usage = update; break;
      case 'notice': this.add('notice', { title: update.title, text: update.description ?? '' }); break;
      default: return; // Of a later version of the protocol.
    }
    this.version += 1;
  }

  chunk(kind, content, messageId) {
    let last = this.turns.at(-1)?.items.at(-1);
    const isSame = !messageId || !last?.messageId || last.messageId === messageId;
    const goesOn = last?.kind === kind && isSame;
    const isPart = kind === 'user' && last?.kind === 'content' && last.by === 'user' && isSame;
    if (kind === 'user' && !goesOn && !isPart) {
      this.beginTurn();
      last = null;
    }
    if (content?.type !== 'text') return this.add('content', { by: kind, content, messageId });
    if (!goesOn) last = this.add(kind, { text: '', messageId, blocks: new Blocks() });
    // What only terminals understand may come in two parts.
    const text = (last.held ?? '') + words(content.text);
    last.held = UNFINISHED_ESCAPE.exec(text)?.[0] ?? '';
    last.text += withoutAnsi(text.slice(0, text.length - last.held.length));
    last.messageId ??= messageId;
    this.touch(last);
  }

  tool(update) {
    const known = this.tools.get(update.toolCallId);
    this.terminal(update._meta);
    if (!known) {
      const item = this.add('tool', { call: { ...update }, terminals: this.terminals });
      this.tools.set(update.toolCallId, item);
      return;
    }
    const given = Object.entries(update).filter(([, value]) => value !== undefined && value !== null);
    known.call = { ...known.call, ...Object.fromEntries(given) };
    this.touch(known, known.turn);
  }

  /** What a terminal of the agent has printed: its end, of which there may be much. */
  terminal(meta) {
    const { terminal_output: output, terminal_exit: exit } = meta ?? {};
    const id = words(output?.terminal_id ?? exit?.terminal_id);
    if (!id) return;
    if (!this.terminals.has(id) && this.terminals.size >= MOST_TERMINALS) this.terminals.delete(this.terminals.keys().next().value);
    const known = this.terminals.get(id) ?? { text: '', exit: null };
    const text = (known.text + words(output?.data)).slice(-MOST_OUTPUT);
    this.terminals.set(id, { text, exit: exit ? words(exit.signal ?? exit.exit_code) : known.exit });
  }

  plan(entries) {
    const turn = this.turns.at(-1);
    const known = turn?.items.find((item) => item.kind === 'plan');
    if (!known) return void this.add('plan', { entries });
    known.entries = entries;
    this.touch(known, turn);
  }

  /** The last message of a turn, up to which a fork can go. */
  static lastMessage(turn) {
    return turn.items.findLast((item) => item.messageId)?.messageId;
  }
}
