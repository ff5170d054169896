// The scenario of `cargo xtask clients` with the Node driver.
"use strict";
const assert = require("node:assert");
const { Readable } = require("node:stream");
const { pipeline } = require("node:stream/promises");
const mongodb = require("mongodb");
const { cases, plain, without, refused, fresh, collections, range, run } = require("./steps.js");

const { BSON, GridFSBucket, Long, MongoClient, ObjectId, ReadPreference, Timestamp } = mongodb;
const { MongoServerError, MongoBulkWriteError, MongoNetworkError } = mongodb;
const { deepStrictEqual: same, ok, strictEqual: equal } = assert;

const OPEN = `mongodb://${process.env.FLAGSTONE_OPEN}`;
const CUT = `mongodb://${process.env.FLAGSTONE_CUT}`;
const SECURE = `mongodb://${process.env.FLAGSTONE_SECURE}`;
const TRUST = { tls: true, tlsCAFile: process.env.FLAGSTONE_CA };
const RAW = { promoteValues: false, promoteLongs: false, promoteBuffers: false, bsonRegExp: true };

async function using(uri, options, work) {
  const client = new MongoClient(uri, options);
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

const steps = {
  async connect(db) {
    equal((await db.command({ ping: 1 })).ok, 1);
    const hello = await db.command({ hello: 1 });
    ok(hello.isWritablePrimary && hello.maxWireVersion >= 21);
    await refused(() => db.command({ noSuchCommand: 1 }), MongoServerError, 59);
    await using(OPEN, { maxPoolSize: 4, compressors: ["zlib"], appName: "scenario" }, async (client) => {
      const pings = range(8, () => client.db("admin").command({ ping: 1 }));
      same((await Promise.all(pings)).map((reply) => reply.ok), Array(8).fill(1));
    });
  },

  async login() {
    const secure = (username, password, work) =>
      using(SECURE, { ...TRUST, auth: { username, password } }, work);
    await secure("ada", "secret", async (root) => {
      await root.db("shop").collection("orders").deleteMany({});
      await root.db("shop").collection("orders").insertOne({ _id: 1 });
      await root.db("admin").removeUser("reader").catch((error) => equal(error.code, 11));
      const roles = [{ role: "read", db: "shop" }];
      await root.db("admin").command({ createUser: "reader", pwd: "r e@d/er", roles });
    });
    for (const name of ["ada", "nobody"]) {
      await secure(name, "wrong", (client) =>
        refused(() => client.db("shop").collection("orders").findOne(), MongoServerError, 18));
    }
    await secure("reader", "r e@d/er", async (reader) => {
      const orders = reader.db("shop").collection("orders");
      same(await orders.findOne(), { _id: 1 });
      await refused(() => orders.insertOne({ _id: 2 }), MongoServerError, 13);
      await refused(() => reader.db("other").collection("a").findOne(), MongoServerError, 13);
      const { databases } = await reader.db().admin().listDatabases();
      same(databases.map((found) => found.name), ["shop"]);
    });
    await using(SECURE, TRUST, (nobody) =>
      refused(() => nobody.db("shop").collection("orders").findOne(), MongoServerError, 13));
    const short = { serverSelectionTimeoutMS: 1500 };
    for (const options of [short, { ...short, tls: true }]) {
      await using(SECURE, options, (client) =>
        refused(() => client.db("admin").command({ ping: 1 }), mongodb.MongoServerSelectionError));
    }
  },

  async types(db) {
    const things = await fresh(db, "types");
    const keys = await fresh(db, "keys");
    const document = { _id: "all", ...cases.types };
    const bytes = (value) => Buffer.from(BSON.serialize(value)).toString("hex");
    await things.insertOne(document);
    equal(bytes(await things.findOne({ _id: "all" }, RAW)), bytes(document));
    for (const [name, value] of Object.entries(cases.types)) {
      const found = await things.countDocuments({ [name]: value });
      if (name === "regex") {
        equal(found, 0);
        without("types", "a stored pattern as filter", "a pattern finds texts only");
      } else {
        equal(found, 1, name);
      }
      // The driver makes an ObjectId where a document has no _id, or null.
      if (name === "null") continue;
      const key = { _id: value, name };
      if (["list", "regex", "db-ref"].includes(name)) {
        await refused(() => keys.insertOne(key), MongoServerError);
        continue;
      }
      try {
        await keys.insertOne(key);
      } catch (error) {
        equal(error.code, 11000, `${name}: ${error.message}`);
        ok(["int64", "double"].includes(name), name);
        continue;
      }
      equal(bytes(await keys.findOne({ _id: value }, RAW)), bytes(key), name);
    }
    const large = { _id: "large", text: "x".repeat(15 << 20) };
    await things.insertOne(large);
    same(await things.findOne({ _id: "large" }), large);
    await refused(() => things.insertOne({ text: "x".repeat(17 << 20) }), Error);
  },

  async crud(db) {
    const orders = await fresh(db, "orders", range(30, (n) => ({ _id: n, n, m: n % 3 })));
    ok((await orders.insertOne({ customer: "ada", total: 3 })).insertedId instanceof ObjectId);
    const found = orders.find({ n: { $gte: 10 } }, { projection: { _id: 0, n: 1 } });
    same(await found.sort({ m: -1, n: 1 }).skip(1).limit(2).toArray(), [{ n: 14 }, { n: 17 }]);
    equal(await orders.countDocuments({ m: 1 }), 10);
    equal(await orders.countDocuments({}, { skip: 5, limit: 10 }), 10);
    equal(await orders.estimatedDocumentCount(), 31);
    same((await orders.distinct("m", { n: { $lt: 2 } })).sort(), [0, 1]);
    const replaced = await orders.replaceOne({ _id: 1 }, { n: "one" });
    same([replaced.matchedCount, replaced.modifiedCount], [1, 1]);
    const upserted = await orders.replaceOne({ _id: 100 }, { n: 100 }, { upsert: true });
    same([upserted.upsertedId, upserted.matchedCount], [100, 0]);
    const equals = await orders.updateOne({ _id: 1 }, { $set: { n: "one" } });
    same([equals.matchedCount, equals.modifiedCount], [1, 0]);
    const many = await orders.updateMany({ m: 2 }, { $set: { seen: true } });
    same([many.matchedCount, many.modifiedCount], [10, 10]);
    equal((await orders.deleteOne({ m: 2 })).deletedCount, 1);
    equal((await orders.deleteMany({ m: 2 })).deletedCount, 9);
    equal(await orders.findOne({ _id: "nothing" }), null);
    equal((await orders.findOne({ customer: /^A/i })).total, 3);
  },

  async bulk(db) {
    const things = await fresh(db, "bulk");
    const done = await things.bulkWrite([
      { insertOne: { document: { _id: 1 } } },
      { insertOne: { document: { _id: 2 } } },
      { updateOne: { filter: { _id: 1 }, update: { $set: { a: 1 } } } },
      { updateMany: { filter: {}, update: { $inc: { b: 1 } } } },
      { replaceOne: { filter: { _id: 3 }, replacement: { c: 3 }, upsert: true } },
      { updateOne: { filter: { _id: 4 }, update: { $set: { c: 4 } }, upsert: true } },
      { deleteOne: { filter: { _id: 2 } } },
      { deleteMany: { filter: { c: 4 } } },
    ]);
    same([done.insertedCount, done.matchedCount, done.modifiedCount, done.deletedCount], [2, 3, 3, 2]);
    same(done.upsertedIds, { 4: 3, 5: 4 });
    const work = [
      { insertOne: { document: { _id: 1 } } },
      { insertOne: { document: { _id: 9 } } },
      { deleteOne: { filter: { _id: 3 } } },
    ];
    let error = await refused(() => things.bulkWrite(work), MongoBulkWriteError, 11000);
    same([error.insertedCount, error.deletedCount, error.writeErrors[0].index], [0, 0, 0]);
    error = await refused(() => things.bulkWrite(work, { ordered: false }), MongoBulkWriteError, 11000);
    same([error.insertedCount, error.deletedCount], [1, 1]);
    const rows = range(120_000, (n) => ({ _id: n + 100, text: "x".repeat(100) }));
    equal((await things.insertMany(rows, { ordered: false })).insertedCount, 120_000);
    equal((await things.deleteMany({ _id: { $gte: 100 } })).deletedCount, 120_000);
  },

  async updates(db) {
    const things = await fresh(db, "updates");
    for (const [n, test] of plain.updates.entries()) {
      if (test.before) await things.insertOne({ _id: n, ...test.before });
      const options = { arrayFilters: test.filters, upsert: test.upsert };
      const update = () => things.updateOne({ _id: n, ...test.where }, test.update, options);
      if (test.code) {
        // The driver itself refuses an update that begins with no operator.
        await refused(update, MongoServerError, test.code);
        continue;
      }
      await update();
      same(await things.findOne({ _id: n }, { projection: { _id: 0 } }), test.after);
    }
    const now = { $currentDate: { d: true, t: { $type: "timestamp" } } };
    await things.updateOne({ _id: "now" }, now, { upsert: true });
    const found = await things.findOne({ _id: "now" });
    ok(found.d instanceof Date && found.t instanceof Timestamp);
  },

  async "find-and-modify"(db) {
    const jobs = await fresh(db, "jobs", range(5, (n) => ({ _id: n, state: "new", rank: -n })));
    const take = { $set: { state: "taken" } };
    const options = { sort: { rank: 1 } };
    same(await jobs.findOneAndUpdate({ state: "new" }, take, options), { _id: 4, state: "new", rank: -4 });
    const after = { returnDocument: "after" };
    const taken = await jobs.findOneAndUpdate({ state: "new" }, take, { ...options, ...after, projection: { state: 1 } });
    same(taken, { _id: 3, state: "taken" });
    const made = await jobs.findOneAndUpdate({ _id: "counter" }, { $inc: { n: 1 } }, { upsert: true, ...after });
    same(made, { _id: "counter", n: 1 });
    equal(await jobs.findOneAndUpdate({ _id: 77 }, take), null);
    equal((await jobs.findOneAndReplace({ _id: 0 }, { x: 1 })).state, "new");
    same(await jobs.findOne({ _id: 0 }), { _id: 0, x: 1 });
    equal((await jobs.findOneAndDelete({ state: "taken" }, { sort: { _id: -1 } }))._id, 4);
    await jobs.updateOne({ _id: 1 }, { $set: { list: [1, 2] } });
    const filters = { arrayFilters: [{ x: 2 }], includeResultMetadata: true, ...after };
    const changed = await jobs.findOneAndUpdate({ _id: 1 }, { $inc: { "list.$[x]": 5 } }, filters);
    same([changed.value.list, changed.lastErrorObject.updatedExisting], [[1, 7], true]);
  },

  async indexes(db) {
    const users = await fresh(db, "users");
    equal(await users.createIndex({ mail: 1 }, { unique: true }), "mail_1");
    const names = await users.createIndexes([
      { key: { town: 1, age: -1 }, name: "town_age" },
      { key: { nick: 1 }, sparse: true },
      { key: { born: 1 }, expireAfterSeconds: 3600 },
      { key: { score: 1 }, partialFilterExpression: { score: { $gt: 10 } } },
    ]);
    same(names, ["town_age", "nick_1", "born_1", "score_1"]);
    const listed = Object.fromEntries((await users.indexes()).map((index) => [index.name, index]));
    equal(Object.keys(listed).length, 6);
    ok(listed.mail_1.unique && listed.nick_1.sparse && listed.born_1.expireAfterSeconds === 3600);
    same(listed.score_1.partialFilterExpression, { score: { $gt: 10 } });
    await users.insertMany(range(30, (n) => ({ _id: n, mail: `m${n}`, town: `t${n % 3}`, age: n })));
    const error = await refused(() => users.insertOne({ mail: "m3" }), MongoServerError, 11000);
    same([error.keyPattern, error.keyValue], [{ mail: 1 }, { mail: "m3" }]);
    const other = { $set: { mail: "m2" } };
    await refused(() => users.updateOne({ _id: 1 }, other), MongoServerError, 11000);
    await refused(() => users.findOneAndUpdate({ _id: 1 }, other), MongoServerError, 11000);
    equal((await users.find({ town: "t1" }).hint("town_age").sort({ age: -1 }).next()).age, 28);
    equal((await users.find({ town: "t1" }).hint({ town: 1, age: -1 }).toArray()).length, 10);
    await refused(() => users.find().hint("no_such_index").next(), MongoServerError, 2);
    await refused(() => users.createIndex({ other: 1 }, { name: "town_age" }), MongoServerError, 86);
    await refused(() => users.createIndex({ town: 1 }, { unique: true }), MongoServerError, 11000);
    await users.dropIndex("town_age");
    await refused(() => users.dropIndex("town_age"), MongoServerError, 27);
    await users.dropIndexes();
    equal((await users.indexes()).length, 1);
  },

  async aggregate(db) {
    await collections(db);
    for (const test of plain.aggregates) {
      same(await db.collection(test.of).aggregate(test.pipeline).toArray(), test.rows);
    }
    const sales = db.collection("sales");
    const sorted = [{ $sort: { total: -1 } }, { $project: { total: 1 } }];
    const rows = await sales.aggregate(sorted, { batchSize: 7, allowDiskUse: true }).toArray();
    same(rows.map((row) => row.total), range(40, (n) => 39 - n));
    equal((await sales.aggregate([{ $sample: { size: 5 } }]).toArray()).length, 5);
    const group = { $group: { _id: "$c", n: { $sum: 1 } } };
    try {
      await sales.aggregate([group, { $out: "totals" }]).toArray();
      equal(await db.collection("totals").countDocuments(), 4);
    } catch (error) {
      equal(error.code, 115, error.message);
      without("aggregate", "$out and $merge", "the server refuses them");
    }
  },

  async cursors(db) {
    const rows = await fresh(db, "rows", range(5000, (n) => ({ _id: n, pad: "x".repeat(50) })));
    let n = 0;
    for await (const row of rows.find().sort({ _id: 1 }).batchSize(37)) equal(row._id, n++);
    equal(n, 5000);
    equal((await rows.find().batchSize(1000).limit(3000).toArray()).length, 3000);
    let cursor = rows.find({}, { batchSize: 10 });
    await cursor.next();
    const id = cursor.id;
    ok(id && !id.isZero(), "the cursor ends with its first batch");
    await cursor.close();
    await refused(() => db.command({ getMore: id, collection: "rows" }), MongoServerError, 43);
    cursor = rows.find({}, { batchSize: 10 });
    await cursor.next();
    const killed = await db.command({ killCursors: "rows", cursors: [cursor.id, Long.fromNumber(77)] });
    same([killed.cursorsKilled.length, killed.cursorsNotFound.length], [1, 1]);
    await refused(() => cursor.toArray(), MongoServerError, 43);
    equal((await rows.find().stream().take(10).toArray()).length, 10);
  },

  async transactions(db, client) {
    const accounts = await fresh(db, "accounts", [{ _id: "a", sum: 100 }, { _id: "b", sum: 0 }]);
    const sums = async () => (await accounts.find().sort({ _id: 1 }).toArray()).map((row) => row.sum);
    const move = async (session) => {
      await accounts.updateOne({ _id: "a" }, { $inc: { sum: -10 } }, { session });
      await accounts.updateOne({ _id: "b" }, { $inc: { sum: 10 } }, { session });
    };
    await client.withSession(async (session) => {
      await session.withTransaction(move);
      same(await sums(), [90, 10]);
      session.startTransaction();
      await move(session);
      equal((await accounts.findOne({ _id: "a" }, { session })).sum, 80);
      await session.abortTransaction();
      same(await sums(), [90, 10]);
      let tries = 0;
      await session.withTransaction(async () => {
        tries += 1;
        const before = await accounts.findOne({ _id: "a" }, { session });
        if (tries === 1) await accounts.updateOne({ _id: "a" }, { $inc: { sum: 1 } });
        await accounts.updateOne({ _id: "a" }, { $set: { sum: before.sum + 5 } }, { session });
      });
      same([tries, (await sums())[0]], [2, 96]);
      session.startTransaction({ readConcern: { level: "snapshot" }, writeConcern: { w: "majority" } });
      await accounts.insertOne({ _id: "c" }, { session });
      equal((await accounts.aggregate([{ $match: {} }], { session }).toArray()).length, 3);
      await session.commitTransaction();
      await session.commitTransaction();
      session.startTransaction();
      await refused(() => accounts.insertOne({ _id: "c" }, { session }), MongoServerError, 11000);
      const error = await refused(() => accounts.findOne({}, { session }), MongoServerError, 251);
      ok(error.hasErrorLabel("TransientTransactionError"));
      await session.abortTransaction();
    });
    await client.withSession((first) => client.withSession(async (second) => {
      first.startTransaction();
      second.startTransaction();
      await accounts.updateOne({ _id: "a" }, { $set: { by: 1 } }, { session: first });
      const both = async () => {
        await accounts.updateOne({ _id: "a" }, { $set: { by: 2 } }, { session: second });
        await first.commitTransaction();
        await second.commitTransaction();
      };
      const error = await refused(both, MongoServerError, 112);
      ok(error.hasErrorLabel("TransientTransactionError"));
      if (first.inTransaction()) await first.commitTransaction();
    }));
  },

  async retries(db) {
    const things = await fresh(db, "retries", [{ _id: 1, n: 0 }]);
    const more = (note) => ({ $inc: { n: 1 }, $set: { note } });
    await using(CUT, {}, async (client) => {
      const cut = client.db(db.databaseName).collection("retries");
      await cut.insertOne({ _id: 2, note: "cut reply js1" });
      await cut.updateOne({ _id: 1 }, more("cut reply js2"));
      equal((await cut.findOneAndUpdate({ _id: 1 }, more("cut reply js3"))).n, 1);
      await cut.deleteOne({ _id: 2, x: { $ne: "cut reply js4" } });
      await cut.insertMany(range(10, (n) => ({ _id: n + 10, note: "cut reply js5" })));
      const done = await cut.bulkWrite([
        { updateOne: { filter: { _id: 1 }, update: more("cut reply js6") } },
        { insertOne: { document: { _id: 20 } } },
      ]);
      same([done.modifiedCount, done.insertedCount], [1, 1]);
      equal((await cut.findOne({ _id: 1, x: { $ne: "cut reply js7" } })).n, 3);
      equal(await things.countDocuments(), 12);
      await client.withSession((session) => session.withTransaction(async () => {
        await cut.updateOne({ _id: 1 }, { $inc: { n: 1 } }, { session });
        await cut.insertOne({ note: "cut reply js9" }, { session });
      }));
    });
    await using(CUT, { retryWrites: false }, (client) =>
      refused(() => client.db("scenario").collection("retries").insertOne({ note: "cut reply js8" }), MongoNetworkError));
    equal((await things.findOne({ _id: 1 })).n, 4);
  },

  async streams(db, client) {
    const things = await fresh(db, "streams");
    await db.createCollection("streams", { changeStreamPreAndPostImages: { enabled: true } });
    const full = { fullDocument: "updateLookup", fullDocumentBeforeChange: "whenAvailable", maxAwaitTimeMS: 500 };
    const stream = things.watch([], full);
    equal(await stream.tryNext(), null);
    await things.insertOne({ _id: 1, n: 1 });
    await things.updateOne({ _id: 1 }, { $set: { n: 2 } });
    await things.replaceOne({ _id: 1 }, { m: 3 });
    await things.deleteOne({ _id: 1 });
    const events = [];
    while (events.length < 4) events.push(await stream.next());
    await stream.close();
    for (const event of events) {
      same([event.ns, event.documentKey], [{ db: db.databaseName, coll: "streams" }, { _id: 1 }]);
    }
    const kinds = events.map((event) => event.operationType);
    same([kinds[0], kinds[1], kinds[3]], ["insert", "update", "delete"]);
    same(events[1].updateDescription.updatedFields, { n: 2 });
    same(events[1].fullDocumentBeforeChange, { _id: 1, n: 1 });
    if (kinds[2] !== "replace") {
      without("streams", "replace events", "a replacement is an update with the difference");
    }
    for (const [options, kind] of [[{ resumeAfter: events[0]._id }, "update"], [{ startAfter: events[2]._id }, "delete"]]) {
      const resumed = things.watch([], options);
      equal((await resumed.next()).operationType, kind);
      await resumed.close();
    }
    const only = things.watch([{ $match: { operationType: "insert" } }, { $project: { fullDocument: 1 } }]);
    try {
      await only.tryNext();
      await things.insertOne({ _id: 5 });
      await things.deleteOne({ _id: 5 });
      await things.insertOne({ _id: 6 });
      same([(await only.next()).fullDocument, (await only.next()).fullDocument], [{ _id: 5 }, { _id: 6 }]);
    } catch (error) {
      equal(error.code, 115, error.message);
      without("streams", "stages after $changeStream", "the server refuses them");
    }
    await only.close();
    for (const wide of [db.watch([], { maxAwaitTimeMS: 500 }), client.watch([], { maxAwaitTimeMS: 500 })]) {
      await wide.tryNext();
      await db.collection("streams_b").insertOne({});
      same((await wide.next()).ns, { db: db.databaseName, coll: "streams_b" });
      await wide.close();
    }
    await using(CUT, {}, async (through) => {
      const cut = through.db(db.databaseName).collection("streams").watch([], { maxAwaitTimeMS: 500 });
      await cut.tryNext();
      await things.insertOne({ _id: 10 });
      equal((await cut.next()).documentKey._id, 10);
      await things.insertOne({ _id: 11, note: "cut event js1" });
      await things.insertOne({ _id: 12 });
      same([(await cut.next()).documentKey._id, (await cut.next()).documentKey._id], [11, 12]);
      await cut.close();
    });
    const last = things.watch([], { maxAwaitTimeMS: 500 });
    await last.tryNext();
    await things.drop();
    const ends = [];
    while (ends.length < 2) ends.push((await last.next()).operationType);
    ok(last.closed);
    same(ends, ["drop", "invalidate"]);
    const forged = things.watch([], { resumeAfter: { _data: "forged" } });
    await refused(() => forged.next(), MongoServerError);
    await db.collection("streams_b").drop();
  },

  async causal(db, client) {
    const things = await fresh(db, "causal", [{ _id: 1, n: 0 }]);
    await client.withSession({ causalConsistency: true }, async (session) => {
      for (let n = 1; n < 20; n += 1) {
        await things.updateOne({ _id: 1 }, { $set: { n } }, { session });
        equal((await things.findOne({ _id: 1 }, { session })).n, n);
      }
      equal(Boolean(session.operationTime && session.clusterTime), true);
    });
    await client.withSession({ snapshot: true }, async (session) => {
      await refused(() => things.findOne({}, { session }), MongoServerError, 115);
      without("causal", "snapshot sessions", "refused: a transaction reads one snapshot");
    });
  },

  async concerns(db) {
    await fresh(db, "concerns");
    for (const [n, writeConcern] of [{ w: 1 }, { w: "majority" }, { w: 1, j: true }, { w: "majority", wtimeoutMS: 1000 }].entries()) {
      await db.collection("concerns", { writeConcern }).insertOne({ _id: n });
    }
    const zero = await db.collection("concerns", { writeConcern: { w: 0 } }).insertOne({ _id: "zero" });
    equal(zero.acknowledged, false);
    const things = db.collection("concerns");
    for (let n = 0; n < 100 && (await things.countDocuments()) < 5; n += 1) await new Promise((done) => setTimeout(done, 20));
    equal(await things.countDocuments(), 5);
    for (const level of ["local", "available", "majority", "linearizable"]) {
      same(await db.collection("concerns", { readConcern: { level } }).findOne({ _id: 1 }), { _id: 1 });
    }
    for (const mode of [ReadPreference.PRIMARY, ReadPreference.SECONDARY_PREFERRED, ReadPreference.NEAREST]) {
      same(await db.collection("concerns", { readPreference: mode }).findOne({ _id: 1 }), { _id: 1 });
    }
    const five = db.collection("concerns", { writeConcern: { w: 5 } });
    await refused(() => five.insertOne({ _id: "five" }), MongoServerError, 2);
  },

  async gridfs(db) {
    for (const name of ["fs.files", "fs.chunks"]) await db.collection(name).drop();
    const bucket = new GridFSBucket(db, { chunkSizeBytes: 1000 });
    const content = Buffer.from(range(1_234_567, (n) => n % 251));
    const upload = bucket.openUploadStream("film.bin", { metadata: { kind: "film" } });
    await pipeline(Readable.from([content]), upload);
    const read = async (stream) => Buffer.concat(await stream.toArray());
    ok(content.equals(await read(bucket.openDownloadStream(upload.id))), "other bytes come back");
    equal(await db.collection("fs.chunks").countDocuments(), 1235);
    await pipeline(Readable.from([Buffer.from("second")]), bucket.openUploadStream("film.bin"));
    equal(String(await read(bucket.openDownloadStreamByName("film.bin"))), "second");
    const part = await read(bucket.openDownloadStream(upload.id, { start: 1_000_001, end: 1_000_011 }));
    ok(part.equals(content.subarray(1_000_001, 1_000_011)), "a part");
    equal((await bucket.find({ "metadata.kind": "film" }).toArray()).length, 1);
    await bucket.rename(upload.id, "other.bin");
    await bucket.delete(upload.id);
    await refused(() => read(bucket.openDownloadStream(upload.id)), Error);
    equal(await db.collection("fs.chunks").countDocuments({ files_id: upload.id }), 0);
  },

  async catalog(_, client) {
    const other = client.db("catalog_other");
    await other.dropDatabase();
    await other.createCollection("one");
    await other.collection("two").insertOne({ _id: 1 });
    await other.collection("two").createIndex({ a: 1 });
    await other.collection("with.dots").insertOne({ _id: 1 });
    const listed = async () => (await client.db().admin().listDatabases({ filter: { name: "catalog_other" } })).databases;
    same((await listed()).map((found) => [found.name, found.empty]), [["catalog_other", false]]);
    const names = (await other.listCollections({}, { nameOnly: true }).toArray()).map((found) => found.name);
    same(names.sort(), ["one", "two", "with.dots"]);
    equal((await other.listCollections({ name: /^t/ }).toArray())[0].idIndex.name, "_id_");
    await other.createCollection("one");
    const others = { validationLevel: "strict" };
    await refused(() => other.createCollection("one", others), MongoServerError, 48);
    await other.renameCollection("two", "three");
    same(Object.keys(await other.collection("three").indexInformation()), ["_id_", "a_1"]);
    await refused(() => other.renameCollection("three", "one"), MongoServerError, 48);
    await other.renameCollection("three", "one", { dropTarget: true });
    await refused(() => other.renameCollection("none", "some"), MongoServerError, 26);
    equal((await other.stats()).collections, 2);
    equal((await other.command({ collStats: "one" })).count, 1);
    await other.admin().validateCollection("one");
    ok(await other.dropCollection("one"));
    ok(await other.dropDatabase());
    same(await listed(), []);
  },

  async errors(db) {
    await collections(db);
    for (const { command, code } of cases.errors) {
      await refused(() => db.command(command), MongoServerError, Number(code));
    }
    const things = await fresh(db, "errors", [{ _id: 1, text: "a" }]);
    await refused(() => things.insertOne({ _id: 1 }), MongoServerError, 11000);
    await refused(() => things.insertOne({ _id: [1] }), MongoServerError);
    await refused(() => things.findOne({ text: { $regex: "(" } }), MongoServerError);
  },

  async "max-time"(db) {
    const slow = await fresh(db, "slow", range(1000, (n) => ({ _id: n })));
    await refused(() => slow.aggregate(plain.slow, { maxTimeMS: 30 }).toArray(), MongoServerError, 50);
    equal((await slow.find().maxTimeMS(60_000).toArray()).length, 1000);
    equal((await db.command({ ping: 1 })).ok, 1);
  },

  async explain(db) {
    const things = await fresh(db, "plans", range(100, (n) => ({ _id: n, a: n % 5 })));
    await things.createIndex({ a: 1 });
    const plan = await things.find({ a: 3 }).explain("executionStats");
    equal(plan.queryPlanner.winningPlan.inputStage.indexName, "a_1");
    same([plan.executionStats.nReturned, plan.executionStats.totalKeysExamined], [20, 20]);
    const whole = await things.find({ b: 3 }).explain("executionStats");
    equal(whole.queryPlanner.winningPlan.stage, "COLLSCAN");
    same([whole.executionStats.nReturned, whole.executionStats.totalDocsExamined], [0, 100]);
    ok((await things.aggregate([{ $match: { a: 1 } }, { $group: { _id: "$a" } }]).explain()).stages);
    for (const verbosity of ["queryPlanner", "executionStats", "allPlansExecution"]) {
      const explain = verbosity;
      ok((await things.updateOne({ a: 1 }, { $set: { b: 1 } }, { explain })).queryPlanner);
      ok((await things.deleteMany({ a: 1 }, { explain })).queryPlanner);
      const whole = { explain, includeResultMetadata: true };
      ok((await things.findOneAndUpdate({ a: 1 }, { $set: { b: 1 } }, whole)).queryPlanner);
      ok((await things.distinct("a", {}, { explain })).queryPlanner);
    }
    equal(await things.countDocuments({ b: 1 }), 0);
  },

  async refusals(db) {
    await collections(db);
    for (const { command, code } of cases.refusals) {
      const error = await refused(() => db.command(command), MongoServerError, Number(code));
      ok(error.codeName, JSON.stringify(command));
    }
    same(await db.listCollections({ name: "x" }).toArray(), []);
  },
};

async function main() {
  const failures = await using(OPEN, {}, async (client) => {
    const db = client.db("scenario");
    await db.dropDatabase();
    return run(steps, db, client);
  });
  process.exit(failures > 0 ? 1 : 0);
}

main();
