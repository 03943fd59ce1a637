// Several pages: two tabs of one browser, another browser, and many sessions.
import { accessible, check, chunks, hears, idle, live, open, picture, run, said, same, send, state, upto, url, visitor } from './browser.mjs';

const first = await visitor();
const other = await visitor();
let one;
let two;

const here = (page) => page.evaluate(() => location.hash);
const entry = (page, name) => page.locator('.side .entry', { hasText: name });

await run({
  async 'both pages see one turn, and when it ends'() {
    one = await open(first);
    await live(one);
    await send(one, '/title Shared work\n/count 60 delay=30');
    await hears(one, 'chunk 3 of 60');
    two = await open(other, await here(one));
    await hears(two, 'chunk 10 of 60');
    check((await state(two)) === 'working', 'the other page knows it works', await state(two));
    await idle(two);
    await idle(one);
    same(await chunks(one), upto(60), 'each chunk once, here');
    same(await chunks(two), upto(60), 'each chunk once, there');
  },
  async 'a question that one page answers disappears in the other'() {
    await send(one, '/permission\nThank you');
    await one.waitForSelector('.question');
    await two.waitForSelector('.question');
    await two.click('.question [data-option="allow_once"]');
    await one.waitForSelector('.question', { state: 'detached' });
    await hears(one, 'permission allow_once');
    await idle(one);
    await idle(two);
    check(!(await two.$('.question')), 'no question is left');
    check(!(await one.title()).startsWith('('), 'nor a badge', await one.title());
  },
  async 'two tabs of one browser do the same, the other way round'() {
    const tab = await open(first, await here(one));
    await idle(tab);
    await send(tab, '/permission\nOnce more');
    await tab.waitForSelector('.question');
    await one.bringToFront();
    await one.waitForSelector('.question');
    await one.click('.question [data-option="reject_once"]');
    await tab.waitForSelector('.question', { state: 'detached' });
    await idle(one);
    await tab.close();
  },
  async 'the inbox has the question of another session, and answers it'() {
    await send(one, '/permission\nfrom the inbox');
    await one.waitForSelector('.question');
    await one.click('.side .new');
    await one.waitForSelector('.welcome');
    await one.click('.nav .tab-inbox');
    await one.waitForSelector('.waiting .question');
    await accessible(one, 'inbox');
    await picture(one, 'inbox-light');
    await one.click('.waiting [data-option="allow_once"]');
    await one.waitForSelector('.empty');
    await entry(one, 'Shared work').locator('a').click();
    await hears(one, 'from the inbox');
    await idle(one);
  },
  async 'a page that only lists a session knows that it works and waits'() {
    const third = await visitor();
    const page = await open(third);
    await live(page);
    await entry(page, 'Shared work').waitFor();
    await send(one, '/count 40 delay=30\n/permission');
    await page.waitForSelector('.side .mark[data-state="working"]');
    await page.waitForSelector('.side .mark[data-state="waiting"]');
    await page.click('.nav .tab-inbox');
    await page.click('.waiting button');
    await page.waitForSelector('.waiting .question');
    await page.click('.waiting [data-option="allow_once"]');
    await idle(one);
    await page.waitForSelector('.side .mark[data-state="waiting"]', { state: 'detached' });
    await third.close();
  },
  async 'a fork goes its own way from the turn that it was made of'() {
    const before = (await said(one)).length;
    await one.reload();
    await idle(one);
    const turns = await one.$$('.turn');
    check(turns.length > 3, 'there are turns', turns.length);
    await turns[0].hover();
    await (await turns[0].$('.turn-tools button')).click();
    await one.waitForFunction((hash) => location.hash !== hash, await here(two));
    await hears(one, 'chunk 60 of 60');
    await idle(one);
    same(await chunks(one), upto(60), 'its history');
    check((await said(one)).length < before, 'it ends with the first turn');
    await send(one, 'only in the child');
    await hears(one, 'only in the child');
    check(!(await said(two)).includes('only in the child'), 'the parent does not hear of it');
    check(await one.$('.side .entry[data-depth="1"]'), 'it stands below its parent');
  },
  async 'a session is deleted, unless that is undone'() {
    const count = () => one.locator('.side .entry').count();
    const had = await count();
    const name = await one.innerText('.side .entry[data-depth="1"] .title');
    await one.hover('.side .entry[data-depth="1"]');
    await one.click('.side .entry[data-depth="1"] .remove');
    check((await count()) === had - 1, 'it is gone from the list', name);
    await one.click('.toast button');
    check((await count()) === had, 'and back', name);
    await one.hover('.side .entry[data-depth="1"]');
    await one.click('.side .entry[data-depth="1"] .remove');
    await one.waitForSelector('.toast', { state: 'detached' });
    await one.reload();
    await live(one);
    await entry(one, 'Shared work').waitFor();
    await one.waitForFunction((left) => document.querySelectorAll('.side .entry').length === left, had - 1);
  },
  async 'a hundred sessions are listed and searched'() {
    await one.goto(url);
    await live(one);
    await one.evaluate(async (base) => {
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
    await one.reload();
    await live(one);
    await one.waitForFunction(() => document.querySelectorAll('.side .entry').length >= 50);
    await one.click('.side .more');
    await one.waitForFunction(() => document.querySelectorAll('.side .entry').length >= 100);
    await one.fill('#search-side', 'number 42');
    await one.waitForFunction(() => document.querySelectorAll('.side .entry').length === 1);
    await one.fill('#search-side', 'project-7');
    await one.waitForFunction(() => document.querySelectorAll('.side .entry').length === 11);
    await accessible(one, 'sessions');
  },
  async 'a history of ten thousand events opens'() {
    await one.goto(url);
    await one.reload();
    await live(one);
    const prompts = Array.from({ length: 4 }, () => Array.from({ length: 500 }, (_, number) => `/tool\nstep ${number}`).join('\n'));
    for (const prompt of prompts) await send(one, prompt);
    await one.waitForFunction(() => document.querySelectorAll('.queued').length === 0, null, { timeout: 45000 });
    await idle(one);
    await one.waitForFunction(() => document.querySelectorAll('.item.tool').length >= 2000, null, { timeout: 45000 });
    const begun = Date.now();
    await one.reload();
    await idle(one);
    await one.waitForFunction(() => document.querySelectorAll('.item.tool').length >= 2000, null, { timeout: 45000 });
    const opened = Date.now() - begun;
    const frames = await one.evaluate(async () => {
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
    console.log(`2,000 tool calls: opened in ${opened} ms; a scrolled frame takes ${Math.round(frames[30])} ms (median), ${Math.round(frames[56])} ms (p95)`);
  },
});
