// Drives the console in a browser, and prints a line of TAP for each check.
//
// Environment: CONSOLE_URL, CHROMIUM, KEY_ADMIN and KEY_READER, HANDBOOK (a folder on the database
// server), NODE_MODULES (with playwright-core and axe-core), SHOTS (a folder for pictures, or
// none).
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const env = process.env;
const require = createRequire(`${env.NODE_MODULES}/`);
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const url = env.CONSOLE_URL;

let count = 0;
function ok(passed, name, detail) {
  count += 1;
  console.log(`${passed ? 'ok' : 'not ok'} ${count} - ${name}`);
  if (!passed && detail !== undefined) console.log(`# ${String(detail).replaceAll('\n', '\n# ')}`);
}
const is = (got, wanted, name) => ok(got === wanted, name, `got ${got}, wanted ${wanted}`);

const browser = await chromium.launch({ executablePath: env.CHROMIUM, args: ['--no-sandbox'] });
const outside = [];
const faults = [];

async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(30000);
  page.on('request', (request) => {
    if (!request.url().startsWith(url)) outside.push(request.url());
  });
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => {
    // the page asks once without a key, if there is an anonymous role
    const text = message.text();
    if (message.type() === 'error' && !/status of (401|404)/.test(text)) faults.push(text);
  });
  page.on('dialog', (dialog) => {
    faults.push(`dialog ${dialog.message()}`);
    dialog.dismiss();
  });
  await page.goto(url);
  return page;
}

async function login(page, key) {
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('navigation', { name: 'Console' }).waitFor();
  return page;
}

async function go(page, name) {
  await page.getByRole('navigation', { name: 'Console' }).getByRole('link', { name }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
}

// Serious and critical findings of axe on a page.
async function audit(page, name) {
  while (await page.locator('.loading').count() > 0) await page.waitForTimeout(50);
  await page.waitForTimeout(300);
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const found = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
  ok(found.length === 0, `axe: ${name}`, found.map((one) =>
    `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html).join(' ')}`).join('\n'));
  if (env.SHOTS) {
    await page.screenshot({ path: `${env.SHOTS}/${name.replaceAll(' ', '-')}.png` });
  }
}

// -- log in
const page = await open();
await audit(page, 'login');
await page.getByLabel('API key').fill('rag_0000000000000000_wrong');
await page.getByRole('button', { name: 'Log in' }).click();
await page.getByRole('alert').waitFor();
ok(true, 'a wrong key is refused');
await login(page, env.KEY_ADMIN);
is(await page.evaluate(() => sessionStorage.getItem('rag-key') !== null), true,
  'the key is kept for the tab');
is(await page.evaluate((key) => JSON.stringify(localStorage).includes(key), env.KEY_ADMIN), false,
  '... and nowhere else');
await audit(page, 'overview');

// -- create a source, and watch its run
await go(page, 'Sources');
await page.getByRole('button', { name: 'New source' }).click();
const dialog = page.getByRole('dialog');
await dialog.getByLabel('Name *').fill('manual');
await dialog.getByLabel('path *').fill('/no/such/folder');
await dialog.getByRole('button', { name: 'Validate' }).click();
await dialog.getByText('/no/such/folder').first().waitFor();
ok(true, 'a definition is validated');
await audit(page, 'new source');
for (const kind of await dialog.getByRole('radio').all()) await kind.check();
ok(true, 'each kind has a form');
await dialog.getByRole('radio', { name: 'folder' }).check();
await dialog.getByLabel('path *').fill(env.HANDBOOK);
await dialog.getByRole('button', { name: 'Create' }).click();
await page.getByRole('heading', { level: 1, name: 'manual' }).waitFor();
ok(true, 'a source is created');
await page.getByRole('cell', { name: 'Completed' }).first().waitFor();
ok(true, 'its run is watched to the end');
await page.getByRole('button', { name: 'Suspend' }).click();
await page.getByText('The source is suspended.').waitFor();
await page.getByRole('button', { name: 'Resume' }).click();
await page.getByText('The source is resumed.').waitFor();
await page.getByRole('button', { name: 'Sync now' }).click();
await page.getByText('A run is queued.').waitFor();
ok(true, 'it is suspended, resumed and synced');
await audit(page, 'source');

// -- search
await go(page, 'Search');
await page.getByLabel('Query', { exact: true }).fill('how do I rotate the signing keys?');
await page.getByRole('button', { name: 'Search', exact: true }).click();
await page.locator('.result').first().waitFor();
ok(await page.locator('.result mark').count() > 0, 'words are marked');
ok(await page.locator('.result .score').count() > 1, 'results have both scores');
await page.getByRole('button', { name: 'Add a condition' }).click();
await page.getByLabel('Key 1').fill('owner');
await page.getByLabel('Value 1').fill('security');
await page.getByRole('button', { name: 'Search', exact: true }).click();
await page.getByText('1 result,').waitFor();
ok(true, 'a filter is applied');
await page.getByRole('button', { name: 'Remove condition 1' }).click();
await page.getByLabel('Compare two settings').check();
await page.getByLabel('Weights by the query').first().uncheck();
await page.getByLabel('Meaning against words').fill('0.2');
await page.getByRole('button', { name: 'Search', exact: true }).click();
await page.getByRole('heading', { name: 'Results B' }).waitFor();
ok(true, 'two settings are side by side');
await page.getByRole('button', { name: 'Explain' }).click();
await page.locator('.waterfall li').first().waitFor();
ok(await page.locator('.waterfall li').count() > 4, 'a search is explained');
await audit(page, 'search');

// -- a hostile document
await page.getByLabel('Compare two settings').uncheck();
await page.getByLabel('Query', { exact: true }).fill('poison');
await page.getByRole('button', { name: 'Search', exact: true }).click();
await page.getByRole('link', { name: '<script>window.hacked' }).first().waitFor();
await page.getByRole('link', { name: '<script>window.hacked' }).first().click();
await page.locator('.document').waitFor();
const text = await page.locator('.document').innerText();
ok(text.includes('<script>window.hacked = 1</script>'), 'a script is shown as text', text);
ok(text.includes('<img src=x onerror='), '... and so is an image');
is(await page.evaluate(() => typeof window.hacked), 'undefined', '... and nothing of it ran');
is(await page.locator('main script, main img, main iframe').count(), 0, '... or became an element');
is(await page.locator('a[href^="javascript:" i], a[href^="data:" i]').count(), 0,
  'no link runs a script');
ok(await page.locator('.piece').count() > 0, 'chunks are drawn on the text');
await audit(page, 'document');

// -- ask
await go(page, 'Ask');
await page.getByLabel('Question').fill('how often are keys rotated?');
await page.getByRole('button', { name: 'Ask', exact: true }).click();
await page.locator('.answer:not(.busy) .cite').first().waitFor();
ok(true, 'an answer has citations');
await audit(page, 'ask');
await page.locator('.cite').first().click();
await page.locator('.piece.chosen').first().waitFor();
ok(true, 'a citation opens the chunk');

// -- the other pages
for (const name of ['Documents', 'Indexes', 'Models', 'Overview']) {
  await go(page, name);
  await page.locator('main .card').first().waitFor();
  await audit(page, name.toLowerCase());
}
await go(page, 'Indexes');
await page.getByRole('link', { name: 'default', exact: true }).click();
await page.getByText('rag_bm25').first().waitFor();
ok(true, 'the indexes of a collection are listed');

// -- 1,000 sources
await go(page, 'Sources');
await page.getByRole('cell', { name: 'bulk1', exact: true }).waitFor();
await page.getByRole('button', { name: 'Next' }).click();
await page.getByText('Page 2').waitFor();
await page.getByLabel('Name').fill('bulk99');
await page.getByRole('cell', { name: 'bulk999', exact: true }).waitFor();
ok(true, 'of 1,000 sources one is found');
is(await page.locator('tbody tr').count(), 11, '... and only those with its name are shown');

// -- a phone, and the dark
await go(page, 'Overview');
const token = env.KEY_ADMIN;
const phone = await login(await open({ viewport: { width: 390, height: 844 } }), token);
for (const name of ['Overview', 'Sources', 'Search', 'Documents', 'Indexes']) {
  await go(phone, name);
  await phone.waitForTimeout(500);
  const width = await phone.evaluate(() => document.documentElement.scrollWidth);
  ok(width <= 390, `a phone shows ${name} without scrolling sideways`, width);
}
await audit(phone, 'phone');
const dark = await login(await open({ colorScheme: 'dark' }), token);
for (const name of ['Overview', 'Sources', 'Search', 'Ask', 'Models']) {
  await go(dark, name);
  await audit(dark, `dark ${name.toLowerCase()}`);
}

// -- the keyboard alone
const keys = await open();
await keys.getByLabel('API key').waitFor();
await keys.keyboard.type(env.KEY_ADMIN);
await keys.keyboard.press('Enter');
await keys.getByRole('navigation', { name: 'Console' }).waitFor();
const focused = () => keys.evaluate(() => document.activeElement.innerText
  || document.activeElement.getAttribute('aria-label') || document.activeElement.type);
async function tabTo(wanted) {
  for (let i = 0; i < 60; i += 1) {
    if ((await focused())?.trim() === wanted) return true;
    await keys.keyboard.press('Tab');
  }
  return false;
}
ok(await tabTo('Search'), 'the keyboard reaches a page');
await keys.keyboard.press('Enter');
await keys.getByRole('heading', { level: 1, name: 'Search' }).waitFor();
is(await focused(), 'Search', 'its heading has the focus');
await keys.keyboard.press('Tab');
await keys.keyboard.type('signing keys');
await keys.keyboard.press('Enter');
await keys.locator('.result').first().waitFor();
ok(true, 'a search needs no mouse');
await keys.getByRole('link', { name: 'Sources' }).focus();
await keys.keyboard.press('Enter');
ok(await tabTo('New source'), 'the keyboard reaches a button');
await keys.keyboard.press('Enter');
await keys.getByRole('dialog').waitFor();
await keys.keyboard.press('Escape');
await keys.getByRole('dialog').waitFor({ state: 'detached' });
ok(true, 'Escape closes the form');

// -- a role that sees less
const reader = await login(await open(), env.KEY_READER);
await go(reader, 'Sources');
await reader.getByText('There is no source that you can see.').waitFor();
is(await reader.getByRole('button', { name: 'New source' }).count(), 0,
  'a reader cannot create a source');
await go(reader, 'Search');
const options = await reader.getByLabel('Collection').innerText();
ok(!options.includes('secret'), 'a reader does not see a hidden collection', options);
await reader.getByRole('button', { name: 'Log out' }).click();
await reader.getByLabel('API key').waitFor();
is(await reader.evaluate(() => sessionStorage.length), 0, 'the key is forgotten');

is(outside.join(' '), '', 'no request goes to another host');
is(faults.join('\n'), '', 'no script fails, and the policy is kept');
await browser.close();
console.log(`1..${count}`);
