// What the scenarios of Node share: checks, and the loop over the steps.
"use strict";
const assert = require("node:assert");
const fs = require("node:fs");
const { BSON } = require("mongodb");

// Types that JavaScript has no name for stay as they are in BSON.
const cases = BSON.EJSON.parse(fs.readFileSync(process.env.FLAGSTONE_CASES, "utf8"), { relaxed: false });
const plain = BSON.EJSON.parse(fs.readFileSync(process.env.FLAGSTONE_CASES, "utf8"));

const without = (step, piece, reason) => console.log(`without ${step}: ${piece}: ${reason}`);

/** Expects that `work` fails with an error of this class and code. */
async function refused(work, kind, code) {
  let error;
  try {
    await work();
  } catch (caught) {
    error = caught;
  }
  assert.ok(error, `expected ${kind.name} ${code}, but it succeeded`);
  assert.ok(error instanceof kind, `expected ${kind.name}, found ${error.stack}`);
  if (code !== undefined) assert.strictEqual(error.code, code, error.message);
  return error;
}

async function fresh(db, name, documents = []) {
  await db.collection(name).drop();
  if (documents.length > 0) await db.collection(name).insertMany(documents);
  return db.collection(name);
}

async function collections(db) {
  for (const [name, documents] of Object.entries(plain.collections)) await fresh(db, name, documents);
}

const range = (n, make) => Array.from({ length: n }, (_, at) => make(at));

async function run(steps, ...given) {
  const wanted = process.argv.slice(2);
  let failures = 0;
  for (const [name, step] of Object.entries(steps)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    try {
      await step(...given);
      console.log(`ok ${name}`);
    } catch (error) {
      failures += 1;
      const lines = (error.stack ?? "").split("\n").filter((line) => /(scenario|mongoose)\.js:/.test(line));
      const line = /js:(\d+)/.exec(lines[0] ?? "")?.[1];
      console.log(`FAILED ${name}: line ${line}: ${error.name}: ${error.message}`.replaceAll("\n", " ").slice(0, 600));
    }
  }
  return failures;
}

module.exports = { cases, plain, without, refused, fresh, collections, range, run };
