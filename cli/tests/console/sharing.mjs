// Several pages: two tabs of one browser, another browser, and many sessions.
import fs from 'node:fs';
import { accessible, check, chunks, hears, idle, live, open, picture, run, said, same, send, state, upto, visitor } from './browser.mjs';

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
    await send(one, '/title Shared work\n/count 400 delay=20');
    await hears(one, 'chunk 3 of 400');
    two = await open(other, await here(one));
    await hears(two, 'chunk 10 of 400');
    check((await state(two)) === 'working', 'the other page knows it works', await state(two));
    await idle(two);
    await idle(one);
    same(await chunks(one), upto(400), 'each chunk once, here');
    same(await chunks(two), upto(400), 'each chunk once, there');
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
    await send(one, '/count 300 delay=20\n/permission');
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
  async 'a page without a network misses nothing, whoever writes meanwhile'() {
    await other.setOffline(true);
    await two.waitForSelector('.pill[data-connection="away"]', { state: 'attached' });
    await send(one, '/count 250 delay=20\nsaid while away');
    await hears(one, 'said while away');
    await idle(one);
    check(!(await said(two)).includes('said while away'), 'it could not know');
    check((await two.innerText('.pill >> nth=0')) === 'Offline', 'and says so');
    await other.setOffline(false);
    await hears(two, 'said while away');
    await idle(two);
    same((await chunks(two)).slice(-250), upto(250), 'each chunk once');
  },
  async 'a page that nobody looks at calls when a question waits'() {
    const away = await visitor({ permissions: ['notifications'] });
    await away.addInitScript(() => {
      window.called = [];
      window.Notification = class {
        static permission = 'default';

        static async requestPermission() { window.Notification.permission = 'granted'; }

        constructor(title) { window.called.push(title); }
      };
    });
    const page = await open(away);
    await live(page);
    await entry(page, 'Shared work').waitFor();
    await page.click('.nav .tab-inbox');
    await page.click('#notify');
    await page.waitForSelector('#notify', { state: 'detached' });
    await page.evaluate(() => Object.defineProperty(document, 'hidden', { value: true }));
    await send(one, '/permission\ncalled');
    await page.waitForFunction(() => window.called.length === 1);
    check((await page.evaluate(() => window.called[0])) === 'Shared work waits for you', 'it names the session');
    await one.click('.question [data-option="allow_once"]');
    await idle(one);
    await away.close();
  },
  async 'a session is exported'() {
    const download = one.waitForEvent('download');
    await one.click('.head-options .button');
    const file = await (await download).path();
    const lines = fs.readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
    check(lines.length > 400, 'its events are there', lines.length);
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
    await hears(one, 'chunk 400 of 400');
    await idle(one);
    same(await chunks(one), upto(400), 'its history');
    check((await said(one)).length < before, 'it ends with the first turn');
    await send(one, 'only in the child');
    await hears(one, 'only in the child');
    check(!(await said(two)).includes('only in the child'), 'the parent does not hear of it');
    check(await one.$('.side .entry[data-depth="1"]'), 'it stands below its parent');
  },
  async 'a session is deleted, unless that is undone'() {
    const count = () => one.locator('.side .entry').count();
    const had = await count();
    await one.hover('.side .entry[data-depth="1"]');
    await one.click('.side .entry[data-depth="1"] .remove');
    const left = (number) => one.waitForFunction((it) => document.querySelectorAll('.side .entry').length === it, number);
    await left(had - 1);
    await one.click('.toast button');
    await left(had);
    await one.hover('.side .entry[data-depth="1"]');
    await one.click('.side .entry[data-depth="1"] .remove');
    await one.waitForSelector('.toast button');
    await one.waitForSelector('.toast', { state: 'detached' });
    await one.reload();
    await live(one);
    await entry(one, 'Shared work').waitFor();
    await left(had - 1);
  },
});
