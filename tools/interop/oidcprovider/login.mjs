// Logs in as bob at oidc-provider with a browser. The arguments are the browser and the authorization URL. It prints the
// title of the page at the end of the login.
import puppeteer from 'puppeteer-core';

const [executablePath, url] = process.argv.slice(2);
const browser = await puppeteer.launch({
  executablePath, headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run'],
});
try {
  const page = await browser.newPage();
  await page.goto(url);
  await page.type('input[name=login]', 'bob');
  await page.type('input[name=password]', 'password');
  await Promise.all([page.waitForNavigation(), page.click('button[type=submit]')]);
  await Promise.all([page.waitForNavigation(), page.click('button[type=submit]')]); // the page that asks for consent
  console.log(await page.title());
} finally {
  await browser.close();
}
