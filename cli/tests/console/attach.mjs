// Files that go along, prompts that are said again, terminals of the agent.
import { accessible, check, faults, hears, idle, live, open, picture, run, said, same, send, visitor } from './browser.mjs';

const context = await visitor();
const page = await open(context);
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const pixel = { name: 'pixel.png', mimeType: 'image/png', buffer: Buffer.from(PIXEL, 'base64') };
const notes = { name: 'notes <b>.md', mimeType: 'text/markdown', buffer: Buffer.from('# Notes\n```\nfence\n```\n') };
const chips = () => page.$$eval('.files li', (all) => all.map((one) => one.querySelector('.file-name').innerText));

/** As a person would paste or drop it. */
const give = (type, files) => page.evaluate(([kind, all]) => {
  const data = new DataTransfer();
  for (const [name, mime, text] of all) data.items.add(new File([Uint8Array.from(atob(text), (one) => one.charCodeAt(0))], name, { type: mime }));
  const target = document.getElementById('message');
  const options = { bubbles: true, cancelable: true };
  const event = kind === 'paste' ? new ClipboardEvent(kind, { ...options, clipboardData: data })
    : new DragEvent(kind, { ...options, dataTransfer: data });
  return !target.dispatchEvent(event);
}, [type, files]);

await run({
  async 'files are picked, pasted and dropped, and taken back'() {
    await live(page);
    await page.setInputFiles('#files', [pixel, notes]);
    await page.waitForFunction(() => document.querySelectorAll('.files li').length === 2);
    check(await give('paste', [['pasted.png', 'image/png', PIXEL]]), 'a pasted picture is taken');
    await page.waitForFunction(() => document.querySelectorAll('.files li').length === 3);
    check(await give('dragover', [['x.txt', 'text/plain', btoa('x')]]), 'it may be dropped');
    await page.waitForSelector('.drop');
    check(await give('drop', [['dropped.txt', 'text/plain', btoa('dropped')]]), 'and the browser stays');
    await page.waitForFunction(() => document.querySelectorAll('.files li').length === 4);
    check(!(await page.$('.drop')), 'the mark is gone');
    same(await chips(), ['pixel.png', 'notes <b>.md', 'pasted.png', 'dropped.txt'], 'chips');
    await accessible(page, 'files');
    await page.click('.files li:nth-child(3) button');
    await page.waitForFunction(() => document.querySelectorAll('.files li').length === 3);
  },
  async 'they go along with the prompt and are shown, also later'() {
    await send(page, 'Look at these');
    await hears(page, 'Look at these');
    await idle(page);
    same(await chips(), [], 'nothing is left');
    const shown = async () => {
      await page.waitForSelector('.item.user .picture');
      const texts = await page.$$eval('.item.user .code', (all) => all.map((one) => one.innerText.trim()));
      same(texts, ['# Notes\n```\nfence\n```', 'dropped'], 'what is in the files');
      same(await page.$$eval('.turn', (all) => all.length), 1, 'one turn');
      check(!(await page.$('.item.user b')), 'a name is text');
    };
    await shown();
    await picture(page, 'files-light');
    await page.reload();
    await hears(page, 'Look at these');
    await idle(page);
    await shown();
  },
  async 'what is too large or too much is refused before it is read'() {
    const large = { name: 'large.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(6 << 20) };
    await page.setInputFiles('#files', [large]);
    await page.waitForFunction(() => document.querySelector('.toast')?.innerText.includes('too large'));
    same(await chips(), [], 'it is not kept');
    const many = Array.from({ length: 12 }, (_, index) => ({ ...pixel, name: `${index}.png` }));
    await page.setInputFiles('#files', many);
    await page.waitForFunction(() => document.querySelectorAll('.files li').length === 8);
    await page.waitForFunction(() => document.querySelector('.toasts').innerText.includes('At most 8'));
    for (let left = 8; left > 0; left -= 1) {
      await page.click('.files li button');
      await page.waitForFunction((count) => document.querySelectorAll('.files li').length === count, left - 1);
    }
  },
  async 'an agent that takes no pictures gets none, and text as text'() {
    await context.route('**/v1/agents', async (route) => {
      const response = await route.fetch();
      const body = await response.json();
      for (const agent of body.agents) agent.capabilities.promptCapabilities = {};
      await route.fulfill({ response, json: body });
    });
    await page.goto(page.url().replace(/#.*/, ''));
    await page.reload();
    await live(page);
    await page.setInputFiles('#files', [pixel, notes]);
    await page.waitForFunction(() => document.querySelectorAll('.files li').length === 1);
    await page.waitForFunction(() => document.querySelector('.toasts').innerText.includes('pixel.png'));
    await send(page, 'Read this');
    await hears(page, 'Notes');
    await idle(page);
    await context.unroute('**/v1/agents');
  },
  async 'an earlier prompt is said in other words, in a fork'() {
    await page.reload();
    await idle(page);
    for (const text of ['the second prompt', 'the third prompt']) {
      await send(page, text);
      await hears(page, text);
      await idle(page);
    }
    const parent = page.url();
    await page.hover('.turn:nth-of-type(2)');
    await page.click('.turn:nth-of-type(2) .edit');
    await accessible(page, 'an editor');
    same(await page.inputValue('#editor'), 'the second prompt', 'what was said');
    await page.fill('#editor', 'in other words');
    await picture(page, 'editor-light');
    await page.click('.editor .primary');
    await page.waitForFunction((before) => location.href !== before, parent);
    await hears(page, 'in other words');
    await idle(page);
    const words = await said(page);
    check(!words.includes('the second prompt') && !words.includes('the third prompt'), 'what came after is not there', words);
    check(words.includes('Notes'), 'what was before is', words);
    await page.goto(parent);
    await hears(page, 'the third prompt');
    check(!(await said(page)).includes('in other words'), 'the parent is as it was');
  },
  async 'the first prompt, too: that begins anew'() {
    const parent = page.url();
    await page.hover('.turn:nth-of-type(1)');
    await page.click('.turn:nth-of-type(1) .edit');
    await page.fill('#editor', 'a new beginning');
    await page.keyboard.press('Control+Enter');
    await page.waitForFunction((before) => location.href !== before, parent);
    await hears(page, 'a new beginning');
    await idle(page);
    same(await page.$$eval('.turn', (all) => all.length), 1, 'one turn');
    await page.hover('.turn');
    await page.click('.turn .edit');
    await page.keyboard.press('Escape');
    check(!(await page.$('#editor')), 'closed by Escape');
  },
  async 'what a terminal of the agent prints is shown'() {
    const update = (value) => `/update ${JSON.stringify(value)}`;
    const step = (rest) => update({ sessionUpdate: 'tool_call_update', toolCallId: 'run', ...rest });
    const print = (data) => step({ _meta: { terminal_output: { terminal_id: 'term-1', data } } });
    await send(page, [update({ sessionUpdate: 'tool_call', toolCallId: 'run', title: 'cargo test', kind: 'execute', status: 'in_progress',
      content: [{ type: 'terminal', terminalId: 'term-1' }] }), print('\u001b[32mrunning 2 tests\u001b[0m <b>x</b>'), print(' ok'),
    step({ status: 'completed', _meta: { terminal_exit: { terminal_id: 'term-1', exit_code: 0 } } }), 'It has run'].join('\n'));
    await hears(page, 'It has run');
    await idle(page);
    await page.click('.item.tool >> text=cargo test');
    const printed = await page.innerText('.code.terminal');
    same(printed.trim(), 'running 2 tests <b>x</b> ok', 'without escapes');
    check((await page.innerText('.item.tool .tool-body')).includes('exit code 0'), 'how it ended');
    await accessible(page, 'a terminal');
    check(faults.length === 0, 'faults', faults);
  },
});
