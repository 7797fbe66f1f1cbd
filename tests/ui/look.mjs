// Opens a page in headless Chromium, light and dark, wide and as narrow as a phone, and has axe look at it.
//   node look.mjs URL CHROMIUM FOLDER_OF_PICTURES PREFIX_OF_PICTURES
// Modules come from the folder that NODE_PATH names. Prints one JSON object.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import path from "node:path";

const require = createRequire(path.join(process.env.NODE_PATH, "x.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [url, executablePath, pictures, prefix] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const found = {};
for (const [name, width, colorScheme] of [
  ["light", 1180, "light"], ["dark", 1180, "dark"], ["phone-light", 390, "light"], ["phone-dark", 390, "dark"],
]) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
  const page = await context.newPage();
  const complaints = [], requests = [];
  page.on("console", message => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", error => complaints.push(String(error)));
  page.on("request", request => requests.push(request.url()));
  await page.goto(url);
  await page.waitForSelector("article");
  await page.screenshot({ path: path.join(pictures, `${prefix}-${name}.png`), fullPage: true });
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  const hidden = await page.evaluate(() => [...document.querySelectorAll("td")]
    .filter(td => td.textContent && td.getBoundingClientRect().right > innerWidth).map(td => td.textContent));
  const cards = await page.locator("article").count(), opened = await page.locator("details[open]").count();
  const first = await page.locator("article h3").allInnerTexts();
  await page.evaluate(axe);
  const result = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
  found[name] = {
    violations: result.violations.map(v => ({ id: v.id, impact: v.impact, nodes: v.nodes.map(n => n.html.slice(0, 200)) })),
    passes: result.passes.length, text: await page.innerText("body"), complaints, requests, overflow, hidden,
    cards, opened, first,
  };
  const link = page.locator("article a").first();
  if (await link.count()) {
    const answer = await page.request.get(await link.evaluate(a => a.href));
    found[name].section = (await answer.text()).includes(`id="${(await link.getAttribute("href")).split("#")[1]}"`);
  }
  await page.fill("#filter", "order");
  found[name].filtered = await page.locator("article h3").allInnerTexts();
  await page.locator("summary").first().press("Enter");
  found[name].toggled = await page.locator("details[open]").count();
  found[name].focused = await page.evaluate(() => document.activeElement.dataset.topic);
  await page.fill("#filter", "");
  await page.check("#attention");
  found[name].attention = await page.locator("article h3").allInnerTexts();
  await context.close();
}
await browser.close();
console.log(JSON.stringify(found));
