// Tests the page in a browser without a window:
//
//   node page.mjs TOOL BROWSER PLAYWRIGHT SHOTS [TESTS]
//
// TOOL is the program `flagstone`, BROWSER a Chromium, PLAYWRIGHT the folder of playwright-core, and
// SHOTS a folder for pictures of what was seen. `cargo xtask page` finds all of them. TESTS are names
// of functions below; without them all run.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [tool, browserPath, playwright, shots, ...only] = process.argv.slice(2);
const { chromium } = (await import(pathToFileURL(join(playwright, "index.js")))).default;
const PATIENCE = 15_000;
const folder = mkdtempSync(join(tmpdir(), "flagstone-page-"));
mkdirSync(shots, { recursive: true });

// Names and values that would run or break something where text becomes markup or a field of
// JavaScript's own objects.
const HOSTILE = '<img src=x onerror="window.hacked=1">';
const HOSTILE_DOCUMENT = `{
  "_id": ${JSON.stringify(HOSTILE)},
  "__proto__": { "hacked": true }, "constructor": "c", "toString": 1, "10": "ten", "9": "nine",
  ${JSON.stringify(`<b>${HOSTILE}</b>`)}: "</td><script>window.hacked=1</script>",
  "link": "javascript:window.hacked=1", "turned": "\\u202Eabc", "zero": "a\\u0000b",
  "large": 9007199254740993, "exact": 1.10, "huge": 1e400, "not": { "$numberDouble": "NaN" }
}`;

class Server {
  constructor(name) {
    this.dir = join(folder, name);
  }

  tool(words, input) {
    const done = spawnSync(tool, words, { input, encoding: "utf8" });
    assert.equal(done.status, 0, `${words.join(" ")}: ${done.stderr}`);
  }

  async start() {
    const words = ["serve", this.dir, "--listen", "127.0.0.1:0"];
    this.child = spawn(tool, words, { stdio: ["ignore", "ignore", "pipe"] });
    let log = "";
    await new Promise((resolve, reject) => {
      this.child.stderr.on("data", (text) => {
        log += text;
        if (log.includes("ready")) resolve();
      });
      this.child.on("exit", () => reject(new Error(`the server has ended:\n${log}`)));
    });
    this.url = /page=(\S+)/.exec(log)[1];
  }

  async stop() {
    if (!this.child || this.child.exitCode !== null) return;
    const ended = new Promise((resolve) => this.child.on("exit", resolve));
    this.child.kill("SIGTERM");
    await ended;
  }

  async ask(path, options) {
    const response = await fetch(new URL(path, this.url), options);
    assert.ok(response.ok, `${path}: ${response.status} ${await response.clone().text()}`);
    return response;
  }

  async command(db, text) {
    const body = `{"db":${JSON.stringify(db)},"command":${text}}`;
    return (await this.ask("v1/command", { method: "POST", body })).json();
  }
}

// A page that fails the test if it has an error. Refused requests are errors for the browser's
// console as well; only those that a test expects are let through.
async function open(browser, options = {}, expected = []) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.errors = [];
  page.on("pageerror", (error) => page.errors.push(error.stack));
  page.on("console", (message) => {
    const text = message.text();
    const isExpected = expected.some((status) => text.includes(`status of ${status} `));
    if (["error", "warning"].includes(message.type()) && !isExpected) page.errors.push(text);
  });
  page.on("request", (request) => {
    const { origin } = new URL(request.url());
    if (page.origin && origin !== page.origin) page.errors.push(`a request to ${request.url()}`);
  });
  return page;
}

async function visit(page, server, hash = "") {
  page.origin = new URL(server.url).origin;
  await page.goto("about:blank");
  await page.goto(`${server.url}${hash}`);
}

function hashOf(fields) {
  return `#${new URLSearchParams(fields)}`;
}

const SHOP = { db: "shop", c: "orders" };

async function chartsMove(page, server) {
  await visit(page, server);
  await page.locator(".chart canvas").nth(8).waitFor();
  const pictures = () =>
    page.locator(".chart canvas").evaluateAll((all) => all.map((one) => one.toDataURL()));
  const colours = () =>
    page.locator(".chart canvas").evaluateAll((all) =>
      all.map((one) => {
        const { data } = one.getContext("2d").getImageData(0, 0, one.width, one.height);
        return new Set(new Uint32Array(data.buffer)).size;
      }),
    );
  const before = await pictures();
  const end = Date.now() + 3500;
  for (let n = 0; Date.now() < end; n += 1) {
    await server.command("shop", `{"insert":"busy","documents":[{"n":${n}},{"n":${n}}]}`);
    await server.command("shop", '{"find":"orders","filter":{"total":7},"limit":5}');
  }
  const after = await pictures();
  const moved = after.filter((picture, at) => picture !== before[at]).length;
  assert.ok(moved >= 5, `${moved} charts have changed`);
  assert.ok(
    (await colours()).every((n) => n > 8),
    "no chart is empty",
  );
  const tiles = await page.locator(".tile strong").allTextContents();
  assert.match(tiles[0], /^[\d.]+( k)?\/s$/);
  assert.notEqual(tiles[0], "0/s");
  assert.match(tiles[1], /^[\d.]+ (µs|ms)$/);
  assert.match(tiles[2], /^[\d.]+ (µs|ms)$/);
  await page.getByRole("button", { name: "5 min", exact: true }).click();
  assert.match(page.url(), /span=300/);
}

// Texts have their places before numbers are there, and keep them.
async function nothingJumps(page, server) {
  await visit(page, server);
  const places = () =>
    page
      .locator(".tile, .chart")
      .evaluateAll((all) =>
        all.map((one) =>
          ["x", "y", "width", "height"].map((side) => one.getBoundingClientRect()[side]),
        ),
      );
  await page.locator(".chart").nth(8).waitFor();
  const before = await places();
  await page.waitForTimeout(2500);
  assert.deepEqual(await places(), before);
}

async function queriesRun(page, server) {
  await visit(page, server, hashOf(SHOP));
  await page.locator("tbody tr").nth(19).waitFor();
  assert.equal(await page.locator("tbody tr").count(), 20);
  await page.getByLabel("Filter", { exact: true }).fill("{ total: { $gte: 7 } }");
  await page.getByLabel("Sort").fill("{ _id: -1 }");
  await page.getByLabel("Projection").fill("{ total: 1 }");
  await page.getByLabel("Limit").fill("3");
  await page.getByLabel("Limit").press("Control+Enter");
  await page.locator("main").getByText("Documents 1 to 3").waitFor();
  assert.deepEqual(await page.locator("thead th").allTextContents(), ["_id", "total"]);
  const first = () => page.locator("tbody tr td").first().textContent();
  assert.equal(await first(), "499");
  await page.getByRole("button", { name: "Next" }).click();
  await page.locator("main").getByText("Documents 4 to 6").waitFor();
  await page.getByRole("button", { name: "Count all" }).click();
  await page.getByText("of 150").waitFor();
  await page.getByRole("button", { name: "Documents", exact: true }).click();
  await page.locator("article pre").nth(2).waitFor();
  // The address has all of it.
  const shared = await open(page.context().browser());
  await visit(shared, server, new URL(page.url()).hash);
  await shared.locator("article pre").nth(2).waitFor();
  assert.equal(
    await shared.locator("article pre").first().textContent(),
    await page.locator("article pre").first().textContent(),
  );
  assert.deepEqual(shared.errors, []);
  await shared.context().close();
  await page.goBack();
  await page.locator("tbody tr").first().waitFor();
}

// What is printed is what was read; what people type may be shorter.
async function jsonStaysExact(page, server) {
  await visit(page, server);
  const run = (texts) =>
    page.evaluate(async (all) => {
      const { parse, print } = await import("/page/json.js");
      return all.map((text) => {
        try {
          return print(parse(text));
        } catch (error) {
          return error.message;
        }
      });
    }, texts);
  const same = [
    "null",
    '""',
    "-0.0",
    "1e400",
    "12345678901234567890.10",
    "[]",
    "{}",
    '[1,[2,{"a":[]}],true]',
    '{"b":1,"a":2,"10":3,"9":4,"__proto__":{"x":1},"":5}',
    '"\\u0000\\ud800\\"\\\\é"',
    `${"[".repeat(500)}${"]".repeat(500)}`,
  ];
  assert.deepEqual(await run(same), same);
  const typed = {
    "{a:1}": '{"a":1}',
    "{ $and: [ { a.b: 'it\\'s \"x\"' }, ], }": '{"$and":[{"a.b":"it\'s \\"x\\""}]}',
    'ObjectId("0123456789abcdef01234567")': '{"$oid":"0123456789abcdef01234567"}',
    "ISODate('2026-01-02')": '{"$date":"2026-01-02"}',
  };
  assert.deepEqual(await run(Object.keys(typed)), Object.values(typed));
  const wrong = {
    "": "line 1, column 1: expected a value, found the end",
    "{a 1}": 'line 1, column 4: expected :, found "1}"',
    "[1 2]": 'line 1, column 4: expected , or ], found "2]"',
    "{\n  a: 01\n}": 'line 2, column 7: expected , or }, found "1\\n}"',
    '{"a":1,"a":2}':
      'line 1, column 11: expected another name than "a", which is there already, found ":2}"',
    "1 2": 'line 1, column 3: expected the end, found "2"',
    nul: 'line 1, column 1: expected a value, found "nul"',
    '"a': 'line 1, column 1: expected a value, found "\\"a"',
    '"\\x"': 'line 1, column 1: expected text with the escapes of JSON, found "\\"\\\\x\\""',
  };
  assert.deepEqual(await run(Object.keys(wrong)), Object.values(wrong));
}

async function errorsAreShown(page, server) {
  await visit(page, server, hashOf({ ...SHOP, filter: "{ a: }" }));
  await page.getByText("Filter: line 1, column 6: expected a value").waitFor();
  await page.getByLabel("Filter", { exact: true }).fill("{ a: { $near: 1 } }");
  await page.getByLabel("Filter", { exact: true }).press("Control+Enter");
  const alarm = page.getByRole("alert").filter({ hasText: "$near" });
  await alarm.waitFor();
}

async function plansAreTrees(page, server) {
  await server.command(
    "shop",
    '{"createIndexes":"orders","indexes":[{"key":{"total":1},"name":"t"}]}',
  );
  await visit(page, server, hashOf({ ...SHOP, filter: "{ total: 7 }", sort: "{ note: 1 }" }));
  await page.getByRole("button", { name: "Explain" }).click();
  await page.locator(".node").nth(4).waitFor();
  const titles = await page.locator(".node strong").allTextContents();
  assert.deepEqual(titles.slice(0, 3), ["Result", "Sort", "Read and filter"]);
  assert.match(titles[3], /^index "t"/);
  assert.match(titles[4], /^scan/);
  const tops = await page
    .locator(".node")
    .evaluateAll((all) => all.map((one) => one.getBoundingClientRect().top));
  assert.ok(tops[0] < tops[1] && tops[1] < tops[2] && tops[2] < tops[3], `${tops}`);
  assert.equal(tops[3], tops[4]);
  await page.screenshot({ path: join(shots, "plan.png") });
}

async function pipelinesRun(page, server) {
  await visit(page, server, hashOf({ ...SHOP, tab: "pipeline" }));
  await page.getByRole("button", { name: "$match" }).click();
  await page.getByRole("button", { name: "$group" }).click();
  const box = page.getByLabel("Pipeline");
  assert.match(await box.inputValue(), /^\[\n {2}\{ \$match: .*\},\n {2}\{ \$group: .*\}\n\]$/);
  await box.fill('[{ $group: { _id: "$total", n: { $sum: 1 } } }, { $sort: { _id: 1 } }]');
  await box.press("Control+Enter");
  await page.locator("main").getByText("10 rows").waitFor();
  assert.deepEqual(await page.locator("tbody tr").first().locator("td").allTextContents(), [
    "0",
    "50",
  ]);
  // More than a batch.
  await box.fill("[{ $match: {} }]");
  await box.press("Control+Enter");
  await page.locator("main").getByText("100 rows, and there are more").waitFor();
  await page.getByRole("button", { name: "More", exact: true }).click();
  await page.locator("main").getByText("200 rows, and there are more").waitFor();
  // Another form is drawn without another run; the plan is beside it.
  let runs = 0;
  page.on("request", (request) => {
    if (/"aggregate":"orders"/.test(request.postData() ?? "")) runs += 1;
  });
  await page.getByRole("button", { name: "Documents", exact: true }).click();
  await page.locator("article pre").nth(199).waitFor();
  assert.equal(runs, 0);
  await box.fill('[{ $match: { total: 7 } }, { $group: { _id: "$note" } }, { $limit: 5 }]');
  await page.getByRole("button", { name: "Explain" }).click();
  await page.locator(".node").nth(4).waitFor();
  const titles = await page.locator(".node strong").allTextContents();
  assert.deepEqual(titles.slice(0, 4), [
    "$limit",
    "$group",
    "Input of the pipeline",
    "Read and filter",
  ]);
  await page.locator("main").getByText("5 rows").waitFor();
  // A link does not write.
  for (const stage of [
    '{ $out: "x" }',
    '{ "\\u0024merge": "x" }',
    "{ $facet: { a: [{ $out: 1 }] } }",
  ]) {
    await visit(page, server, hashOf({ ...SHOP, tab: "pipeline", pipeline: `[${stage}]` }));
    await page.getByText("This pipeline writes").waitFor();
  }
}

async function documentsAreEdited(page, server) {
  const place = "v1/shop/orders/7";
  await visit(page, server, hashOf({ ...SHOP, filter: "{ _id: 7 }" }));
  await page.locator("tbody tr").first().click();
  const source = page.getByLabel("Document", { exact: true });
  await source.waitFor();
  assert.match(page.url(), /doc=7/);
  await source.fill('{ _id: 7, total: 70, note: "mine" }');
  const patch = { "Content-Type": "application/merge-patch+json" };
  const theirs = '{"note":"theirs","large":9007199254740993}';
  await server.ask(place, { method: "PATCH", headers: patch, body: theirs });
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Somebody has changed this document").waitFor();
  const versions = await page.locator(".versions pre").allTextContents();
  assert.match(versions[0], /"note": "mine"/);
  assert.match(versions[1], /"note": "theirs"[^]*9007199254740993/);
  const own = await page.locator(".theirs .own").allTextContents();
  assert.ok(
    own.some((line) => line.includes("theirs")) && !own.some((line) => line.includes("_id")),
  );
  await page.screenshot({ path: join(shots, "conflict.png") });
  assert.match(await (await server.ask(place)).text(), /theirs/, "nothing is written before");
  await page.getByRole("button", { name: "Write my version" }).click();
  await page.getByText("Saved.").waitFor();
  assert.deepEqual(await (await server.ask(place)).json(), { _id: 7, total: 70, note: "mine" });
  await page.locator("td", { hasText: "mine" }).waitFor();
  assert.doesNotMatch(page.url(), /doc=/);
  // Theirs is taken, and removed.
  await page.locator("tbody tr").first().click();
  await source.waitFor();
  await server.ask(place, { method: "PUT", body: '{"note":"again theirs"}' });
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "Take the server's version" }).click();
  assert.match(await source.inputValue(), /again theirs/);
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete it?" }).click();
  await page.getByText("Deleted.").waitFor();
  await page.getByText("No document matches.").waitFor();
  assert.equal((await fetch(new URL(place, server.url))).status, 404);
  // It is created again, not twice.
  await page.getByRole("button", { name: "New document" }).click();
  await source.fill('{ "_id": 7, "total": 7 }');
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByText("Created.").waitFor();
  await page.getByRole("button", { name: "New document" }).click();
  await source.fill('{ "_id": 7 }');
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByText("there is a document with the key 7 already").waitFor();
  // What was typed is not lost by one key.
  await page.keyboard.press("Escape");
  await page.getByText("The changes are not saved.").waitFor();
  await page.keyboard.press("Escape");
  await source.waitFor({ state: "hidden" });
}

async function indexesAreBuilt(page, server) {
  await visit(page, server, hashOf({ ...SHOP, tab: "indexes" }));
  await page.getByLabel("Fields").fill("{ note: 1, total: -1 }");
  await page.getByRole("button", { name: "Create index" }).click();
  await page.getByText("Index note_1_total_-1 is complete.").waitFor();
  const row = page.locator("tbody tr", { hasText: "note_1_total_-1" });
  assert.match(await row.textContent(), /note ↑, total ↓/);
  await row.getByRole("button", { name: "Drop" }).click();
  await row.getByRole("button", { name: "Drop it?" }).click();
  await row.waitFor({ state: "detached" });
  // These builds are over before they are seen: one that takes longer is made up.
  await page.route("**/v1/command", async (route) => {
    if (!route.request().postData().includes("serverStatus")) return route.continue();
    const response = await route.fetch();
    const reply = await response.json();
    reply.flagstone.indexBuilds = [
      {
        ns: "shop.orders",
        index: HOSTILE,
        documents: 250,
        documentsTotal: 1000,
        entries: 0,
        entriesWritten: 0,
      },
    ];
    return route.fulfill({ response, json: reply });
  });
  await page.getByText("250 of about 1,000 documents read").waitFor();
  assert.equal(await page.locator("progress").evaluate((bar) => bar.position), 0.25);
  await page.unrouteAll({ behavior: "ignoreErrors" });
}

// A collection is dropped only when its name was typed; keys are enough for that.
async function collectionsAreDropped(page, server) {
  const names = ["gone", HOSTILE.replaceAll("$", "")];
  for (const name of names) {
    await server.command("shop", `{"insert":${JSON.stringify(name)},"documents":[{"_id":1}]}`);
    await visit(page, server, hashOf({ db: "shop", c: name }));
    const open = page.getByRole("button", { name: "Drop …" });
    const dialog = page.getByRole("dialog", { name: "Drop collection" });
    const drop = dialog.getByRole("button", { name: "Drop collection" });
    await open.focus();
    await page.keyboard.press("Enter");
    await dialog.getByText(`shop.${name}`).waitFor();
    await page.screenshot({ path: join(shots, "drop.png") });
    await page.keyboard.type(`${name}x`);
    assert.ok(await drop.isDisabled(), "another name");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Drop …");
    assert.equal((await server.command("shop", `{"count":${JSON.stringify(name)}}`)).n, 1);
    await page.keyboard.press("Enter");
    await page.keyboard.type(name);
    assert.ok(await drop.isEnabled());
    await page.keyboard.press("Enter");
    await page.getByText(`shop.${name} is dropped.`).waitFor();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.getByRole("option", { name }).waitFor({ state: "detached" });
    assert.equal((await server.command("shop", `{"count":${JSON.stringify(name)}}`)).n, 0);
  }
}

async function filesAreLoaded(page, server) {
  const file = join(folder, "more.jsonl");
  const lines = Array.from({ length: 2000 }, (_, n) => `{"id":${n},"name":"n${n}"}\n`);
  writeFileSync(file, `${lines.join("")}`);
  await visit(page, server, hashOf({ db: "shop", c: "loaded", tab: "load" }));
  await page.getByRole("button", { name: "Load", exact: true }).click();
  await page.getByText("Choose a file.").waitFor();
  await page.locator('input[type="file"]').setInputFiles(file);
  await page.getByRole("button", { name: "Load", exact: true }).click();
  await page.getByText("Loaded more.jsonl into shop.loaded").waitFor();
  await page.getByText("2,000 documents,").waitFor();
  await page.getByRole("option", { name: "loaded 2 k" }).waitFor();
  writeFileSync(file, '{"id":1}\n{"id":\n');
  await page.locator('input[type="file"]').setInputFiles(file);
  await page.getByRole("button", { name: "Load", exact: true }).click();
  await page.getByText("Could not load all of more.jsonl").waitFor();
  await page
    .getByRole("alert")
    .filter({ hasText: /the body:2/ })
    .waitFor();
  await page.getByRole("button", { name: "Dismiss" }).first().click();
  assert.equal(await page.getByRole("button", { name: "Dismiss" }).count(), 1);
}

async function hostileTextIsText(page, server) {
  await server.ask(
    `v1/hostile/${encodeURIComponent(HOSTILE)}/${encodeURIComponent(JSON.stringify(HOSTILE))}`,
    { method: "PUT", body: HOSTILE_DOCUMENT },
  );
  const hash = { db: "hostile", c: HOSTILE };
  await visit(page, server, hashOf(hash));
  await page.locator("td", { hasText: HOSTILE }).first().waitFor();
  const names = await page.locator("thead th").allTextContents();
  assert.equal(names[0], "_id");
  for (const name of ["__proto__", "constructor", "toString", "10", "9", `<b>${HOSTILE}</b>`]) {
    assert.ok(names.includes(name), name);
  }
  assert.ok(names.indexOf("10") < names.indexOf("9"), "fields stay in their order");
  const cell = async (name) => page.locator("tbody td").nth(names.indexOf(name)).textContent();
  assert.equal(await cell("large"), "9007199254740993");
  assert.equal(await cell("exact"), "1.10");
  assert.equal(await cell("not"), "NaN");
  await page.locator("tbody tr").click();
  const source = page.getByLabel("Document", { exact: true });
  await source.waitFor();
  assert.match(await source.inputValue(), /"large": 9007199254740993,\n {2}"exact": 1.10/);
  // What is saved unchanged stays as it was.
  const place = `v1/hostile/${encodeURIComponent(HOSTILE)}/${encodeURIComponent(JSON.stringify(HOSTILE))}`;
  const before = await (await server.ask(place)).text();
  await page.keyboard.press("Control+Enter");
  await page.getByText("Saved.").waitFor();
  assert.equal(await (await server.ask(place)).text(), before);
  await visit(page, server, hashOf({ ...hash, as: "documents", filter: HOSTILE, doc: HOSTILE }));
  await page.getByRole("alert").first().waitFor();
  await visit(page, server, hashOf({ db: HOSTILE, c: HOSTILE, tab: HOSTILE }));
  await page.getByRole("alert").first().waitFor();
  const foreign = await page.evaluate(() => ({
    hacked: window.hacked ?? {}.hacked ?? null,
    elements: document.querySelectorAll("main img, main script, main b, nav img").length,
  }));
  assert.deepEqual(foreign, { hacked: null, elements: 0 });
}

// Returns a server with 1,000 collections. Each takes some milliseconds: meanwhile others are tested.
async function startMany() {
  const server = new Server("many");
  await server.start();
  const left = Array.from({ length: 1000 }, (_, n) => `c${String(n).padStart(4, "0")}`);
  const create = async () => {
    for (let name = left.pop(); name; name = left.pop()) {
      await server.command("many", `{"create":"${name}"}`);
    }
  };
  server.full = Promise.all([create(), create()]).then(() =>
    server.command("many", '{"insert":"c0999","documents":[{},{},{}]}'),
  );
  // The test that waits for it says so.
  server.full.catch(() => {});
  return server;
}

async function manyCollectionsAreQuick(page, _server, many) {
  await many.full;
  let counted = 0;
  page.on("request", (request) => {
    if (request.postData()?.includes("collStats")) counted += 1;
  });
  await visit(page, many);
  await page.getByText("1000 collections").waitFor();
  const drawn = await page.getByRole("option").count();
  assert.ok(drawn > 10 && drawn < 60, `${drawn} rows are drawn`);
  await page.getByRole("listbox").evaluate((element) => {
    element.scrollTop = element.scrollHeight;
  });
  await page.getByRole("option", { name: "c0999 3" }).waitFor();
  await page.waitForTimeout(500);
  assert.ok(counted < 150, `${counted} collections are counted`);
  await page.getByLabel("Filter collections").fill("many 0777");
  await page.getByText("1 of 1000 collections").waitFor();
  await page.getByRole("option", { name: "c0777" }).click();
  await page.getByText("The collection is empty.").waitFor();
  await page.screenshot({ path: join(shots, "empty.png") });
  // A link to one of them shows where it is.
  await visit(page, many, hashOf({ db: "many", c: "c0500" }));
  await page.getByRole("option", { name: "c0500", selected: true }).waitFor();
}

async function keysAreEnough(page, server) {
  await visit(page, server);
  await page.locator(".chart canvas").first().waitFor();
  const press = (key) => page.keyboard.press(key);
  await press("/");
  await page.keyboard.type("shop orders");
  await press("ArrowDown");
  await press("Enter");
  await page.locator("tbody tr").nth(19).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("role")), "listbox");
  // Each place that Tab reaches shows that it is there.
  const seen = [];
  for (let n = 0; n < 40; n += 1) {
    await press("Tab");
    const place = await page.evaluate(() => {
      const { activeElement: at } = document;
      const style = getComputedStyle(at);
      return { name: at.tagName, text: at.textContent.slice(0, 20), outline: style.outlineStyle };
    });
    assert.notEqual(place.outline, "none", JSON.stringify(place));
    seen.push(place);
    if (place.name === "TR") break;
  }
  for (const text of ["Documents", "Find", "Explain", "New document", "Table"]) {
    assert.ok(
      seen.some((place) => place.text === text),
      text,
    );
  }
  // A document is opened, changed and saved.
  await press("ArrowDown");
  await press("Enter");
  const source = page.getByLabel("Document", { exact: true });
  await source.waitFor();
  await page.waitForFunction(() => document.activeElement.classList.contains("source"));
  await press("Control+End");
  await press("ArrowLeft");
  await page.keyboard.type(', "typed": true');
  await press("Control+Enter");
  await page.getByText("Saved.").waitFor();
  assert.equal((await (await server.ask("v1/shop/orders/1")).json()).typed, true);
  await page.locator("thead th", { hasText: "typed" }).waitFor();
  const row = await page.evaluate(() => document.activeElement.firstElementChild.textContent);
  assert.equal(row, "1", "the row keeps the focus");
  await press("n");
  await source.waitFor();
  await press("Escape");
  await source.waitFor({ state: "hidden" });
  await press("?");
  await page.getByRole("heading", { name: "Keys" }).waitFor();
  await press("Escape");
  // Tabs.
  await page.getByRole("tab", { name: "Documents" }).focus();
  await press("ArrowRight");
  await page.getByLabel("Pipeline").waitFor();
  await press("ArrowRight");
  await page.getByRole("button", { name: "Create index" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Indexes");
  await press("g");
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}

// All of it fits a narrow window, and can be read in both schemes.
async function looksRight(browser, server) {
  const views = {
    overview: "",
    table: hashOf(SHOP),
    plan: hashOf({ ...SHOP, filter: "{ total: 7 }", plan: "1" }),
  };
  for (const width of [380, 1280]) {
    const page = await open(browser, { viewport: { width, height: 860 } });
    for (const [name, hash] of Object.entries(views)) {
      await visit(page, server, hash);
      const main = { overview: ".chart canvas", plan: ".node" }[name] ?? "tbody tr";
      await page.locator(main).first().waitFor();
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${name} is ${wide} wide in ${width}`);
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        assert.deepEqual(await page.evaluate(faint), [], `${name}, ${colorScheme}`);
        await page.screenshot({ path: join(shots, `${name}-${colorScheme}-${width}.png`) });
      }
    }
    if (width === 380) {
      await visit(page, server);
      await page.getByRole("button", { name: "Collections" }).click();
      await page.getByLabel("Filter collections").fill("orders");
      await page.getByRole("option", { name: "orders" }).click();
      await page.getByRole("heading", { name: "orders" }).waitFor();
      await page.getByRole("listbox").waitFor({ state: "hidden" });
    }
    assert.deepEqual(page.errors, []);
    await page.context().close();
  }
}

// Returns the texts whose contrast to what is behind them is below 4.5, in the page.
function faint() {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const channels = (text) => {
    if (!known.has(text)) {
      probe.clearRect(0, 0, 1, 1);
      probe.fillStyle = text;
      probe.fillRect(0, 0, 1, 1);
      known.set(text, probe.getImageData(0, 0, 1, 1).data);
    }
    return known.get(text);
  };
  const light = (rgb) => {
    const [r, g, b] = [...rgb].slice(0, 3).map((one) => {
      const part = one / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = channels(getComputedStyle(at).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const texts = [...element.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
    const box = element.getBoundingClientRect();
    if (texts.length === 0 || box.width === 0 || element.closest(":disabled, option, noscript"))
      continue;
    const [a, b] = [light(channels(getComputedStyle(element).color)), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.add(`${element.className}: ${texts[0].data} ${contrast.toFixed(2)}`);
  }
  return [...found];
}

async function usersLogIn(browser) {
  const server = new Server("users");
  server.tool(["user", "add", server.dir, "ada", "--role", "root"], "löve:lace\n");
  server.tool(["user", "add", server.dir, "bob", "--role", "read"], "bob\n");
  await server.start();
  const page = await open(browser, {}, [401, 403]);
  try {
    await visit(page, server, hashOf(SHOP));
    const login = async (name, password) => {
      await page.getByLabel("User").fill(name);
      await page.getByLabel("Password").fill(password);
      await page.keyboard.press("Enter");
    };
    await page.getByRole("heading", { name: "Log in" }).waitFor();
    await page.keyboard.press("Escape");
    await page.screenshot({ path: join(shots, "login.png") });
    await login("ada", "wrong");
    await page.getByText("expected the name and the password of a user").waitFor();
    await login("ada", "löve:lace");
    await page.getByText("The collection is empty.").waitFor();
    await page.getByRole("button", { name: "New document" }).click();
    await page.getByLabel("Document", { exact: true }).fill('{ "_id": 1 }');
    await page.keyboard.press("Control+Enter");
    await page.getByText("Created.").waitFor();
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("heading", { name: "Log in" }).waitFor();
    assert.equal(await page.locator("tbody tr").count(), 0);
    await login("bob", "bob");
    await page.locator("tbody tr").first().click();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("not authorized on shop").waitFor();
    assert.deepEqual(page.errors, []);
  } finally {
    await page.context().close();
    await server.stop();
  }
}

async function anEndOfTheServerIsShown(page, server) {
  await visit(page, server);
  await page.locator(".chart canvas").first().waitFor();
  await server.stop();
  await page.getByText("The server cannot be reached").first().waitFor();
  page.errors = page.errors.filter((text) => !/ERR_CONNECTION|Failed to load/.test(text));
}

// The first ones look at times, so they run alone.
const FIRST = [[chartsMove], [nothingJumps]];
const TESTS = [
  [jsonStaysExact],
  [queriesRun],
  [errorsAreShown, 400],
  [plansAreTrees],
  [pipelinesRun],
  [documentsAreEdited, 412, 404],
  [indexesAreBuilt],
  [collectionsAreDropped],
  [filesAreLoaded, 400],
  [hostileTextIsText, 400, 404],
  [keysAreEnough],
  [manyCollectionsAreQuick],
];

async function main() {
  const browser = await chromium.launch({
    executablePath: browserPath,
    // Without a user of its own the browser cannot shut itself in.
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });
  const server = new Server("data");
  const many = await startMany();
  const run = async (name, test) => {
    if (only.length > 0 && !only.includes(name)) return;
    const began = performance.now();
    await test();
    console.log(`${name}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
  };
  const runOn = (test, expected = []) =>
    run(test.name, async () => {
      const page = await open(browser, {}, expected);
      try {
        await test(page, server, many);
        assert.deepEqual(page.errors, []);
      } catch (error) {
        const shot = join(shots, `failed-${test.name}.png`);
        await page.screenshot({ path: shot });
        console.log(`${test.name} failed; what was seen: ${shot}`);
        if (page.errors.length > 0) console.log(page.errors.join("\n"));
        throw error;
      }
      await page.context().close();
    });
  try {
    await server.start();
    const orders = Array.from(
      { length: 500 },
      (_, n) =>
        `{"_id":${n},"total":${n % 10},"note":"n${n}","at":{"$date":"2026-01-02T03:04:05Z"}}`,
    );
    await server.command("shop", `{"insert":"orders","documents":[${orders.join(",")}]}`);
    for (const [test] of FIRST) await runOn(test);
    const beside = (async () => {
      await run("looksRight", () => looksRight(browser, server));
      await run("usersLogIn", () => usersLogIn(browser));
    })();
    // It is awaited below, unless another test fails before.
    beside.catch(() => {});
    for (const [test, ...expected] of TESTS) await runOn(test, expected);
    await beside;
    await runOn(anEndOfTheServerIsShown);
  } finally {
    await browser.close();
    await server.stop();
    await many.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

await main();
