// A gateway that asks for keys.
import { accessible, check, hears, idle, open, picture, run, same, send, url, visitor, live } from './browser.mjs';

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
  async 'a login after a login begins with an empty page'() {
    const second = await open(context);
    await live(second);
    await second.evaluate(() => {
      window.before = true;
      localStorage.setItem('baton.cwd', '/of/somebody/else');
    });
    // The login is lost, and the connection says so when it comes back.
    await context.clearCookies();
    await second.click('.nav .tab-connection');
    await second.click('#cut');
    await second.waitForSelector('#key');
    await second.fill('#key', key);
    await second.keyboard.press('Enter');
    await second.waitForFunction(() => !window.before);
    await live(second);
    same(await second.evaluate(() => [location.hash, localStorage.getItem('baton.cwd')]), ['#/', null], 'nothing is left');
    await live(page);
    await second.close();
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
