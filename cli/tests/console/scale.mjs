// Many sessions, long histories, fast agents.
import { accessible, hears, idle, live, open, run, same, chunks, send, upto, url, visitor } from './browser.mjs';

const page = await open(await visitor());

await run({
  async 'a hundred sessions are listed and searched'() {
    await live(page);
    await page.evaluate(async (base) => {
      const { BatonClient } = await import(`${base}console/baton-client.js`);
      const client = new BatonClient();
      const ready = new Promise((done) => client.addEventListener('state', () => client.state === 'live' && done()));
      client.open();
      await ready;
      for (let number = 0; number < 100; number += 10) {
        await Promise.all(Array.from({ length: 10 }, async (_, index) => {
          const params = { cwd: `/tmp/project-${number + index}`, mcpServers: [] };
          const { sessionId } = await client.request('session/new', params);
          const prompt = [{ type: 'text', text: `/title Task number ${number + index}` }];
          await client.request('session/prompt', { sessionId, prompt });
        }));
      }
      client.close();
    }, url);
    await page.reload();
    await live(page);
    await page.waitForFunction(() => document.querySelectorAll('.side .entry').length >= 50);
    await page.click('.side .more');
    await page.waitForFunction(() => document.querySelectorAll('.side .entry').length >= 100);
    await page.fill('#search-side', 'number 42');
    await page.waitForFunction(() => document.querySelectorAll('.side .entry').length === 1);
    await page.fill('#search-side', 'project-7');
    await page.waitForFunction(() => document.querySelectorAll('.side .entry').length === 11);
    await accessible(page, 'sessions');
  },
  async 'a history of ten thousand events opens'() {
    const update = (value) => `/update ${JSON.stringify(value)}`;
    const step = (id) => [update({ sessionUpdate: 'tool_call', toolCallId: id, title: `Step ${id}`, status: 'in_progress' }),
      update({ sessionUpdate: 'tool_call_update', toolCallId: id, status: 'completed' }), `step ${id} is done`].join('\n');
    const prompts = Array.from({ length: 4 }, (_, turn) => Array.from({ length: 500 }, (_, at) => step(`${turn}-${at}`)).join('\n'));
    const session = await page.evaluate(async ([base, texts]) => {
      const { BatonClient } = await import(`${base}console/baton-client.js`);
      const client = new BatonClient();
      const ready = new Promise((done) => client.addEventListener('state', () => client.state === 'live' && done()));
      client.open();
      await ready;
      const { sessionId } = await client.request('session/new', { cwd: '/tmp', mcpServers: [] });
      for (const text of texts) {
        await client.request('session/prompt', { sessionId, prompt: [{ type: 'text', text }] });
      }
      client.close();
      return sessionId;
    }, [url, prompts]);
    const begun = Date.now();
    await page.goto(`${url}#/s/${session}`);
    await idle(page);
    await page.waitForFunction(() => document.querySelectorAll('.item.tool').length >= 2000, null, { timeout: 45000 });
    const opened = Date.now() - begun;
    const frames = await page.evaluate(async () => {
      const box = document.querySelector('.scroll');
      const times = [];
      for (let step = 0; step < 60; step += 1) {
        const at = performance.now();
        box.scrollTop = (box.scrollHeight * step) / 60;
        await new Promise((done) => requestAnimationFrame(done));
        times.push(performance.now() - at);
      }
      return times.sort((a, b) => a - b);
    });
    console.log(`12,000 events: opened in ${opened} ms; a scrolled frame takes ${Math.round(frames[30])} ms (median), ${Math.round(frames[56])} ms (p95)`);
  },
  async 'twenty thousand chunks are shown, and cost little'() {
    await page.goto(url);
    await page.reload();
    await live(page);
    const session = await page.context().newCDPSession(page);
    await session.send('HeapProfiler.enable');
    const heap = async () => {
      await session.send('HeapProfiler.collectGarbage');
      return (await session.send('Runtime.getHeapUsage')).usedSize / 1e6;
    };
    const before = await heap();
    await send(page, '/count 20000');
    await hears(page, 'chunk 20000 of 20000');
    await idle(page);
    const after = await heap();
    same(await chunks(page), upto(20000), 'each chunk once');
    console.log(`20,000 chunks: ${Math.round(before)} MB of heap before, ${Math.round(after)} MB after`);
    await session.send('Performance.enable');
    const busy = async () => {
      const { metrics } = await session.send('Performance.getMetrics');
      const value = (name) => metrics.find((metric) => metric.name === name).value;
      return [value('TaskDuration'), value('Timestamp')];
    };
    await page.click('.side .new');
    await page.waitForSelector('.welcome');
    await send(page, '/count 600 delay=10');
    await hears(page, 'chunk 50 of 600');
    const [work, at] = await busy();
    await hears(page, 'chunk 550 of 600');
    const [worked, then] = await busy();
    console.log(`100 events a second: the page is busy for ${Math.round((100 * (worked - work)) / (then - at))} % of the time`);
    await idle(page);
  },
});
