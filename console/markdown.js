// Markdown of agents, as elements. There is no way from the text to markup: every piece becomes a text
// node or one of the elements below, so what is not known here is shown as it was written.
import { h } from './vendor.js';
import { t } from './texts.js';

const MAX_DEPTH = 6;
/** A text without any end of a block is cut here, so that no repaint has to look at all of it. */
const LONGEST_OPEN = 6000;

/** The blocks of a text that grows. What cannot change any more is not looked at again. */
export class Blocks {
  constructor() {
    this.settled = [];
    this.from = 0;
    /** What is settled of a paragraph that goes on. */
    this.carried = [];
  }

  /** @param {string} text what there is now; it begins with what there was before */
  grow(text) {
    for (;;) {
      const open = text.slice(this.from);
      const blocks = split(open, 0, this.carried.length > 0);
      const last = blocks.at(-1);
      const isLong = last?.kind === 'p' && last.length > LONGEST_OPEN;
      while (isLong ? blocks.length > 1 : isSettled(blocks)) this.settle(blocks.shift());
      if (!isLong) return [...this.settled, ...blocks.map((block, index) => this.node(block, index))];
      const rest = text.slice(this.from);
      const at = rest.lastIndexOf(' ', LONGEST_OPEN) + 1 || LONGEST_OPEN;
      this.carried.push(...inline(rest.slice(0, at)));
      this.from += at;
    }
  }

  settle(block) {
    this.settled.push(this.node(block, 0));
    this.from += block.length;
    this.carried = [];
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

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\n]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const ITEM = /^( {0,9})([-*+]|\d{1,9}[.)])(\s+|$)(.*)$/;
const QUOTE = /^ {0,3}> ?/;
const TABLE_RULE = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** `goesOn`: it begins in the middle of a paragraph. */
function split(text, depth = 0, goesOn = false) {
  const lines = text.split('\n');
  const blocks = [];
  let at = 0;
  const take = (kind, count, node, inner) => {
    const length = lines.slice(at, at + count).reduce((sum, line) => sum + line.length + 1, 0);
    blocks.push({ kind, length, node, text: inner });
    at += count;
  };
  const takeParagraph = () => {
    const count = 1 + run(lines, at + 1, (other) => other.trim() !== '' && !FENCE.test(other)
      && !HEADING.test(other) && !ITEM.test(other) && !QUOTE.test(other));
    const inner = lines.slice(at, at + count).join('\n');
    take('p', count, () => paragraph(inner), inner);
  };
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    if (goesOn && at === 0) {
      takeParagraph();
    } else if (line.trim() === '') {
      take('blank', 1, () => null);
    } else if (fence) {
      const closing = (other) => {
        const end = other.trim();
        return end.length >= fence[1].length && end === fence[1][0].repeat(end.length);
      };
      let end = at + 1;
      while (end < lines.length && !closing(lines[end])) end += 1;
      const code = lines.slice(at + 1, end).join('\n');
      take('code', Math.min(end + 1, lines.length) - at, () => codeBlock(code, fence[2].trim()));
    } else if (HEADING.test(line)) {
      const [, marks, rest] = HEADING.exec(line);
      // The page has its own first headings.
      take('heading', 1, () => h(`h${Math.min(marks.length + 2, 6)}`, null, inline(rest)));
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
      take('list', count, () => list(inner, depth));
    } else if (line.includes('|') && TABLE_RULE.test(lines[at + 1] ?? '')) {
      const count = run(lines, at, (other) => other.includes('|'));
      const rows = lines.slice(at, at + count);
      take('table', count, () => table(rows));
    } else {
      takeParagraph();
    }
  }
  // The last line has no end.
  if (blocks.length) blocks.at(-1).length -= 1;
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

function list(lines, depth) {
  const [, indent, mark] = ITEM.exec(lines[0]);
  const ordered = /\d/.test(mark);
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1].length <= indent.length + 1) items.push([item[4]]);
    else items.at(-1).push(line.replace(/^ {1,4}|^\t/, ''));
  }
  const nodes = items.map((inner) => {
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
  /(`+)([^`](?:[^\n]{0,2000}?[^`])?)\1(?!`)/.source,
  /\\([\\`*_{}[\]()#+.!|<>~-])/.source,
  /(!?)\[([^\]\n]{0,500})\]\(\s*<?([^\s<>()]{0,2000}(?:\([^\s<>()]{0,200}\)[^\s<>()]{0,200})?)>?(?:\s+"[^"\n]{0,200}")?\s*\)/.source,
  /<(https?:\/\/[^\s<>]{1,2000}|mailto:[^\s<>]{1,300})>/.source,
  /\b(https?:\/\/[^\s<>()[\]{}"'`*]{1,2000})/.source,
  /\*\*(?=\S)([^\n]{1,2000}?\S)\*\*/.source,
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
    const end = /[.,;:!?]+$/.exec(bare)?.[0] ?? '';
    const url = bare.slice(0, bare.length - end.length);
    return [link(url, [url], url), end];
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

/** What terminals print, without what only terminals understand. */
export const withoutAnsi = (text) => text
  .replace(/\u001b\][^\u0007\u001b]{0,4096}(?:\u0007|\u001b\\)/g, '')
  .replace(/\u001b[\[()#;?]*[0-9;?]{0,40}[@-~]/g, '')
  .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u0080-\u009f]/g, '');

/** One line that cannot change the direction or order of what stands around it. */
export const oneLine = (text, most = 300) => withoutAnsi(String(text ?? ''))
  .replace(/[\u202a-\u202e\u2066-\u2069\u200e\u200f]/g, '')
  .replace(/\s+/g, ' ').trim().slice(0, most);
