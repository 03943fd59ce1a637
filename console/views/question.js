// A question of the agent: a permission with its choices, or a form.
import { Component, html } from '../vendor.js';
import { t } from '../texts.js';
import { list, oneLine, safeLink, words } from '../markdown.js';
import { ToolBody } from './items.js';
import { Boundary } from './parts.js';

const MOST_FIELDS = 30;

export function Question({ store, question }) {
  const kind = question.method === 'elicitation/create' ? Form : Permission;
  return html`<${Boundary}><${kind} store=${store} question=${question} /><//>`;
}

/** The fields of a form. In the page they have names of its own: an agent's could hide what a form can do. */
function fieldsOf({ requestedSchema }) {
  const fields = Object.entries(requestedSchema?.properties ?? {}).slice(0, MOST_FIELDS);
  return fields.map(([name, schema], index) => ({
    key: `f${index}`, name, schema: schema && typeof schema === 'object' ? schema : {},
  }));
}

function Permission({ store, question }) {
  const { toolCall } = question.params;
  const options = list(question.params.options);
  const known = store.sessions.get(question.session)?.tools.get(toolCall?.toolCallId)?.call;
  const call = { ...known, ...toolCall };
  const choose = (optionId) => store.answer(question, { outcome: { outcome: 'selected', optionId } });
  // Digits choose, as they are written on the buttons.
  const onKeyDown = (event) => {
    const option = options[Number(event.key) - 1];
    if (option && !event.ctrlKey && !event.metaKey && !event.altKey) choose(option.optionId);
  };
  return html`
    <div class="question" role="group" aria-label=${`${t.question}: ${oneLine(call.title)}`} onKeyDown=${onKeyDown}>
      <p class="asks">${t.question}</p>
      <p class="what" dir="auto">${oneLine(call.title) || t.permission}</p>
      <${ToolBody} call=${call} />
      <div class="row choices">
        ${options.map((option, index) => html`
          <button key=${option.optionId} data-kind=${option.kind} data-option=${option.optionId}
            class=${option.kind === 'allow_once' ? 'primary' : ''} onClick=${() => choose(option.optionId)}>
            <kbd aria-hidden="true">${index + 1}</kbd> <span dir="auto">${oneLine(option.name, 80)}</span>
          </button>`)}
      </div>
    </div>`;
}

class Form extends Component {
  submit(event) {
    event.preventDefault();
    const { store, question } = this.props;
    const form = new FormData(event.target);
    const content = {};
    for (const { key, name, schema } of fieldsOf(question.params)) {
      const given = form.get(key);
      if (schema.type === 'boolean') content[name] = given !== null;
      else if (given === null || given === '') continue;
      else if (schema.type === 'number' || schema.type === 'integer') content[name] = Number(given);
      else if (schema.type === 'array') content[name] = form.getAll(key);
      else content[name] = given;
    }
    store.answer(question, { action: 'accept', content });
  }

  render({ store, question }) {
    const { message, requestedSchema, mode, url } = question.params;
    const needed = requestedSchema?.required;
    const required = new Set(Array.isArray(needed) ? needed : []);
    const href = mode === 'url' && safeLink(url);
    return html`
      <form class="question" aria-label=${t.question} onSubmit=${(event) => this.submit(event)}>
        <p class="asks">${t.question}</p>
        <p class="what" dir="auto">${oneLine(message, 2000)}</p>
        ${href && html`<p><a href=${href} target="_blank" rel="noopener noreferrer">${href}</a></p>`}
        ${fieldsOf(question.params).map(({ key, name, schema }) => html`
          <${Field} key=${key} prefix=${question.id} field=${key} name=${name} schema=${schema} required=${required.has(name)} />`)}
        <div class="row choices">
          <button class="primary">${t.submit}</button>
          <button type="button" onClick=${() => store.answer(question, { action: 'decline' })}>${t.decline}</button>
        </div>
      </form>`;
  }
}

function Field({ prefix, field, name, schema, required }) {
  const id = `${prefix}-${field}`;
  const label = oneLine(schema.title ?? name, 120);
  const named = list(schema.oneOf).map((one) => [one.const, one.title ?? one.const]);
  const plain = Array.isArray(schema.enum) ? schema.enum : [];
  const choices = named.length ? named : plain.map((value, index) => [value, schema.enumNames?.[index] ?? value]);
  if (schema.type === 'boolean') {
    return html`<label class="check"><input type="checkbox" name=${field} defaultChecked=${schema.default} />
      <span dir="auto">${label}</span></label>`;
  }
  const number = schema.type === 'number' || schema.type === 'integer';
  return html`
    <label for=${id} dir="auto">${label}${required && html` <span class="muted">(${t.required})</span>`}</label>
    ${schema.description && html`<p class="muted" dir="auto">${oneLine(schema.description, 500)}</p>`}
    ${choices.length
      ? html`<select id=${id} name=${field} required=${required}>
          ${choices.map(([value, text]) => html`<option value=${words(value)} selected=${value === schema.default}>
            ${oneLine(text, 120)}</option>`)}</select>`
      : html`<input id=${id} name=${field} required=${required} type=${number ? 'number' : 'text'}
          step=${schema.type === 'integer' ? 1 : 'any'} min=${schema.minimum} max=${schema.maximum}
          maxlength=${schema.maxLength} defaultValue=${words(schema.default)} />`}`;
}
