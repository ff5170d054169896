// The scenario of `cargo xtask clients` with the shell of MongoDB: `mongosh --nodb --file
// mongosh.js`. `db`, `connect`, `EJSON` and their kin are names of the shell.
const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { ok, strictEqual: equal } = assert;

const cases = EJSON.parse(readFileSync(process.env.FLAGSTONE_CASES, "utf8"), { relaxed: false });
const plain = EJSON.parse(readFileSync(process.env.FLAGSTONE_CASES, "utf8"));
const OPEN = `mongodb://${process.env.FLAGSTONE_OPEN}`;
const CUT = `mongodb://${process.env.FLAGSTONE_CUT}`;
const SECURE = `mongodb://${process.env.FLAGSTONE_SECURE}/?tls=true&tlsCAFile=${process.env.FLAGSTONE_CA}`;

const client = connect(OPEN).getMongo();
db = client.getDB("scenario_mongosh");

const without = (step, piece, reason) => print(`without ${step}: ${piece}: ${reason}`);
const range = (n, make) => Array.from({ length: n }, (_, at) => make(at));
const shown = (value) => EJSON.stringify(value, { relaxed: false });
// Arrays of the shell have names that others do not have: values are compared as text.
const same = (found, expected) => equal(EJSON.stringify(found), EJSON.stringify(expected));
const alike = (found, expected) => equal(shown(found), shown(expected));

function refused(work, code) {
  let error;
  try {
    work();
  } catch (caught) {
    error = caught;
  }
  ok(error, `expected error ${code}, but it succeeded`);
  if (code !== undefined) equal(error.code, code, `${error.name}: ${error.message}`);
  return error;
}

function fresh(name, documents = []) {
  db[name].drop();
  if (documents.length > 0) db[name].insertMany(documents);
  return db[name];
}

function collections() {
  for (const [name, documents] of Object.entries(plain.collections)) fresh(name, documents);
}

function commands(name) {
  collections();
  for (const { command, code } of cases[name]) refused(() => db.runCommand(command), Number(code));
}

/** Lets a shell of its own read these lines as a person types them, and returns what it shows. */
function typed(uri, lines) {
  const words = [process.argv[1], "--quiet", "--norc", uri];
  const shell = spawnSync(process.execPath, words, { input: `${lines.join("\n")}\n`, encoding: "utf8" });
  return shell.stdout + shell.stderr;
}

const steps = {
  connect() {
    equal(db.runCommand({ ping: 1 }).ok, 1);
    ok(db.hello().maxWireVersion >= 21 && /^7/.test(db.version()));
    refused(() => db.runCommand({ noSuchCommand: 1 }), 59);
  },

  login() {
    const root = connect(SECURE.replace("://", "://ada:secret@"));
    const shop = root.getSiblingDB("shop");
    shop.orders.deleteMany({});
    shop.orders.insertOne({ _id: 1 });
    if (shop.getUser("reader")) shop.dropUser("reader");
    shop.createUser({ user: "reader", pwd: "r", roles: [{ role: "read", db: "shop" }] });
    const reader = connect(SECURE.replace("://", "://reader:r@")).getSiblingDB("shop");
    equal(reader.orders.countDocuments({}), 1);
    refused(() => reader.orders.insertOne({ _id: 2 }), 13);
    shop.changeUserPassword("reader", "new");
    refused(() => connect(SECURE.replace("://", "://reader:r@")), 18);
    const later = connect(SECURE).getSiblingDB("shop");
    refused(() => later.orders.findOne(), 13);
    later.auth("reader", "new");
    equal(later.orders.findOne()._id, 1);
    ok(shop.getUsers().users.some((user) => user.user === "reader"));
    shop.dropUser("reader");
  },

  types() {
    const things = fresh("types");
    const keys = fresh("keys");
    things.insertOne({ _id: "all", ...cases.types });
    const raw = { promoteLongs: false, promoteValues: false, bsonRegExp: true };
    alike(things.findOne({ _id: "all" }, {}, raw), { _id: "all", ...cases.types });
    for (const [name, value] of Object.entries(cases.types)) {
      // The driver makes an ObjectId where a document has no _id, or null.
      if (name === "null") continue;
      const insert = () => keys.insertOne({ _id: value, name });
      if (["list", "regex", "db-ref"].includes(name)) refused(insert);
      else if (["int64", "double"].includes(name)) refused(insert, 11000);
      else {
        insert();
        alike(keys.findOne({ _id: value }, {}, raw), { _id: value, name });
      }
    }
  },

  crud() {
    const orders = fresh("orders", range(30, (n) => ({ _id: n, n, m: n % 3 })));
    ok(orders.insertOne({ customer: "ada", total: 3 }).insertedId instanceof ObjectId);
    const page = orders.find({ n: { $gte: 10 } }, { _id: 0, n: 1 }).sort({ m: -1, n: 1 }).skip(1).limit(2);
    same(page.toArray(), [{ n: 14 }, { n: 17 }]);
    same([orders.countDocuments({ m: 1 }), orders.estimatedDocumentCount(), orders.find({ m: 1 }).count()], [10, 31, 10]);
    same(orders.distinct("m", { n: { $lt: 2 } }).sort(), [0, 1]);
    same(orders.replaceOne({ _id: 100 }, { n: 100 }, { upsert: true }).upsertedCount, 1);
    equal(orders.updateMany({ m: 2 }, { $set: { seen: true } }).modifiedCount, 10);
    equal(orders.deleteOne({ m: 2 }).deletedCount, 1);
    equal(orders.deleteMany({ m: 2 }).deletedCount, 9);
    equal(orders.findOne({ customer: /^A/i }).total, 3);
    equal(orders.findOne({ _id: "nothing" }), null);
  },

  bulk() {
    const things = fresh("bulk");
    const work = [{ insertOne: { document: { _id: 1 } } }, { insertOne: { document: { _id: 2 } } }, { deleteOne: { filter: { _id: 1 } } }];
    same([things.bulkWrite(work).insertedCount, things.countDocuments({})], [2, 1]);
    const again = [{ insertOne: { document: { _id: 2 } } }, { insertOne: { document: { _id: 3 } } }];
    equal(refused(() => things.bulkWrite(again), 11000).result.insertedCount, 0);
    equal(refused(() => things.bulkWrite(again, { ordered: false }), 11000).result.insertedCount, 1);
    const bulk = things.initializeOrderedBulkOp();
    bulk.insert({ _id: 9 });
    bulk.find({ _id: 9 }).updateOne({ $set: { a: 1 } });
    bulk.find({ _id: 10 }).upsert().updateOne({ $set: { a: 1 } });
    const done = bulk.execute();
    same([done.insertedCount, done.modifiedCount, done.upsertedCount], [1, 1, 1]);
  },

  updates() {
    const things = fresh("updates");
    for (const [n, test] of plain.updates.entries()) {
      if (test.before) things.insertOne({ _id: n, ...test.before });
      const options = {};
      if (test.filters) options.arrayFilters = test.filters;
      if (test.upsert) options.upsert = true;
      const update = () => things.updateOne({ _id: n, ...test.where }, test.update, options);
      if (test.code) {
        refused(update, test.code);
        continue;
      }
      update();
      alike(things.findOne({ _id: n }, { _id: 0 }), test.after);
    }
  },

  "find-and-modify"() {
    const jobs = fresh("jobs", range(5, (n) => ({ _id: n, state: "new", rank: -n })));
    const take = { $set: { state: "taken" } };
    equal(jobs.findOneAndUpdate({ state: "new" }, take, { sort: { rank: 1 } })._id, 4);
    equal(jobs.findAndModify({ query: { state: "new" }, sort: { rank: 1 }, update: take, new: true }).state, "taken");
    equal(jobs.findOneAndReplace({ _id: 0 }, { x: 1 }, { returnDocument: "after" }).x, 1);
    equal(jobs.findOneAndDelete({ state: "taken" }, { sort: { _id: -1 } })._id, 4);
    equal(jobs.findAndModify({ query: { _id: 0 }, remove: true }).x, 1);
    equal(jobs.findOneAndUpdate({ _id: 77 }, take), null);
  },

  indexes() {
    const users = fresh("users", range(30, (n) => ({ _id: n, mail: `m${n}`, town: `t${n % 3}` })));
    equal(users.createIndex({ mail: 1 }, { unique: true }), "mail_1");
    same(users.createIndexes([{ town: 1, age: -1 }, { nick: 1 }]), ["town_1_age_-1", "nick_1"]);
    same(users.getIndexes().map((index) => index.name).sort(), ["_id_", "mail_1", "nick_1", "town_1_age_-1"]);
    same(users.getIndexKeys().length, 4);
    const error = refused(() => users.insertOne({ mail: "m3" }), 11000);
    same(error.errorResponse?.keyValue ?? error.keyValue, { mail: "m3" });
    users.dropIndex("nick_1");
    refused(() => users.dropIndex("nick_1"), 27);
    users.dropIndexes();
    equal(users.getIndexes().length, 1);
  },

  aggregate() {
    collections();
    for (const test of plain.aggregates) alike(db[test.of].aggregate(test.pipeline).toArray(), test.rows);
    equal(db.sales.aggregate([{ $sample: { size: 5 } }]).toArray().length, 5);
    same(db.aggregate([{ $documents: [{ a: 1 }] }]).toArray(), [{ a: 1 }]);
  },

  cursors() {
    const rows = fresh("rows", range(2000, (n) => ({ _id: n })));
    let n = 0;
    rows.find().sort({ _id: 1 }).batchSize(37).forEach((row) => equal(row._id, n++));
    equal(n, 2000);
    const cursor = rows.find().batchSize(10);
    cursor.next();
    equal(cursor.objsLeftInBatch(), 9);
    cursor.close();
    const { cursor: begun } = db.runCommand({ find: "rows", batchSize: 5 });
    same(db.runCommand({ killCursors: "rows", cursors: [begun.id] }).cursorsKilled.length, 1);
    refused(() => db.runCommand({ getMore: begun.id, collection: "rows" }), 43);
  },

  transactions() {
    fresh("accounts", [{ _id: "a", sum: 100 }]);
    const session = client.startSession();
    const accounts = session.getDatabase(db.getName()).accounts;
    session.startTransaction({ readConcern: { level: "snapshot" }, writeConcern: { w: "majority" } });
    accounts.updateOne({ _id: "a" }, { $inc: { sum: -10 } });
    equal(db.accounts.findOne().sum, 100);
    session.commitTransaction();
    equal(db.accounts.findOne().sum, 90);
    session.startTransaction();
    accounts.insertOne({ _id: "b" });
    session.abortTransaction();
    equal(db.accounts.countDocuments({}), 1);
    session.startTransaction();
    equal(accounts.findOne().sum, 90);
    db.accounts.updateOne({ _id: "a" }, { $set: { sum: 1 } });
    const error = refused(() => {
      accounts.updateOne({ _id: "a" }, { $set: { sum: 2 } });
      session.commitTransaction();
    }, 112);
    ok((error.errorLabels ?? [...error.errorLabelSet]).includes("TransientTransactionError"));
    session.endSession();
    equal(db.accounts.findOne().sum, 1);
  },

  retries() {
    const things = fresh("retries", [{ _id: 1, n: 0 }]);
    const cut = connect(CUT).getSiblingDB(db.getName()).retries;
    cut.insertOne({ _id: 2, note: "cut reply msh1" });
    cut.updateOne({ _id: 1 }, { $inc: { n: 1 }, $set: { note: "cut reply msh2" } });
    equal(things.findOne({ _id: 1 }).n, 1);
    equal(things.countDocuments({}), 2);
  },

  streams() {
    const things = fresh("streams");
    db.createCollection("streams", { changeStreamPreAndPostImages: { enabled: true } });
    const stream = things.watch([], { fullDocument: "updateLookup", maxAwaitTimeMS: 500 });
    equal(stream.tryNext(), null);
    things.insertOne({ _id: 1, n: 1 });
    things.updateOne({ _id: 1 }, { $set: { n: 2 } });
    const first = stream.next();
    same([first.operationType, stream.next().updateDescription.updatedFields], ["insert", { n: 2 }]);
    stream.close();
    const resumed = things.watch([], { resumeAfter: first._id });
    equal(resumed.next().operationType, "update");
    resumed.close();
    const ofDatabase = db.watch([], { maxAwaitTimeMS: 500 });
    equal(ofDatabase.tryNext(), null);
    things.deleteOne({ _id: 1 });
    equal(ofDatabase.next().operationType, "delete");
    ofDatabase.close();
  },

  causal() {
    fresh("causal");
    const session = client.startSession({ causalConsistency: true });
    const things = session.getDatabase(db.getName()).causal;
    things.insertOne({ _id: 1 });
    equal(things.findOne()._id, 1);
    session.endSession();
  },

  concerns() {
    const things = fresh("concerns");
    things.insertOne({ _id: 1 }, { writeConcern: { w: "majority", j: true } });
    things.insertOne({ _id: 2 }, { writeConcern: { w: 0 } });
    equal(things.find({ _id: 1 }).readConcern("majority").readPref("nearest").toArray().length, 1);
    refused(() => things.insertOne({ _id: 3 }, { writeConcern: { w: 5 } }), 2);
  },

  gridfs() {
    without("gridfs", "all", "the shell has no GridFS");
  },

  catalog() {
    const other = db.getSiblingDB("catalog_other");
    other.dropDatabase();
    other.createCollection("one");
    other.two.insertOne({ _id: 1 });
    other.getCollection("with.dots").insertOne({ _id: 1 });
    ok(client.getDBNames().includes("catalog_other"));
    same(other.getCollectionNames().sort(), ["one", "two", "with.dots"]);
    equal(other.getCollectionInfos({ name: "two" })[0].type, "collection");
    other.createCollection("one");
    refused(() => other.createCollection("one", { validationLevel: "strict" }), 48);
    other.two.renameCollection("three");
    refused(() => other.three.renameCollection("one"), 48);
    other.three.renameCollection("one", true);
    same([other.stats().collections, other.one.stats().count], [2, 1]);
    ok(other.one.validate().valid && other.one.drop());
    other.dropDatabase();
    ok(!client.getDBNames().includes("catalog_other"));
  },

  errors() {
    commands("errors");
    fresh("errors", [{ _id: 1 }]);
    equal(refused(() => db.errors.insertOne({ _id: 1 }), 11000).name, "MongoServerError");
  },

  "max-time"() {
    const slow = fresh("slow", range(1000, (n) => ({ _id: n })));
    refused(() => slow.aggregate(plain.slow, { maxTimeMS: 30 }).toArray(), 50);
    equal(slow.find().maxTimeMS(60_000).toArray().length, 1000);
  },

  explain() {
    const things = fresh("plans", range(100, (n) => ({ _id: n, a: n % 5 })));
    things.createIndex({ a: 1 });
    const plan = things.find({ a: 3 }).explain("executionStats");
    same([plan.queryPlanner.winningPlan.inputStage.indexName, plan.executionStats.nReturned], ["a_1", 20]);
    equal(things.explain().find({ b: 3 }).finish().queryPlanner.winningPlan.stage, "COLLSCAN");
    for (const explained of [
      things.explain("executionStats").aggregate([{ $match: { a: 1 } }, { $group: { _id: "$a" } }]),
      things.explain().update({ a: 1 }, { $set: { b: 1 } }),
      things.explain().remove({ a: 1 }),
      things.explain().count({ a: 1 }),
      things.explain().distinct("a"),
      things.explain().findAndModify({ query: { a: 1 }, update: { $set: { b: 1 } } }),
    ]) {
      ok(explained.queryPlanner ?? explained.stages);
    }
    equal(things.countDocuments({ b: 1 }), 0);
  },

  refusals() {
    commands("refusals");
  },

  helpers() {
    const lines = [
      "use scenario_helpers",
      "db.dropDatabase()",
      "for (let n = 0; n < 45; n += 1) db.c.insertOne({ _id: n })",
      "show dbs",
      "show collections",
      "db.stats().collections",
      "db.c.stats().count",
      "db.c.find()",
      "it",
      "it",
      "it",
      "db.c.getIndexes()",
      "db.c.validate().valid",
      "db.c.isCapped()",
      "db.serverStatus().process",
      "db.hostInfo().ok",
      "db.hello().msg",
      "db.listCommands()",
      "show users",
      "show logs",
      "db.nothing.find()",
      "db.dropDatabase()",
    ];
    const text = typed(OPEN, lines);
    for (const part of ["scenario_helpers", '"it" for more', "{ _id: 44 }", "no cursor", "flagstone", "isdbgrid", "_id_", "whatsmyuri"]) {
      ok(text.includes(part), `no ${part} in ${text.slice(-3000)}`);
    }
    ok(!/Error/.test(text), text.slice(-3000));
    for (const [line, reason] of [
      ["db.currentOp()", "the server does not list what runs"],
      ["db.adminCommand({ top: 1 })", "the server has no counters for each collection"],
      ["show roles", "there are three roles, and no others can be made"],
      ["show profile", "slow commands go to the log: --slow-ms"],
      ["db.getProfilingStatus()", "slow commands go to the log: --slow-ms"],
      ["db.c.latencyStats()", "latencies are in /metrics"],
      ["rs.status()", "the server is alone"],
      ["sh.status()", "the server is alone"],
    ]) {
      if (/Error/.test(typed(OPEN, [line]))) without("helpers", line, reason);
    }
  },
};

let failures = 0;
db.dropDatabase();
for (const [name, step] of Object.entries(steps)) {
  try {
    step();
    print(`ok ${name}`);
  } catch (error) {
    failures += 1;
    print(`FAILED ${name}: ${error.name}: ${error.message}`.replaceAll("\n", " ").slice(0, 600));
    if (process.env.FLAGSTONE_TRACE) print(error.stack);
  }
}
quit(failures > 0 ? 1 : 0);
