// One visitor, one gateway: a newcomer's first minutes, and agents that mean no good.
import { accessible, check, chunks, faults, hears, idle, live, open, requested, run, said, same,
  send, state, upto, url, visitor } from './browser.mjs';

const context = await visitor();
const page = await open(context);

const HOSTILE = [
  '<script>window.owned=1</script><img src=x onerror="window.owned=2"><svg onload="window.owned=3">',
  '![pixel](https://evil.example/pixel.png) ![data](data:image/svg+xml,<svg onload=alert(1)>)',
  '[go](javascript:window.owned=4) [data](data:text/html,<script>window.owned=5</script>) [good](https://good.example/)',
  '<https://auto.example/> <iframe src="https://evil.example"></iframe> \u001b]8;;https://evil.example\u0007x\u001b[31mred',
  '`<b>code</b>` **<i>bold</i>** [x](vbscript:owned) [y](//evil.example) [z](/v1/logout) \u202egnp.exe',
  '| <script>a</script> | b |', '|---|---|', '| ![t](https://evil.example/t.png) | c |',
];
const EVIL_TITLE = '<img src=https://evil.example/t.png onerror=window.owned=6>';
const TOOL = {
  sessionUpdate: 'tool_call', toolCallId: 'evil', title: `${EVIL_TITLE}\u001b[2J\u202e`, kind: 'execute', status: 'failed',
  rawInput: { command: '<script>window.owned=7</script>\u001b[31m' }, rawOutput: '<svg onload=window.owned=8>',
  locations: [{ path: '/tmp/<img src=x onerror=window.owned=9>' }],
  content: [
    { type: 'diff', path: '<b>x</b>.js', oldText: 'one\ntwo', newText: 'one\n<script>window.owned=10</script>' },
    { type: 'content', content: { type: 'text', text: '<iframe src=https://evil.example></iframe>' } },
    { type: 'content', content: { type: 'image', mimeType: 'image/svg+xml', data: btoa('<svg onload="alert(1)"/>') } },
    { type: 'content', content: { type: 'image', mimeType: 'image/png"onerror="x', data: 'AAAA' } },
    { type: 'content', content: { type: 'resource_link', name: EVIL_TITLE, uri: 'javascript:window.owned=11' } },
  ],
};

/** Nothing of this is what it should be. */
const MALFORMED = [
  { sessionUpdate: 'plan', entries: 'none' }, { sessionUpdate: 'plan', entries: [null, 1, { content: { toString: 1 } }] },
  { sessionUpdate: 'available_commands_update', availableCommands: 'none' },
  { sessionUpdate: 'config_option_update', configOptions: [null, { id: 'x', name: 1, options: 'none' }] },
  { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: { toString: 1 } } },
  { sessionUpdate: 'tool_call', toolCallId: 'odd', title: 1, locations: 'none', content: [null, 1,
    { type: 'diff', path: 1, oldText: {}, newText: 1 }, { type: 'content', content: 1 }] },
  { sessionUpdate: 'tool_call', toolCallId: 'odder', title: 'odder', rawInput: null, status: { toString: 1 } },
];

await run({
  async 'Markdown that is long or strange keeps its structure'() {
    await live(page);
    const found = await page.evaluate(async () => {
      const { Blocks, markdown } = await import(document.querySelector('link[href$="/markdown.js"]').href);
      const gap = ' '.repeat(100000);
      const strange = [`# a${gap}b`, `# ${gap}a\u2028b`, `\`\`\`${gap}\``, `${'~'.repeat(100000)}\``, `- ${gap}\u2028`,
        `[a](${gap}x`, `[a](b${gap}"c`, `a${'`'.repeat(100000)}`, '['.repeat(100000)];
      const kinds = (nodes) => [...new Set(nodes.filter(Boolean).map((node) => node.type))].join();
      const words = (node) => (Array.isArray(node) ? node.map(words).join(' ') : node?.props ? words(node.props.children) : node ?? '');
      const numbers = (nodes) => words(nodes).match(/\bn\d+/g).map((one) => Number(one.slice(1)));
      const lines = (begin, end = '') => Array.from({ length: 20000 }, (_, index) => `${begin}n${index}${end}`).join('\n');
      const grown = (text) => {
        const blocks = new Blocks();
        for (let end = 0; end < text.length; end += 4999) blocks.grow(text.slice(0, end));
        return blocks.grow(text);
      };
      const long = [lines('- '), lines('> '), `a|b\n-|-\n${lines('', '|x')}`, `\`\`\`\n${lines('')}\n\`\`\``, lines('')];
      return {
        strange: strange.map((text) => kinds(markdown(text))),
        headings: ['# a #', '# C#', '## ', '#'].map((text) => `${kinds(markdown(text))} ${words(markdown(text))}`.trim()),
        long: long.map((text) => [markdown(text), grown(text)].map((nodes) => {
          const all = numbers(nodes);
          return `${kinds(nodes)} ${all.length} ${all.every((number, index) => number === index)}`;
        })),
      };
    });
    same(found.strange, ['p', 'p', 'p', 'p', 'p', 'p', 'p', 'p', 'p'], 'plain text');
    same(found.headings, ['h3 a', 'h3 C#', 'h4', 'p #'], 'headings');
    same(found.long, ['ul', 'blockquote', 'div,p', 'pre', 'p'].map((kind) => Array(2).fill(`${kind} 20000 true`)), 'all is shown once');
  },
  async 'a first answer streams within three clicks'() {
    await live(page);
    let clicks = 0;
    await page.click('#message');
    clicks += 1;
    await page.keyboard.type('/count 400 delay=20\nHello **world**, see `code`');
    await page.click('.send');
    clicks += 1;
    await hears(page, 'chunk 5 of 400');
    check((await chunks(page)).length < 400, 'it streams', await said(page));
    check((await state(page)) === 'working', 'it works', await state(page));
    await idle(page);
    same(await chunks(page), upto(400), 'each chunk once');
    check(clicks <= 3, 'clicks', clicks);
    same(await page.$$eval('.agent strong, .agent code', (all) => all.map((it) => it.innerText)), ['world', 'code'], 'Markdown');
  },
  async 'thoughts, plans and tools are shown'() {
    await send(page, '/title A first session\n/think\n/plan\n/tool\n/usage\n/commands\nThat was all');
    await hears(page, 'That was all');
    await idle(page);
    for (const kind of ['thought', 'plan', 'tool']) check(await page.$(`.item.${kind}`), kind);
    check((await page.innerText('.head h1')) === 'A first session', 'title', await page.innerText('.head h1'));
    check((await page.innerText('.usage')).includes('of'), 'usage');
  },
  async 'a permission is answered by a key'() {
    await send(page, '/permission\nThank you');
    await page.waitForSelector('.question');
    check((await page.title()).startsWith('(1) '), 'the title tells', await page.title());
    check((await state(page)) === 'waiting', 'it waits', await state(page));
    await accessible(page, 'question');
    await page.focus('.question button');
    await page.keyboard.press('1');
    await hears(page, 'permission allow_once');
    await idle(page);
    check(!(await page.$('.question')), 'no question is left');
    check(!(await page.title()).startsWith('('), 'nor in the title', await page.title());
  },
  async 'a form is filled in'() {
    await send(page, '/elicit');
    await page.waitForSelector('form.question input');
    await page.fill('form.question input', 'Ada');
    await page.click('form.question button.primary');
    await hears(page, 'Ada');
    await idle(page);
  },
  async 'a prompt waits while a turn runs, and may be withdrawn'() {
    await send(page, '/permission\nfirst words');
    await page.waitForSelector('.question');
    check((await page.innerText('.send span')) === 'Queue', 'the button says so');
    await send(page, 'second words');
    await send(page, 'never said');
    await page.waitForFunction(() => document.querySelectorAll('.queued').length === 2);
    await page.click('.queued >> nth=1 >> button');
    await page.waitForFunction(() => document.querySelectorAll('.queued').length === 1);
    await page.click('.question [data-option="allow_once"]');
    await hears(page, 'second words');
    await idle(page);
    check(!(await said(page)).includes('never said'), 'withdrawn', await said(page));
  },
  async 'a turn is stopped'() {
    await send(page, '/count 3000 delay=20');
    await hears(page, 'chunk 3 of 3000');
    await page.focus('#message');
    await page.keyboard.press('Escape');
    await idle(page);
    check((await page.innerText('.item.end')).includes('Stopped'), 'it says so');
  },
  async 'modes and options are set'() {
    await page.selectOption('.choice:has-text("Mode") select', 'architect');
    await page.selectOption('.choice:has-text("Model") select', 'large');
    // It shows what the agent has, so it changes when the agent has answered.
    await page.click('.choice:has-text("Verbose") input');
    await page.waitForSelector('.choice:has-text("Verbose") input:checked');
    await page.reload();
    await idle(page);
    await page.waitForSelector('.choice:has-text("Model") select');
    check((await page.inputValue('.choice:has-text("Model") select')) === 'large', 'the model stays');
    check(await page.isChecked('.choice:has-text("Verbose") input'), 'the switch stays');
  },
  async 'commands are completed'() {
    await page.fill('#message', '/');
    await page.waitForSelector('.commands li');
    await page.keyboard.press('Escape');
    check(!(await page.$('.commands')), 'closed by Escape');
    await page.fill('#message', '');
  },
  async 'a reload in the middle of a turn goes on'() {
    await page.goto(url);
    await page.reload();
    await live(page);
    await send(page, '/count 400 delay=20');
    await hears(page, 'chunk 20 of 400');
    await page.reload();
    await hears(page, 'chunk 25 of 400');
    check((await state(page)) === 'working', 'it still works', await state(page));
    await idle(page);
    same(await chunks(page), upto(400), 'each chunk once');
  },
  async 'a cut by the page itself is healed'() {
    await send(page, '/count 300 delay=20');
    await hears(page, 'chunk 5 of 300');
    await page.click('.nav .tab-connection');
    await page.click('#cut');
    await page.waitForFunction(() => Number(document.getElementById('resumed').innerText) >= 1);
    await live(page);
    check((await page.innerText('#cursor')).length > 3, 'a cursor is shown');
    await accessible(page, 'connection');
    await page.click('.nav .tab-talk');
    await idle(page);
    same((await chunks(page)).slice(-300), upto(300), 'each chunk once');
  },
  async 'hostile words stay words'() {
    await page.goto(url);
    await page.reload();
    await live(page);
    await page.click('.send', { trial: true }).catch(() => {});
    await send(page, [...HOSTILE, `/update ${JSON.stringify(TOOL)}`, `/title ${EVIL_TITLE}`, 'the end'].join('\n'));
    await hears(page, 'the end');
    await idle(page);
    await page.$$eval('details', (all) => all.forEach((one) => { one.open = true; }));
    // What would load or run has had its chance when two frames were painted and a task has run.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))));
    const found = await page.evaluate(() => ({
      owned: window.owned ?? null,
      strange: [...document.querySelectorAll('#app script, #app iframe, #app object, #app embed, #app img, #app svg[onload]')].map((it) => it.outerHTML),
      links: [...document.querySelectorAll('.item a')].map((it) => [it.protocol, it.target, it.rel.includes('noopener') && it.rel.includes('noreferrer')]),
      handlers: [...document.querySelectorAll('#app *')].flatMap((it) => [...it.attributes]).filter((it) => it.name.startsWith('on')).length,
      title: document.title,
    }));
    check(found.owned === null, 'nothing runs', found.owned);
    same(found.strange, [], 'no element that loads or runs');
    check(found.handlers === 0, 'no handlers in attributes', found.handlers);
    check(found.links.length > 0 && found.links.every(([protocol, target, safe]) => /^(https?|mailto):$/.test(protocol)
      && target === '_blank' && safe), 'links', found.links);
    check((await page.innerText('.tool-title')).startsWith(EVIL_TITLE), 'a title is text', await page.innerText('.tool-title'));
    check(!(await said(page)).includes('\u001b'), 'no escapes');
    await accessible(page, 'hostile');
  },
  async 'what is malformed does not take the page with it'() {
    await page.goto(`${url}#/s/%`);
    await page.reload();
    await live(page);
    await send(page, [...MALFORMED.map((update) => `/update ${JSON.stringify(update)}`), 'still here'].join('\n'));
    await hears(page, 'still here');
    await idle(page);
    check(await page.$('.item.tool'), 'what can be shown is shown');
    same(await page.$$eval('.unshown', (all) => all.length), 1, 'what cannot is told');
    for (const view of ['inbox', 'connection', 'talk']) await page.click(`.nav .tab-${view}`);
    await send(page, 'and it goes on');
    await hears(page, 'and it goes on');
    await idle(page);
  },
  async 'nothing was asked of others, and little of the gateway'() {
    const hosts = new Set(requested.map((one) => new URL(one).host));
    same([...hosts], [new URL(url).host], 'hosts');
    const fresh = await visitor();
    const again = await open(fresh);
    await live(again);
    const sizes = await again.evaluate(() => performance.getEntriesByType('resource')
      .filter((one) => one.name.includes('/console/')).map((one) => one.encodedBodySize));
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const paint = await again.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
    console.log(`assets: ${sizes.length} files, ${total} bytes compressed; first paint after ${Math.round(paint)} ms`);
    check(total > 10000 && total < 150000, 'the budget', total);
    // Once more they come from the browser itself.
    const before = requested.length;
    await again.reload();
    await live(again);
    const cached = await again.evaluate(() => performance.getEntriesByType('resource')
      .filter((one) => one.name.includes('/console/')).map((one) => one.transferSize));
    check(cached.every((size) => size === 0), 'kept', [cached, requested.length - before]);
    check(faults.length === 0, 'faults', faults);
    await fresh.close();
  },
});
