// A session that is shared by a link, and people who may only watch.
import { accessible, check, chunks, faults, hears, idle, live, open, picture, requested, run, said, same, send, upto, url, visitor } from './browser.mjs';

const [key, watcher] = process.env.KEY.split(' ');
const owner = await visitor();
const page = await open(owner);
let link = '';
let guest;
let room;
let own = 0;

async function logIn(on, secret) {
  await on.waitForSelector('#key');
  await on.fill('#key', secret);
  await on.keyboard.press('Enter');
  await live(on);
}

async function makeLink() {
  await page.click('#share');
  await page.click('#make-link');
  await page.waitForSelector('#link');
  const made = await page.inputValue('#link');
  await accessible(page, 'sharing');
  return made;
}

/** What a page gets that asks by itself. */
const asked = (on, path, method = 'GET', body = undefined, headers = {}) => on.evaluate(async (it) => {
  const response = await fetch(it.path, { method: it.method, body: it.body && JSON.stringify(it.body),
    headers: { 'Content-Type': 'application/json', ...it.headers } });
  return [response.status, response.headers.get('content-type')?.includes('event-stream') ? '' : await response.text()];
}, { path, method, body, headers });

await run({
  async 'an owner makes a link, which is in no request'() {
    await logIn(page, key);
    await send(page, '/title The shared one\n/think\n/tool\nsaid before');
    await hears(page, 'said before');
    await idle(page);
    own = await page.$$eval('.side .entry', (all) => all.length);
    link = await makeLink();
    await picture(page, 'share-light');
    check(link.startsWith(`${url}#/join/`), 'behind the #', link);
    await page.click('.sheet .last');
  },
  async 'a guest sees what was and what comes, and can write nothing'() {
    guest = await visitor();
    room = await guest.newPage();
    await room.goto(link);
    await hears(room, 'said before');
    check(!room.url().includes('join') && !room.url().includes('eyJ'), 'the address is clean', room.url());
    await send(page, '/count 200 delay=20');
    await hears(room, 'chunk 200 of 200');
    same(await chunks(room), upto(200), 'each chunk once');
    check(!(await room.$('#message')) && !(await room.$('.turn-tools')) && !(await room.$('.side')), 'nothing to write or choose');
    await accessible(room, 'a guest');
    await picture(room, 'guest-light');
    const kept = await room.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, history.length, location.href]));
    check(!kept.includes('eyJ'), 'no token where scripts can read', kept);
    check(!requested.some((one) => one.includes('join') || one.includes('eyJ')), 'nor in a request');
    const cookies = (await guest.cookies(url)).filter(({ name }) => name.startsWith('__Host-'));
    check(cookies.length === 2 && cookies.every((one) => one.httpOnly && one.secure && one.sameSite === 'Strict'), 'cookies', cookies);
  },
  async 'a cut and a reload miss nothing'() {
    await room.reload();
    await hears(room, 'chunk 200 of 200');
    await room.click('.nav .tab-connection');
    await send(page, '/count 300 delay=20');
    await room.waitForFunction(() => document.querySelectorAll('.events tbody tr').length > 5);
    await room.click('#cut');
    await room.waitForSelector('.pill[data-connection="live"]', { state: 'attached' });
    await room.click('.nav .tab-talk');
    await hears(room, 'chunk 300 of 300');
    same((await chunks(room)).slice(-300), upto(300), 'each chunk once');
    await idle(page);
  },
  async 'a guest reaches nothing else, and changes nothing'() {
    const session = room.url().split('/').at(-1);
    const json = (method, params) => ({ jsonrpc: '2.0', id: 9, method, params });
    const stream = { Accept: 'text/event-stream', 'Acp-Session-Id': session };
    const prompt = { sessionId: session, prompt: [{ type: 'text', text: 'written by a guest' }] };
    for (const [method, params] of [['session/prompt', prompt], ['session/cancel', { sessionId: session }], ['session/close', { sessionId: session }],
      ['session/delete', { sessionId: session }], ['session/fork', { sessionId: session, cwd: '/tmp' }]]) {
      await asked(room, '/acp', 'POST', json(method, params), stream);
    }
    for (const [path, method, body] of [[`/v1/sessions/${session}/export`, 'GET'], ['/v1/sessions/import', 'POST', {}],
      ['/v1/shares', 'POST', { sessionId: session, expiresIn: 3600 }], [`/v1/shares/${session}`, 'DELETE'], ['/v1/operator/cluster', 'GET']]) {
      const [status] = await asked(room, path, method, body);
      check([403, 404, 415].includes(status), `${method} ${path}`, status);
    }
    same(JSON.parse((await asked(room, '/v1/agents'))[1]).agents, [], 'no agents');
    same(JSON.parse((await asked(room, '/v1/caller'))[1]).shared, session, 'who it is');
    await page.reload();
    await hears(page, 'chunk 300 of 300');
    check(!(await said(page)).includes('written by a guest'), 'nothing was written');
    same(await page.$$eval('.side .entry', (all) => all.length), own, 'nor made');
    // A link lets nobody in who has the token and no page of the gateway.
    const elsewhere = await fetch(`${url}v1/shares/open`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ token: link.split('/').at(-1) }) });
    same(elsewhere.status, 403, 'from elsewhere');
  },
  async 'an owner ends all links, and the next one is good again'() {
    await page.click('#share');
    await page.click('#unshare');
    await room.waitForSelector('#key');
    await page.click('.sheet .last');
    const late = await open(await visitor());
    await late.goto(link);
    await late.waitForFunction(() => document.getElementById('key-error')?.innerText.includes('ended'));
    check(!(await late.content()).includes('said before'), 'nothing is shown');
    await late.context().close();
    const again = await makeLink();
    await page.click('.sheet .last');
    await room.goto(`${url}?again`);
    await room.goto(again);
    await hears(room, 'chunk 300 of 300');
    for (const forged of [`${again.slice(0, -4)}AAAA`, `${url}#/join/x`, `${url}#/join/`]) {
      const strange = await open(await visitor());
      await strange.goto(forged);
      await strange.waitForSelector('#key');
      await strange.context().close();
    }
    await guest.close();
  },
  async 'who may only watch is shown what there is, and no more'() {
    const eve = await visitor();
    const watching = await open(eve);
    await logIn(watching, watcher);
    await watching.waitForSelector('.side .entry');
    check(!(await watching.$('.side .new')) && !(await watching.$('.remove')), 'nothing to begin or delete');
    await watching.click('.side .entry a');
    await hears(watching, 'said before');
    check(!(await watching.$('#message')) && !(await watching.$('#share')), 'nothing to write');
    await send(page, '/count 100 delay=20');
    await hears(watching, 'chunk 100 of 100');
    await idle(page);
    await accessible(watching, 'a watcher');
    await eve.close();
    check(faults.length === 0, 'faults', faults);
  },
});
