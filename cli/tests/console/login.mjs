// A gateway that asks for keys.
import { accessible, check, hears, idle, open, picture, run, send, url, visitor, live } from './browser.mjs';

const key = process.env.KEY;
const context = await visitor();
const page = await open(context);

await run({
  async 'a wrong key is refused'() {
    await page.waitForSelector('#key');
    await accessible(page, 'login');
    await picture(page, 'login-light');
    await page.fill('#key', 'wrong');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.getElementById('key-error').innerText !== '');
  },
  async 'a good key lets in, and no script can read it'() {
    await page.fill('#key', key);
    await page.keyboard.press('Enter');
    await live(page);
    await send(page, 'Hello');
    await hears(page, 'Hello');
    await idle(page);
    const kept = await page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, location.href]));
    check(!kept.includes(key) && !kept.includes('eyJ'), 'nothing is kept where scripts can read', kept);
    const [cookie] = await context.cookies(url);
    check(cookie.httpOnly && cookie.secure && cookie.sameSite === 'Strict', 'the cookie', cookie);
  },
  async 'a reload and another tab are still logged in'() {
    await page.reload();
    await hears(page, 'Hello');
    const other = await open(context);
    await live(other);
    await other.close();
  },
  async 'a logout ends it everywhere'() {
    const other = await open(context);
    await live(other);
    await page.click('.nav .tab-connection');
    await page.click('#logout');
    await page.waitForSelector('#key');
    await other.waitForSelector('#key');
    check((await context.cookies(url)).length === 0, 'the cookie is gone');
    check(!(await page.content()).includes('Hello'), 'nothing of it is left on the page');
  },
});
