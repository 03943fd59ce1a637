// What it looks like, in light and dark, on a desk and on a phone. The pictures of the guide are from here.
import { accessible, check, live, open, picture, run, send, url, visitor } from './browser.mjs';

const page = await open(await visitor());

const ANSWER = `I **rename** \`parser\` to \`reader\`, and whoever imports it:

1. move the file
2. fix the imports, as in [the guide](https://example.com/)

| file | lines |
|---|---|
| \`src/lib.rs\` | 1 |
| \`src/main.rs\` | 2 |
`;
const EDIT = {
  sessionUpdate: 'tool_call', toolCallId: 'edit', title: 'Edit src/lib.rs', kind: 'edit', status: 'completed',
  content: [{
    type: 'diff', path: 'src/lib.rs',
    oldText: 'mod store;\nmod parser;\nmod token;', newText: 'mod store;\nmod reader;\nmod token;',
  }],
};

const OTHERS = [
  ['/srv/shop', '/title Why is checkout slow?\n/count 3000 delay=50'], ['/srv/shop', '/title Upgrade to PostgreSQL 18\n/permission'],
  ['/srv/docs', '/title Release notes for 4.2'], ['/srv/docs', '/title Spelling of the tutorial'],
  ['/home/ada/api', '/title Flaky test in the queue'], ['/home/ada/api', '/title Rate limits per tenant'],
];

await run({
  async 'sessions of others are there'() {
    await live(page);
    await page.evaluate(async ([base, others]) => {
      const { BatonClient } = await import(`${base}console/baton-client.js`);
      const client = new BatonClient();
      const ready = new Promise((done) => client.addEventListener('state', () => client.state === 'live' && done()));
      client.open();
      await ready;
      for (const [cwd, text] of others.reverse()) {
        const { sessionId } = await client.request('session/new', { cwd, mcpServers: [] });
        const answer = client.request('session/prompt', { sessionId, prompt: [{ type: 'text', text }] });
        if (!/delay|permission/.test(text)) await answer;
      }
    }, [url, OTHERS]);
    await page.reload();
    await live(page);
    await page.waitForSelector('.side .mark[data-state="working"]');
    await page.waitForSelector('.side .mark[data-state="waiting"]');
  },
  async 'it looks as it should, and everybody can use it'() {
    await accessible(page, 'welcome');
    await picture(page, 'welcome-light');
    await page.click('.side .new');
    const update = (value) => `/update ${JSON.stringify(value)}`;
    const words = (kind, text) => update({ sessionUpdate: kind, content: { type: 'text', text } });
    await send(page, ['/title Rename the parser module', words('user_message_chunk', 'Rename the parser module to reader.'),
      '/think', '/plan', '/usage', words('agent_message_chunk', ANSWER), update(EDIT), '/permission'].join('\n'));
    await page.waitForSelector('.question');
    await page.click('.tool >> nth=0 >> summary');
    await page.$eval('.scroll', (box) => { box.scrollTop = box.scrollHeight; });
    for (const scheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: scheme });
      await accessible(page, `talk, ${scheme}`);
      await picture(page, `talk-${scheme}`);
    }
    await page.setViewportSize({ width: 390, height: 844 });
    for (const scheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.$eval('.scroll', (box) => { box.scrollTop = box.scrollHeight; });
      await picture(page, `phone-talk-${scheme}`);
      for (const view of ['sessions', 'inbox', 'connection']) {
        await page.click(`.nav .tab-${view}`);
        await accessible(page, `${view}, phone, ${scheme}`);
        await picture(page, `phone-${view}-${scheme}`);
      }
      await page.click('.nav .tab-talk');
      await page.waitForSelector('.question');
    }
    await page.setViewportSize({ width: 320, height: 600 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    check(wide <= 320, 'it fits into 320 pixels', wide);
    await page.evaluate(() => { document.documentElement.dir = 'rtl'; });
    check((await page.evaluate(() => document.documentElement.scrollWidth)) <= 320, 'also from right to left');
    await picture(page, 'phone-rtl');
  },
  async 'operators see their cluster and its last hour'() {
    const context = await visitor();
    const now = Math.floor(Date.now() / 1000);
    const hour = (figures) => Array.from({ length: 60 }, (_, index) => ({ at: Math.floor(now / 60) - 60 + index, gauges: {}, ...figures(index) }))
      // Nobody was there to count.
      .filter((_, index) => index < 20 || index > 24);
    const wave = (index, of) => Math.round(of * (1 + 0.4 * Math.sin(index / 6)) + ((index * 37) % 11) * (of / 60));
    const process = (name, rest) => ({ process: name, report: { version: '0.1.0', at: now, draining: false, ...rest } });
    const gateway = (name, draining) => process(name, {
      role: 'gateway', started: now - 86400, draining, counters: { resumes: 12, refused: 31 }, gauges: { streams: 214, queued: 2 },
      minutes: hour((index) => ({ counters: { messages: wave(index, 800), delivered: wave(index, 21000) },
        latencies: { delivery: [0.001, 0.005 + 0.002 * (index % 3)], request: [0.001, 0.01 + 0.005 * (index % 2)] } })),
      details: { top: { callers: [{ caller: 'key:ada', messages: 1320 }, { caller: 'jwt:9f86d081884c7d65', messages: 220 }],
        sessions: [{ session: '07a-abcdefghijklmnopqrstuv', caller: 'key:ada', messages: 320 }] } },
    });
    const worker = (name) => process(name, {
      role: 'worker', started: now - 18000, counters: { takeovers: 1 }, gauges: { slots: 32, sessions: 11, turns_running: 4 },
      minutes: hour((index) => ({ counters: { turns: wave(index, 20) }, latencies: { wait: [0.002, 0.05] } })),
      details: { agent: { name: 'coder', version: '1.4.2' } },
    });
    const processes = [gateway('gateway-a81Hs0Zx', false), gateway('gateway-b2Kd83mQ', true), worker('worker-kq82nsL0aPz1'), worker('worker-Zz91nsL0aPz1')];
    await context.route('**/v1/caller', (route) => route.fulfill({ json: { admin: true, observe: false, shared: null } }));
    await context.route('**/v1/operator/cluster', (route) => route.fulfill({ json: { gateway: 'gateway-a81Hs0Zx', processes, revocations: 3,
      agents: [{ name: 'coder', version: '1.4.2', workers: 2, waiting: 2 }], memory: [{ server: '', used: 412e6, limit: 2 ** 31 }] } }));
    const view = await open(context, '#/operators');
    await live(view);
    await view.waitForSelector('#processes');
    await view.setViewportSize({ width: 1280, height: 1000 });
    for (const scheme of ['light', 'dark']) {
      await view.emulateMedia({ colorScheme: scheme });
      await accessible(view, `operators, ${scheme}`);
      await picture(view, `operators-${scheme}`);
    }
    await view.setViewportSize({ width: 390, height: 844 });
    await picture(view, 'phone-operators-dark');
    for (const [width, height] of [[320, 600], [3840, 2160]]) {
      await view.setViewportSize({ width, height });
      const wide = await view.evaluate(() => document.documentElement.scrollWidth);
      check(wide <= width, `it fits into ${width} pixels`, wide);
    }
    await picture(view, 'operators-4k');
    await context.close();
  },
});
