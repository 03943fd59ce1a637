// `baton serve --demo`: a worker is killed from the page, and the turn goes on.
import { accessible, check, chunks, faults, hears, idle, live, open, picture, run, same, send, upto, visitor } from './browser.mjs';

const page = await open(await visitor());
const shown = (id) => page.innerText(`#${id}`);

await run({
  async 'a killed worker costs nothing but a pause'() {
    await live(page);
    await page.waitForSelector('.setup option', { state: 'attached' });
    await send(page, '/count 400 delay=25');
    await hears(page, 'chunk 20 of 400');
    await page.click('.tab-connection');
    await page.waitForFunction(() => !['not told', undefined].includes(document.getElementById('worker')?.innerText));
    check((await shown('gateway')).startsWith('gateway-'), 'the gateway has a name', await shown('gateway'));
    const first = await shown('worker');
    await page.waitForSelector('#token');
    check((await shown('token')).includes('control'), 'the token says what it is for', await shown('token'));
    await accessible(page, 'the connection panel');
    await picture(page, 'connection-demo-light');
    await page.click('#kill');
    await page.waitForFunction((name) => document.getElementById('worker')?.innerText.startsWith(name) === false, first, { timeout: 45000 });
    await page.click('.tab-talk');
    await hears(page, 'chunk 400 of 400');
    await idle(page);
    same(await chunks(page), upto(400), 'each chunk once');
  },
  async 'what was killed is there again, and operators see it'() {
    await page.click('.tab-operators');
    await page.waitForFunction(() => document.querySelectorAll('#processes [data-role="worker"]').length >= 2);
    await page.waitForFunction(() => /Takeovers\s*[1-9]/.test(document.querySelector('.tiles')?.innerText), null, { timeout: 45000 });
    check(faults.length === 0, 'faults', faults);
  },
});
