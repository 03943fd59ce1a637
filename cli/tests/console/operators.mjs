// The operators' view, behind a balancer: any gateway answers for the whole cluster.
import { accessible, ask, check, faults, hears, idle, live, open, picture, run, send, visitor } from './browser.mjs';

const [key, other] = process.env.KEY.split(' ');
const admin = await visitor();
const page = await open(admin);
page.on('dialog', (dialog) => dialog.accept());
let guest;

async function logIn(on, secret) {
  await on.waitForSelector('#key');
  await on.fill('#key', secret);
  await on.keyboard.press('Enter');
  await live(on);
}

const rows = (role) => page.$$eval(`#processes [data-role="${role}"]`, (all) => all.map((row) => row.dataset.process));
const told = (words) => page.waitForFunction((text) => document.querySelector('.toasts')?.innerText.includes(text), words);

await run({
  async 'somebody else has no such view'() {
    const context = await visitor();
    guest = await open(context);
    await logIn(guest, other);
    await send(guest, '/count 20');
    await hears(guest, 'chunk 20 of 20');
    await idle(guest);
    check(!(await guest.$('.tab-operators')), 'no tab');
    await guest.evaluate(() => { location.hash = '#/operators'; });
    await guest.waitForSelector('#cut');
    check(!(await guest.$('#processes')), 'no view');
  },
  async 'an administrator sees all processes, and who uses them'() {
    await logIn(page, key);
    await page.click('.tab-operators');
    await page.waitForFunction(() => document.querySelectorAll('#processes tbody tr').length === 4);
    check((await rows('gateway')).length === 2 && (await rows('worker')).length === 2, 'two of each');
    await page.waitForSelector('#top-callers [data-caller="key:bob"]');
    await page.waitForSelector('#top-sessions tbody tr');
    check((await page.innerText('.tiles')).includes('MB'), 'memory of the store', await page.innerText('.tiles'));
    await accessible(page, 'operators');
    await picture(page, 'cluster-light');
    await page.emulateMedia({ colorScheme: 'dark' });
    await accessible(page, 'operators, dark');
    await picture(page, 'cluster-dark');
    await page.setViewportSize({ width: 390, height: 844 });
    await picture(page, 'phone-cluster-dark');
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    check(wide <= 390, 'it fits', wide);
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.emulateMedia({ colorScheme: 'light' });
  },
  async 'a worker is drained'() {
    const [first] = await rows('worker');
    await page.click(`#processes [data-process="${first}"] .drain`);
    await told('asked to end');
    await ask('a worker has ended');
    await page.waitForFunction((name) => !document.querySelector(`#processes [data-process="${name}"]`), first, { timeout: 45000 });
  },
  async 'a session is closed and a caller revoked'() {
    const [session] = await page.$$eval('#top-sessions tbody tr', (all) => all.map((row) => row.dataset.session));
    await page.click(`#top-sessions [data-session="${session}"] .close`);
    await told('is being closed');
    await page.click('#top-callers [data-caller="key:bob"] button');
    await told('was revoked');
    await guest.waitForSelector('#key');
    check(faults.length === 0, 'faults', faults);
  },
});
