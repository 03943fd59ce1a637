// Logins at the page of an identity provider, two gateways behind round robin.
import { accessible, check, faults, hears, idle, live, open, picture, run, same, send, url, visitor } from './browser.mjs';

const issuer = process.env.KEY;
const provider = new URL(issuer).host;
const callback = `${url}v1/login/oidc/callback`;
const people = () => visitor({ others: [provider] });
const ada = await people();
const page = await open(ada);

/** What the provider's own page asks for. */
async function logIn(on, name) {
  await on.waitForURL(`${issuer}/**`);
  await on.fill('input[name="login"]', name);
  await on.fill('input[name="password"]', 'anything');
  await on.click('button[type="submit"]');
  await on.waitForSelector('form input[value="consent"]', { state: 'attached' });
  await on.click('button[type="submit"]');
}

const fault = (on) => on.waitForFunction(() => document.getElementById('key-error')?.innerText || false).then((it) => it.jsonValue());
const names = async (context) => (await context.cookies(url)).map(({ name }) => name).filter((name) => name.startsWith('__Host-baton'));

/** Where the provider would send this browser back to with a code, which nobody has redeemed. */
async function unredeemed(context, on, name) {
  await on.waitForSelector('#provider');
  await on.click('#provider');
  await on.waitForURL(`${issuer}/**`);
  await on.fill('input[name="login"]', name);
  await on.fill('input[name="password"]', 'anything');
  await on.click('button[type="submit"]');
  await on.waitForSelector('form input[value="consent"]', { state: 'attached' });
  const form = await on.$eval('form', ({ action }) => action);
  let answer = await context.request.post(form, { form: { prompt: 'consent' }, maxRedirects: 0 });
  for (;;) {
    const next = new URL(answer.headers().location, issuer).href;
    if (next.startsWith(callback)) return next;
    answer = await context.request.get(next, { maxRedirects: 0 });
  }
}

let used = '';

await run({
  async 'somebody logs in at the provider and comes back to where he was'() {
    await page.goto(`${url}#/inbox`);
    await page.reload();
    await page.waitForSelector('#provider');
    await accessible(page, 'login at a provider');
    await picture(page, 'login-provider-light');
    ada.on('request', (request) => {
      if (request.url().startsWith(callback)) used = request.url();
    });
    await page.click('#provider');
    await logIn(page, 'ada');
    await page.waitForURL((at) => at.href === `${url}#/inbox`);
    await live(page);
    const found = await page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, location.href]));
    check(!found.includes('eyJ') && !found.includes('code='), 'nothing of it is where scripts can read', found);
    const [cookie, ...rest] = (await ada.cookies(url)).filter(({ name }) => name.startsWith('__Host-baton'));
    check(rest.length === 0 && cookie.httpOnly && cookie.secure && cookie.sameSite === 'Strict', 'one cookie', [cookie.name, rest]);
    await page.click('.nav .tab-talk');
    await send(page, 'Hello Ada');
    await hears(page, 'Hello Ada');
    await idle(page);
  },
  async 'an answer counts once, and in the browser that asked'() {
    check(used.includes('code='), 'the answer was seen', used);
    // Once more in the same browser: it has no attempt under way.
    const again = await open(ada);
    await again.goto(used);
    await again.waitForURL(`${url}#/login/expired`);
    await live(again);
    await again.close();
    // Somebody else's browser is not logged in as Ada by her link, nor by one with a fresh code of hers.
    const mallory = await people();
    const his = await open(mallory);
    const fresh = await unredeemed(mallory, his, 'mallory');
    const bob = await people();
    const hers = await open(bob);
    for (const link of [used, fresh]) {
      await hers.goto(link);
      await hers.waitForURL(`${url}#/login/expired`);
      check((await fault(hers)).includes('another browser'), 'it says why');
      same(await names(bob), [], 'no cookie');
    }
    // Neither while she is about to log in herself: her own attempt goes on.
    await hers.click('#provider');
    await hers.waitForURL(`${issuer}/**`);
    const second = await bob.newPage();
    await second.goto(fresh);
    await second.waitForURL(`${url}#/login/expired`);
    same(await names(bob), ['__Host-baton-attempt'], 'the attempt is still there');
    await second.close();
    await logIn(hers, 'bob');
    await live(hers);
    check(!(await hers.content()).includes('Hello Ada'), 'she sees nothing of Ada');
    await bob.close();
    await mallory.close();
  },
  async 'an attempt is good for one answer'() {
    const carol = await people();
    const tab = await open(carol);
    const fresh = await unredeemed(carol, tab, 'carol');
    const kept = await carol.cookies(url);
    await tab.goto(fresh);
    await live(tab);
    // The same cookie and the same code once more: the provider refuses the code.
    await carol.addCookies(kept);
    await tab.goto(fresh);
    await tab.waitForURL(`${url}#/login/denied`);
    await carol.close();
  },
  async 'a code of another client, and a made up one, are refused'() {
    const dave = await people();
    const tab = await open(dave);
    const fresh = new URL(await unredeemed(dave, tab, 'dave'));
    const kept = await dave.cookies(url);
    for (const [name, value, reason] of [['code', 'made-up', 'denied'], ['iss', 'https://evil.example', 'provider'],
      ['state', 'x'.repeat(22), 'expired'], ['state', '', 'expired']]) {
      await dave.addCookies(kept);
      const wrong = new URL(fresh);
      wrong.searchParams.set(name, value);
      await tab.goto(wrong.href);
      await tab.waitForURL(`${url}#/login/${reason}`);
      check(!(await names(dave)).includes('__Host-baton-login'), `${name} ${value.slice(0, 30)}`);
    }
    // The provider sends a code of the other client, with the state of this attempt.
    await dave.addCookies(kept);
    await tab.goto(url);
    await dave.clearCookies({ name: '__Host-baton-attempt' });
    await dave.route(`${issuer}/auth?**`, (route) => {
      const asked = new URL(route.request().url());
      asked.searchParams.set('client_id', 'somebody-else');
      return route.continue({ url: asked.href });
    });
    await tab.waitForSelector('#provider');
    await tab.click('#provider');
    // Who it is the provider knows by now.
    await tab.waitForSelector('form input[value="consent"]', { state: 'attached' });
    await tab.click('button[type="submit"]');
    await tab.waitForURL(`${url}#/login/denied`);
    await dave.close();
  },
  async 'who is led away is led back to the page, wherever the link says'() {
    const erin = await people();
    const tab = await open(erin);
    const fresh = new URL(await unredeemed(erin, tab, 'erin'));
    for (const name of ['return', 'redirect_uri', 'next', 'target_link_uri']) fresh.searchParams.set(name, 'https://evil.example/');
    await tab.goto(fresh.href);
    await live(tab);
    check(tab.url().startsWith(url), 'where it is', tab.url());
    await erin.close();
  },
  async 'somebody who says no is told so'() {
    const frank = await people();
    const tab = await open(frank);
    await tab.waitForSelector('#provider');
    await tab.click('#provider');
    await tab.waitForURL(`${issuer}/**`);
    await tab.click('a[href$="/abort"]');
    await tab.waitForURL(`${url}#/login/denied`);
    check((await fault(tab)).includes('refused'), 'it says so');
    await frank.close();
  },
  async 'a logout ends it, and the next login is asked for again'() {
    await page.click('.nav .tab-connection');
    await page.click('#logout');
    await page.waitForSelector('#provider');
    same(await names(ada), [], 'no cookie is left');
    check(!(await page.content()).includes('Hello Ada'), 'nothing is left');
    check(faults.length === 0, 'faults', faults);
  },
});
