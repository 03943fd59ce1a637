// What a turn is made of: words, thoughts, plans, tool calls. Each item is drawn again only when it has
// changed.
import { Component, createRef, html } from '../vendor.js';
import { t } from '../texts.js';
import { list, oneLine, safeLink, withoutAnsi, words } from '../markdown.js';
import { PICTURES, kilobytes } from '../attachments.js';
import { Boundary, Code, ForkIcon, json } from './parts.js';

const MOST_LINES = 400;
/** Files that are longer are folded. */
const SHOWN_FILE = 600;

export class Turn extends Component {
  shouldComponentUpdate(next, state) {
    return next.version !== this.props.version || next.last !== this.props.last
      || next.finished !== this.props.finished || state.editing !== this.state.editing;
  }

  render({ turn, onFork, onEdit, finished }, { editing }) {
    const said = turn.items.find((item) => item.kind === 'user');
    const edit = editing && said;
    return html`
      <section class="turn" aria-label=${t.talk}>
        ${turn.items.map((item) => (edit && item === said
          ? html`<${Editor} key="editor" text=${said.text} onClose=${() => this.setState({ editing: false })}
              onSend=${(text) => { this.setState({ editing: false }); onEdit(turn, text); }} />`
          : html`<${Boundary} key=${item.key} version=${item.version}><${Item} item=${item} version=${item.version} /><//>`))}
        ${finished && onFork && html`
          <div class="turn-tools"><button class="link" onClick=${() => onFork(turn)}
            aria-label=${t.forkHere} title=${t.forkHere}><${ForkIcon} /> ${t.fork}</button>
            ${said && onEdit && html`<button class="link edit" onClick=${() => this.setState({ editing: true })}
              aria-label=${t.editHere} title=${t.editHere}>✎ ${t.edit}</button>`}</div>`}
      </section>`;
  }
}

/** A prompt that is said again in other words. */
class Editor extends Component {
  constructor({ text }) {
    super();
    this.state = { text };
    this.input = createRef();
  }

  componentDidMount() {
    this.input.current.focus();
  }

  send() {
    const text = this.state.text.trim();
    if (text) this.props.onSend(text);
  }

  render({ onClose }, { text }) {
    const onKeyDown = (event) => {
      if (event.key === 'Escape') onClose();
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) this.send();
    };
    return html`
      <form class="editor" onSubmit=${(event) => { event.preventDefault(); this.send(); }}>
        <label class="hidden" for="editor">${t.editHere}</label>
        <textarea id="editor" ref=${this.input} dir="auto" value=${text} aria-describedby="editor-hint"
          rows=${Math.min(12, text.split('\n').length + 1)} onKeyDown=${onKeyDown}
          onInput=${(event) => this.setState({ text: event.target.value })}></textarea>
        <p id="editor-hint" class="muted">${t.editHint}</p>
        <div class="row"><button class="primary" disabled=${!text.trim()}>${t.sendFork}</button>
          <button type="button" onClick=${onClose}>${t.cancel}</button></div>
      </form>`;
  }
}

class Item extends Component {
  shouldComponentUpdate(next) {
    return next.version !== this.props.version;
  }

  render({ item }) {
    switch (item.kind) {
      case 'user': return html`<div class="item user" dir="auto"><span class="hidden">${t.you}: </span>${item.text}</div>`;
      case 'agent': return html`<div class="item agent" dir="auto">${item.blocks.grow(item.text)}</div>`;
      case 'thought': return html`
        <details class="item thought"><summary>${t.thought}</summary>
          <div dir="auto">${item.blocks.grow(item.text)}</div></details>`;
      case 'plan': return html`<${Plan} entries=${item.entries} />`;
      case 'tool': return html`<${Tool} call=${item.call} terminals=${item.terminals} />`;
      case 'content': return html`<div class=${`item ${item.by}`}><${Content} content=${item.content} /></div>`;
      case 'notice': return html`<div class="item notice" dir="auto"><strong>${oneLine(item.title)}</strong> ${oneLine(item.text, 2000)}</div>`;
      case 'end': return html`<div class="item end" data-failed=${item.failed ? 'yes' : 'no'} dir="auto">${oneLine(item.text, 2000)}</div>`;
      default: return null;
    }
  }
}

const BOXES = { pending: '○', in_progress: '◐', completed: '●' };

function Plan({ entries }) {
  return html`
    <div class="item plan"><p class="label">${t.plan}</p>
      <ul>${entries.slice(0, 200).map((entry) => html`
        <li data-status=${entry.status}><span aria-hidden="true">${BOXES[entry.status] ?? '○'}</span>
          <span dir="auto">${oneLine(entry.content, 500)}</span>
          <span class="hidden"> (${t.status[entry.status] ?? ''})</span></li>`)}</ul>
    </div>`;
}

function Tool({ call, terminals }) {
  const status = call.status ?? 'pending';
  return html`
    <details class="item tool" data-status=${status}>
      <summary><span class="tool-kind">${oneLine(call.kind ?? t.tool, 20)}</span>
        <span class="tool-title" dir="auto">${oneLine(call.title) || t.tool}</span>
        <span class="tool-status">${t.status[status] ?? ''}</span></summary>
      <${ToolBody} call=${call} terminals=${terminals} />
    </details>`;
}

export function ToolBody({ call, terminals }) {
  const locations = list(call.locations).slice(0, 20);
  return html`
    <div class="tool-body">
      ${locations.length > 0 && html`<p class="where" dir="ltr">
        ${locations.map(({ path, line }) => oneLine(line ? `${words(path)}:${words(line)}` : path)).join('  ')}</p>`}
      ${call.rawInput !== undefined && html`<p class="label">${t.input}</p><${Code} text=${withoutAnsi(json(call.rawInput))} />`}
      ${list(call.content).map((part) => html`<${ToolContent} part=${part} terminals=${terminals} />`)}
      ${call.rawOutput !== undefined && html`<p class="label">${t.output}</p><${Code} text=${withoutAnsi(json(call.rawOutput))} />`}
    </div>`;
}

function ToolContent({ part, terminals }) {
  if (part.type === 'diff') return html`<${Diff} diff=${part} />`;
  if (part.type === 'terminal') return html`<${Terminal} id=${words(part.terminalId)} known=${terminals?.get(words(part.terminalId))} />`;
  if (part.content?.type === 'text') return html`<${Code} text=${withoutAnsi(part.content.text)} />`;
  return html`<${Content} content=${part.content} />`;
}

function Terminal({ id, known }) {
  const end = known?.exit != null && (known.exit ? t.exitCode(oneLine(known.exit, 40)) : t.ended2);
  return html`
    <p class="label">${t.terminal} <span dir="ltr">${oneLine(id, 60)}</span>${end && html` · ${end}`}</p>
    ${known?.text && html`<${Code} kind="terminal" text=${withoutAnsi(known.text)} end />`}`;
}

/** A picture is shown if it came as content; nothing is fetched. SVG is not: it can hold anything. */
function Content({ content }) {
  if (content?.type === 'image' && PICTURES.test(words(content.mimeType)) && typeof content.data === 'string') {
    return html`<img class="picture" alt=${t.image} src=${`data:${content.mimeType};base64,${content.data}`} />`;
  }
  if (content?.type === 'resource_link') {
    const href = safeLink(content.uri);
    const name = oneLine(content.title ?? content.name ?? content.uri);
    return href
      ? html`<a class="resource" href=${href} target="_blank" rel="noopener noreferrer nofollow" title=${href}>${name}</a>`
      : html`<span class="resource" dir="ltr">${name}</span>`;
  }
  if (content?.type === 'resource') {
    const { uri, text, blob } = content.resource ?? {};
    const size = typeof text === 'string' ? text.length : Math.round((words(blob).length * 3) / 4);
    const head = html`<span class="file-name" dir="auto">${nameOf(uri)}</span> <span class="muted">${kilobytes(size)}</span>`;
    if (typeof text !== 'string') return html`<p class="file">${head}</p>`;
    return html`<details class="file" open=${text.length < SHOWN_FILE}><summary>${head}</summary><${Code} text=${withoutAnsi(text)} /></details>`;
  }
  return html`<span class="muted">[${oneLine(content?.type, 40)}]</span>`;
}

/** Of a file that was attached here its name, of others where they are. */
function nameOf(uri) {
  const [, name] = /^attachment:\/\/\/(.+)$/.exec(words(uri)) ?? [];
  if (!name) return oneLine(uri);
  try {
    return oneLine(decodeURIComponent(name), 120);
  } catch {
    return oneLine(name, 120);
  }
}

function Diff({ diff }) {
  const lines = difference(words(diff.oldText).split('\n'), words(diff.newText).split('\n'));
  return html`
    <p class="where" dir="ltr">${oneLine(diff.path)}${diff.oldText == null && html` <span class="muted">(${t.newFile})</span>`}</p>
    <pre class="code diff" tabindex="0" dir="ltr" aria-label=${t.diff}>${lines.map(([sign, text]) => html`
      <span class="line" data-sign=${sign}><span class="sign">${sign}</span>${withoutAnsi(text)}${'\n'}</span>`)}</pre>`;
}

/** Lines that are the same at both ends are context; what is between was taken out and put in. */
function difference(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < before.length - start && end < after.length - start
    && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const context = 3;
  const lines = [
    ...after.slice(Math.max(0, start - context), start).map((text) => [' ', text]),
    ...before.slice(start, before.length - end).map((text) => ['-', text]),
    ...after.slice(start, after.length - end).map((text) => ['+', text]),
    ...after.slice(after.length - end, after.length - end + context).map((text) => [' ', text]),
  ];
  return lines.slice(0, MOST_LINES);
}
