// mongo-express and mongoku for `cargo xtask clients`: their pages are fetched, and forms sent, over
// HTTP. The first argument says which of them.
"use strict";
const assert = require("node:assert");
const { spawn } = require("node:child_process");
const { createServer } = require("node:net");
const { join } = require("node:path");
const { BSON, MongoClient } = require("mongodb");

const { ok, deepStrictEqual: same, strictEqual: equal } = assert;
const OPEN = `mongodb://${process.env.FLAGSTONE_OPEN}`;
const which = process.argv[2];
const folder = process.env.FLAGSTONE_PAGES;

/** Returns a port that nobody listens on. */
function freePort() {
  return new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

/** A visitor of the pages, who keeps cookies. */
class Visitor {
  constructor(base) {
    Object.assign(this, { base, cookies: new Map() });
  }

  async fetch(path, options = {}) {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const answer = await fetch(this.base + path, { redirect: "manual", ...options, headers: { cookie, ...options.headers } });
    for (const line of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      this.cookies.set(name, value);
    }
    return { status: answer.status, text: await answer.text() };
  }

  async page(path) {
    const { status, text } = await this.fetch(path);
    equal(status, 200, `${path}: ${status} ${text.slice(0, 500)}`);
    ok(!/went wrong|Could not|MongoError|MongoServerError/i.test(text), `${path}: ${text.slice(0, 2000)}`);
    return text;
  }

  async send(from, to, fields) {
    await this.page(from);
    const { status, text } = await this.fetch(to, {
      method: "POST",
      body: new URLSearchParams(fields),
      headers: { referer: this.base + from },
    });
    equal(status, 302, `${to}: ${status} ${text.slice(0, 500)}`);
  }
}

/** The steps with mongo-express. */
const express = {
  async pages(visitor, db) {
    await db.collection("films").insertMany([{ title: "Dune", year: 2021 }, { title: "Alien", year: 1979 }]);
    await db.collection("films").createIndex({ year: 1 });
    const home = await visitor.page("/");
    ok(home.includes(db.databaseName) && home.includes("Server Status"), "the first page");
    ok((await visitor.page(`/db/${db.databaseName}/`)).includes("films"), "the page of a database");
    const list = await visitor.page(`/db/${db.databaseName}/films`);
    ok(list.includes("Dune") && list.includes("year_1"), "the page of a collection");
    const query = new URLSearchParams({ query: '{"year": {"$lt": 2000}}', projection: "{}" });
    const some = await visitor.page(`/db/${db.databaseName}/films?${query}`);
    ok(some.includes("Alien") && !some.includes("Dune"), "a query");
    const stages = new URLSearchParams({ query: '[{"$match": {"year": 2021}}]', projection: "{}", runAggregate: "on" });
    ok((await visitor.page(`/db/${db.databaseName}/films?${stages}`)).includes("Dune"), "a pipeline");
    const { _id } = await db.collection("films").findOne({ title: "Dune" });
    const one = `/db/${db.databaseName}/films/${encodeURIComponent(JSON.stringify(_id))}`;
    ok((await visitor.page(one)).includes("Dune"), "the page of a document");
    const exported = await visitor.page(`/db/${db.databaseName}/expArr/films`);
    equal(BSON.EJSON.parse(exported).length, 2);
  },

  async write(visitor, db) {
    const films = `/db/${db.databaseName}/films`;
    await visitor.send(films, films, { document: '{ "title": "Solaris", "year": 1972 }' });
    const added = await db.collection("films").findOne({ title: "Solaris" });
    ok(added, "the document was not added");
    const one = `${films}/${encodeURIComponent(JSON.stringify(added._id))}`;
    const document = `{ "_id": ObjectId("${added._id}"), "title": "Solaris", "year": 2002 }`;
    await visitor.send(one, one, { _method: "put", document });
    equal((await db.collection("films").findOne({ _id: added._id })).year, 2002);
    await visitor.send(films, one, { _method: "delete" });
    equal(await db.collection("films").findOne({ _id: added._id }), null);
    await visitor.send(`/db/${db.databaseName}/`, `/db/${db.databaseName}`, { collection: "actors" });
    const names = (await db.listCollections().toArray()).map((found) => found.name);
    same(names.sort(), ["actors", "films"]);
    await visitor.send(films, `/db/${db.databaseName}/actors`, { _method: "delete" });
    await visitor.send("/", "/", { database: "pages_made" });
    await visitor.send("/", "/pages_made", { _method: "delete" });
  },
};

/** The steps with mongoku. */
const mongoku = {
  async pages(visitor, db) {
    await db.collection("films").insertMany([{ title: "Dune", year: 2021 }, { title: "Alien", year: 1979 }]);
    await db.collection("films").createIndex({ year: 1 });
    ok((await visitor.page("/servers")).includes(process.env.FLAGSTONE_OPEN), "the page of servers");
    const server = `/servers/${encodeURIComponent(process.env.FLAGSTONE_OPEN)}`;
    ok((await visitor.page(`${server}/databases`)).includes(db.databaseName), "the page of databases");
    const list = `${server}/databases/${db.databaseName}/collections`;
    ok((await visitor.page(list)).includes("films"), "the page of collections");
    const query = new URLSearchParams({ query: '{"year": {"$lt": 2000}}', sort: '{"year": -1}' });
    const some = await visitor.page(`${list}/films/documents?${query}`);
    ok(some.includes("Alien") && !some.includes("Dune"), "a query");
    const stages = new URLSearchParams({ mode: "aggregation", query: '[{"$match": {"year": 2021}}]' });
    ok((await visitor.page(`${list}/films/documents?${stages}`)).includes("Dune"), "a pipeline");
    const { _id } = await db.collection("films").findOne({ title: "Dune" });
    ok((await visitor.page(`${list}/films/documents/${_id}`)).includes("2021"), "the page of a document");
    ok((await visitor.page(`${list}/films/indexes`)).includes("year_1"), "the page of indexes");
  },

  async write() {
    console.log("without write: all: mongoku sends what is written by calls of its own format");
  },
};

async function main() {
  const port = await freePort();
  const env = {
    ...process.env,
    MONGOKU_DEFAULT_HOST: OPEN,
    MONGOKU_DATABASE_FILE: join(process.env.FLAGSTONE_SCRATCH, "mongoku.json"),
    MONGOKU_SERVER_HOST: "127.0.0.1",
    MONGOKU_SERVER_PORT: String(port),
    ME_CONFIG_MONGODB_URL: OPEN,
    ME_CONFIG_MONGODB_ENABLE_ADMIN: "true",
    ME_CONFIG_BASICAUTH_USERNAME: "",
    VCAP_APP_HOST: "127.0.0.1",
    PORT: String(port),
  };
  const [steps, program, home] = which === "mongoku" ? [mongoku, "build/index.js", "/servers"] : [express, "app.js", "/"];
  const server = spawn(process.execPath, [join(folder, program)], { env, stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  for (const stream of [server.stdout, server.stderr]) stream.on("data", (data) => (log += data));
  const client = new MongoClient(OPEN);
  let failures = 0;
  try {
    const db = client.db("scenario_pages");
    await db.dropDatabase();
    const visitor = new Visitor(`http://127.0.0.1:${port}`);
    for (let tries = 0; tries < 150; tries += 1) {
      if (await visitor.fetch(home).then(({ status }) => status === 200, () => false)) break;
      await new Promise((done) => setTimeout(done, 200));
    }
    for (const [name, step] of Object.entries(steps)) {
      try {
        await step(visitor, db);
        console.log(`ok ${name}`);
      } catch (error) {
        failures += 1;
        console.log(`FAILED ${name}: ${error.message} ${log.slice(-1500)}`.replaceAll("\n", " "));
      }
    }
  } finally {
    await client.close();
    server.kill();
  }
  process.exit(failures > 0 ? 1 : 0);
}

main();
