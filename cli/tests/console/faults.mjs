// Gateways and workers are killed while a turn streams. The page is behind a balancer.
import { ask, check, chunks, hears, idle, live, open, picture, run, same, send, state, upto, visitor } from './browser.mjs';

const context = await visitor();
const page = await open(context);
const COUNT = 300;

const times = (count) => Array.from({ length: count }, () => upto(COUNT)).flat();
const connection = () => page.$eval('.brand .pill', (pill) => pill.dataset.connection);

/** Every state that the page has shown. */
await page.evaluate(() => {
  window.shown = [];
  new MutationObserver(() => {
    const state = document.querySelector('.brand .pill')?.dataset.connection;
    if (state && window.shown.at(-1) !== state) window.shown.push(state);
  }).observe(document.body, { subtree: true, attributes: true, childList: true, attributeFilter: ['data-connection'] });
});
const shown = () => page.evaluate(() => window.shown.splice(0));

await run({
  async 'a gateway that is killed is not missed'() {
    await live(page);
    await send(page, `/count ${COUNT} delay=20`);
    await hears(page, `chunk 30 of ${COUNT}`);
    await shown();
    await ask('kill the gateway');
    await page.waitForFunction(() => window.shown.includes('reconnecting'));
    await live(page);
    await idle(page);
    same(await chunks(page), times(1), 'each chunk once');
    check((await shown()).includes('live'), 'the state is told');
  },
  async 'workers that are killed are not missed'() {
    await send(page, `/count ${COUNT} delay=20`);
    await hears(page, `chunk ${COUNT} of ${COUNT}`);
    await page.waitForFunction(() => /chunk 30 of/.test([...document.querySelectorAll('.item.agent')].at(-1).textContent));
    await ask('kill the workers');
    check((await connection()) === 'live', 'the connection lives', await connection());
    check((await state(page)) === 'working', 'the turn runs', await state(page));
    await idle(page);
    same(await chunks(page), times(2), 'each chunk once');
  },
  async 'a gateway that stops in order says so'() {
    await shown();
    await ask('stop the gateway');
    await page.waitForFunction(() => window.shown.includes('draining') || window.shown.includes('reconnecting'));
    await live(page);
    check((await shown()).includes('draining'), 'draining is told', await shown());
  },
  async 'without a network the page says so, and goes on when it is back'() {
    await send(page, `/count ${COUNT} delay=20`);
    await page.waitForFunction(() => document.querySelectorAll('.item.user').length === 3);
    await page.waitForFunction(() => /chunk 10 of/.test([...document.querySelectorAll('.item.agent')].at(-1).textContent));
    const witness = await open(await visitor(), await page.evaluate(() => location.hash));
    await hears(witness, 'chunk 10 of');
    await context.setOffline(true);
    await page.waitForSelector('.brand .pill[data-connection="away"]');
    await picture(page, 'away');
    // Somebody else sees its end.
    await idle(witness);
    await context.setOffline(false);
    await live(page);
    await idle(page);
    same(await chunks(page), times(3), 'each chunk once');
  },
  async 'a reload shows it all once'() {
    await page.reload();
    await idle(page);
    same(await chunks(page), times(3), 'each chunk once');
  },
});
