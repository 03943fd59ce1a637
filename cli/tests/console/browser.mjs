// A real Chromium, and what every page of it is held to: no error, no violation of its policy, nothing
// asked of another host.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { chromium } from 'playwright-core';

const AXE = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const SWITCHES = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];

export const [url, folder, ...rest] = process.argv.slice(2);
/** What went wrong that nobody asked for. */
export const faults = [];
const seen = [];

export const browser = await chromium.launch({ executablePath: CHROMIUM, args: SWITCHES });

/** @param {object} [options] of Playwright's contexts. `others`: hosts that it may ask, too */
export async function visitor({ others = [], ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  await context.addInitScript(() => {
    window.violations = [];
    document.addEventListener('securitypolicyviolation', (event) => {
      window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  // CONSOLE=folder has the page's files read from there: they are changed without a build.
  if (process.env.CONSOLE) {
    await context.route(/\/console\/[0-9a-f]{16}\//, (route) => {
      const name = new URL(route.request().url()).pathname.split('/').slice(3).join('/');
      return route.fulfill({ path: path.join(process.env.CONSOLE, name) });
    });
  }
  context.on('request', (request) => {
    const target = new URL(request.url());
    if (['data:', 'blob:'].includes(target.protocol)) return;
    seen.push(request.url());
    // What their pages ask for is theirs to answer for.
    if (others.includes(target.host) || others.some((host) => referred(request) === host)) return;
    if (target.host !== new URL(url).host) faults.push(`asked ${request.url()}`);
    if (/token|eyJ|key=/i.test(target.search)) faults.push(`a credential in ${request.url()}`);
  });
  context.on('weberror', (error) => faults.push(`error ${error.error().stack}`));
  context.on('console', (message) => {
    // Chromium itself complains of what could not be reached, which tests cause.
    const text = message.text();
    const network = /net::ERR_|WebSocket connection to|Failed to load resource/.test(text);
    if (message.type() === 'error' && !network) faults.push(`console ${text}`);
  });
  return context;
}

function referred(request) {
  const referrer = request.headers().referer;
  return referrer ? new URL(referrer).host : '';
}

export async function open(context, hash = '') {
  const page = await context.newPage();
  await page.goto(`${url}${hash}`);
  return page;
}

export const live = (page) => page.waitForSelector('.pill[data-connection="live"]', { state: 'attached' });

export async function send(page, text) {
  await page.fill('#message', text);
  await page.keyboard.press('Control+Enter');
}

/** Everything the agent has said in the session that is open. */
export const said = (page) => page.$$eval('.item.agent', (items) => items.map((item) => item.textContent).join(' '));

export async function chunks(page) {
  const found = (await said(page)).matchAll(/chunk (\d+) of \d+/g);
  return [...found].map(([, number]) => Number(number));
}

export const state = (page) => page.$eval('.head .mark', (mark) => mark.dataset.state);
export const idle = (page) => page.waitForSelector('.head .mark[data-state="idle"]', { state: 'attached', timeout: 45000 });
export const hears = (page, text) => page.waitForFunction((words) => [...document.querySelectorAll('.item.agent')]
  .some((item) => item.textContent.includes(words)), text, { timeout: 45000 });

export function check(holds, what, shown) {
  if (!holds) throw new Error(`${what}: ${brief(shown)}`);
}

export function same(found, expected, what) {
  check(JSON.stringify(found) === JSON.stringify(expected), what, found);
}

export const upto = (count) => Array.from({ length: count }, (_, index) => index + 1);

/** What a reader with another sense or without a mouse would stumble over. */
export async function accessible(page, what) {
  // Not by a script element, which the page's policy forbids.
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ['violations'] }));
  for (const { id, impact, nodes } of violations) {
    if (!['serious', 'critical'].includes(impact)) continue;
    faults.push(`axe, ${what}: ${id} ${nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`)}`);
  }
}

export async function picture(page, name) {
  fs.mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: path.join(folder, `${name}.png`), animations: 'disabled' });
}

/** The test's other half does what it is told by such a line, and says so with a file. */
export async function ask(what) {
  console.log(`> ${what}`);
  const done = path.join(rest.at(-1), what.replaceAll(' ', '-'));
  while (!fs.existsSync(done)) await new Promise((resolve) => setTimeout(resolve, 20));
}

export async function run(checks) {
  let last = '';
  try {
    for (const [name, work] of Object.entries(checks)) {
      // CHECK=words runs those with these words in their name.
      if (process.env.CHECK && !name.includes(process.env.CHECK)) continue;
      last = name;
      const before = faults.length;
      await work();
      check(faults.length === before, 'faults', faults.slice(before));
      console.log(`ok ${name}`);
    }
    console.log('all passed');
  } catch (error) {
    console.log(`FAILED ${last}: ${error.stack}\n${faults.join('\n')}`);
    for (const context of browser.contexts()) {
      for (const [number, page] of context.pages().entries()) {
        await picture(page, `failed-${last}-${number}`).catch(() => {});
        console.log(await page.evaluate(() => `${location.hash}\n${document.body.innerText}`).catch(String));
      }
    }
    process.exitCode = 1;
  } finally {
    await browser.close();
  }
}

export const requested = seen;

/** The ends of what is long. */
function brief(shown) {
  const text = JSON.stringify(shown) ?? '';
  return text.length < 1000 ? text : `${text.slice(0, 300)} … ${text.slice(-600)}`;
}
