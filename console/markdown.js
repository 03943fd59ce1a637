// Markdown of agents, as elements. There is no way from the text to markup: every piece becomes a text
// node or one of the elements below, so what is not known here is shown as it was written.
import { h } from './vendor.js';
import { t } from './texts.js';

const MAX_DEPTH = 6;
/** A block that does not end is cut here, so that no repaint has to look at all of it. */
const LONGEST_OPEN = 6000;
/** Code is one text, which costs less to show than it costs a reader to see it in two. */
const LONGEST_CODE = 30000;
/** So much is split at once. It holds more than the longest block. */
const WINDOW = 65536;
/** A longer line is words, whatever it begins with. */
const LONGEST_LINE = 2000;

const longest = (block) => (block.kind === 'code' ? LONGEST_CODE : LONGEST_OPEN);

/** The blocks of a text that grows. What cannot change any more is not looked at again. */
export class Blocks {
  constructor() {
    this.settled = [];
    this.from = 0;
    /** What is settled of a paragraph that goes on. */
    this.carried = [];
    /** The block that was cut and goes on, if it is a paragraph or code. */
    this.within = null;
  }

  /** @param {string} text what there is now; it begins with what there was before */
  grow(text) {
    for (;;) {
      const open = text.slice(this.from, this.from + WINDOW);
      const isWhole = this.from + open.length === text.length;
      const blocks = split(open, 0, this.within);
      const last = blocks.findLast((block) => block.kind !== 'blank') ?? blocks.at(-1);
      const isLong = last.length > longest(last);
      const kept = isLong ? last : blocks.at(-1);
      while (isLong || !isWhole ? blocks[0] !== kept : isSettled(blocks)) this.settle(blocks.shift());
      if (isLong) this.cut(text.slice(this.from, this.from + last.length), last);
      else if (isWhole) return [...this.settled, ...blocks.map((block, index) => this.node(block, index))];
    }
  }

  /** Settles the first part of a block that is too long. A list, a quote or a table is cut between lines. */
  cut(text, { kind, fence }) {
    const most = longest({ kind });
    if (kind === 'p') {
      let from = 0;
      while (text.length - from > most) {
        const space = Math.max(text.lastIndexOf(' ', from + most), text.lastIndexOf('\n', from + most)) + 1;
        const at = space > from ? space : from + most;
        this.carried.push(...inline(text.slice(from, at)));
        from = at;
      }
      this.from += from;
      this.within = { kind };
      return;
    }
    const line = text.lastIndexOf('\n', most - 1) + 1;
    const at = kind === 'code' && line < most / 2 ? most : line || most;
    for (const block of split(text.slice(0, at), 0, this.within)) this.settle(block);
    if (kind === 'code') this.within = { kind, fence };
  }

  settle(block) {
    this.settled.push(this.node(block, 0));
    this.from += block.length;
    this.carried = [];
    this.within = null;
  }

  node(block, index) {
    const carries = index === 0 && this.carried.length > 0;
    return carries ? h('p', null, [...this.carried, ...inline(block.text)]) : block.node();
  }
}

/** A list may go on after blank lines; what is last may become anything. */
const isSettled = (blocks) => blocks.slice(1, -1).some((block) => block.kind !== 'blank');

/** @param {string} text */
export const markdown = (text) => new Blocks().grow(text);

// A search that fails has to fail at once: nothing here can match the same characters in two ways.
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})[ \t]/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}\s*$/;
const ITEM = /^( {0,9})([-*+]|\d{1,9}[.)])(?:[ \t]+|$)([^]*)/;
const QUOTE = /^ {0,3}> ?/;

/** @returns {{marks: string, language: string}|null} */
function fenceOf(line) {
  const [begin, marks] = FENCE.exec(line) ?? [];
  const language = begin && line.slice(begin.length);
  return begin && !language.includes('`') ? { marks, language: language.trim() } : null;
}

/** What a heading says, without the marks that may close it. */
function headingOf(line) {
  const [begin, marks] = HEADING.exec(line) ?? [];
  if (!begin) return null;
  const text = line.slice(begin.length).trim();
  let end = text.length;
  while (text[end - 1] === '#') end -= 1;
  const isClosed = end === 0 || /\s/.test(text[end - 1]);
  return { level: marks.length, text: isClosed ? text.slice(0, end).trim() : text };
}

const isTableRule = (line) => line.length <= LONGEST_LINE
  && line.trim().replace(/^\|/, '').replace(/\|$/, '').split('|').every((cell) => /^:?-+:?$/.test(cell.trim()));

const begins = (line) => line.length <= LONGEST_LINE
  && (fenceOf(line) || HEADING.test(line) || ITEM.test(line) || QUOTE.test(line));

/** `within`: it begins in the middle of this block. */
function split(text, depth = 0, within = null) {
  const lines = text.split('\n');
  const blocks = [];
  let at = 0;
  const take = (kind, count, node, more = {}) => {
    const length = lines.slice(at, at + count).reduce((sum, line) => sum + line.length + 1, 0);
    blocks.push({ kind, length, node, ...more });
    at += count;
  };
  const takeParagraph = () => {
    const count = 1 + run(lines, at + 1, (other) => other.trim() !== '' && !begins(other));
    const inner = lines.slice(at, at + count).join('\n');
    take('p', count, () => paragraph(inner), { text: inner });
  };
  const takeCode = (fence, from) => {
    const closing = (other) => {
      const end = other.trim();
      return end.length >= fence.marks.length && end === fence.marks[0].repeat(end.length);
    };
    const end = from + run(lines, from, (other) => !closing(other));
    const code = lines.slice(from, end).join('\n');
    take('code', Math.min(end + 1, lines.length) - at, () => codeBlock(code, fence.language), { fence });
  };
  while (at < lines.length) {
    const line = lines[at];
    const goesOn = at === 0 ? within : null;
    const fence = fenceOf(line);
    const heading = headingOf(line);
    if (goesOn?.kind === 'code') {
      takeCode(goesOn.fence, at);
    } else if (goesOn) {
      takeParagraph();
    } else if (line.trim() === '') {
      take('blank', 1, () => null);
    } else if (line.length > LONGEST_LINE) {
      takeParagraph();
    } else if (fence) {
      takeCode(fence, at + 1);
    } else if (heading) {
      // The page has its own first headings.
      take('heading', 1, () => h(`h${Math.min(heading.level + 2, 6)}`, null, inline(heading.text)));
    } else if (RULE.test(line)) {
      take('rule', 1, () => h('hr'));
    } else if (QUOTE.test(line) && depth < MAX_DEPTH) {
      const count = run(lines, at, (other) => QUOTE.test(other));
      const inner = lines.slice(at, at + count).map((other) => other.replace(QUOTE, '')).join('\n');
      take('quote', count, () => h('blockquote', null, nested(inner, depth)));
    } else if (ITEM.test(line) && depth < MAX_DEPTH) {
      const count = run(lines, at, (other, index) => ITEM.test(other) || /^\s+\S/.test(other)
        || (other.trim() === '' && ITEM.test(lines[index + 1] ?? '')));
      const inner = lines.slice(at, at + count);
      take('list', count, () => items(inner, depth));
    } else if (line.includes('|') && isTableRule(lines[at + 1] ?? '')) {
      const count = run(lines, at, (other) => other.includes('|'));
      const rows = lines.slice(at, at + count);
      take('table', count, () => table(rows));
    } else {
      takeParagraph();
    }
  }
  // The last line has no end.
  blocks.at(-1).length -= 1;
  return blocks;
}

const run = (lines, from, more) => {
  let end = from;
  while (end < lines.length && more(lines[end], end)) end += 1;
  return end - from;
};

const nested = (text, depth) => split(text, depth + 1).map((block) => block.node());
const paragraph = (text) => h('p', null, inline(text));

function codeBlock(code, language) {
  return h('pre', { class: 'code', tabindex: 0, dir: 'ltr', 'data-language': language || null },
    h('code', null, code));
}

function items(lines, depth) {
  const [, indent, mark] = ITEM.exec(lines[0]);
  const ordered = /\d/.test(mark);
  const found = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1].length <= indent.length + 1) found.push([item[3]]);
    else found.at(-1).push(line.replace(/^ {1,4}|^\t/, ''));
  }
  const nodes = found.map((inner) => {
    const task = /^\[([ xX])\]\s+/.exec(inner[0]);
    if (task) inner[0] = inner[0].slice(task[0].length);
    const box = task && h('span', { 'aria-hidden': 'true', class: 'box' }, task[1] === ' ' ? '☐ ' : '☑ ');
    const [first, ...rest] = inner;
    const more = rest.join('\n');
    return h('li', null, box, inline(first), more.trim() ? nested(more, depth) : null);
  });
  return ordered ? h('ol', { start: Math.min(parseInt(mark, 10), 1e6) }, nodes) : h('ul', null, nodes);
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).slice(0, 40);
  const row = (line, kind) => h('tr', null, cells(line).map((cell) => h(kind, null, inline(cell.trim()))));
  return h('div', { class: 'table', tabindex: 0 }, h('table', null,
    h('thead', null, row(lines[0], 'th')),
    h('tbody', null, lines.slice(2).map((line) => row(line, 'td')))));
}

// Code, escapes, images, links, addresses, strong, emphasis, struck. Lengths are limited, so that no
// text makes a search go back far.
const INLINE = new RegExp([
  /(?<!`)(`{1,9})(?!`)([^\n]{1,2000}?)(?<!`)\1(?!`)/.source,
  /\\([\\`*_{}[\]()#+.!|<>~-])/.source,
  /(!?)\[([^[\]\n]{0,500})\]\([ \t\n]{0,9}<?([^\s<>()]{0,2000}(?:\([^\s<>()]{0,200}\)[^\s<>()]{0,200})?)>?(?:[ \t\n]{1,9}"[^"\n]{0,200}")?[ \t\n]{0,9}\)/.source,
  /<(https?:\/\/[^\s<>]{1,2000}|mailto:[^\s<>]{1,300})>/.source,
  /\b(https?:\/\/[^\s<>()[\]{}"'`*]{1,2000})/.source,
  /\*\*(?=\S)((?:[^*\n]|\*(?!\*)){1,2000}?)(?<!\s)\*\*/.source,
  /(?<![\w*])\*(?=[^\s*])([^*\n]{1,1000}?)\*(?!\w)/.source,
  /(?<!\w)_(?=[^\s_])([^_\n]{1,1000}?)_(?!\w)/.source,
  /~~(?=\S)([^~\n]{1,1000}?)~~/.source,
].join('|'), 'g');

export function inline(text, depth = 0) {
  if (depth > MAX_DEPTH) return [text];
  const out = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > from) out.push(text.slice(from, match.index));
    from = match.index + match[0].length;
    out.push(piece(match, depth));
  }
  if (from < text.length) out.push(text.slice(from));
  return out;
}

function piece(match, depth) {
  const [whole, ticks, code, escaped, bang, label, target, angle, bare, strong, star, under, struck] = match;
  if (ticks !== undefined) return h('code', { dir: 'ltr' }, code.replace(/^ (.+) $/, '$1'));
  if (escaped !== undefined) return escaped;
  if (target !== undefined) return bang ? picture(label, target) : link(target, label ? inline(label, depth + 1) : [target], whole);
  if (angle !== undefined) return link(angle, [angle], whole);
  if (bare !== undefined) {
    let end = bare.length;
    while ('.,;:!?'.includes(bare[end - 1])) end -= 1;
    const url = bare.slice(0, end);
    return [link(url, [url], url), bare.slice(end)];
  }
  if (strong !== undefined) return h('strong', null, inline(strong, depth + 1));
  if (star !== undefined || under !== undefined) return h('em', null, inline(star ?? under, depth + 1));
  return h('del', null, inline(struck, depth + 1));
}

/** Only to where people may want to go, and only when they click. Everything else is shown as text. */
export function safeLink(target) {
  try {
    const url = new URL(target);
    return ['https:', 'http:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function link(target, children, whole) {
  const href = safeLink(target);
  if (!href) return whole;
  // Where it leads is said by the page, and not only by who wrote the link.
  return h('a', { href, target: '_blank', rel: 'noopener noreferrer nofollow', title: href }, children);
}

/** Nothing is fetched because an agent says so. Its own pictures come as content, not as addresses. */
function picture(label, target) {
  const href = safeLink(target);
  const words = `${t.imageElsewhere}${label ? `: ${label}` : ''}`;
  return href ? link(href, [words], words) : h('span', { class: 'muted' }, words);
}

/** What agents send need not be what it should be. */
export const words = (value) => (['string', 'number', 'boolean'].includes(typeof value) ? String(value) : '');

/** The objects of a list. @returns {any[]} */
export const list = (value) => (Array.isArray(value) ? value.filter((one) => one && typeof one === 'object') : []);

/** What terminals print, without what only terminals understand. */
export const withoutAnsi = (text) => words(text)
  .replace(/\u001b\][^\u0007\u001b]{0,4096}(?:\u0007|\u001b\\)/g, '')
  .replace(/\u001b[\[()#;?]*[0-9;?]{0,40}[@-~]/g, '')
  .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u0080-\u009f]/g, '');

/** One line that cannot change the direction or order of what stands around it. */
export const oneLine = (text, most = 300) => withoutAnsi(text)
  .replace(/[\u202a-\u202e\u2066-\u2069\u200e\u200f]/g, '')
  .replace(/\s+/g, ' ').trim().slice(0, most);
