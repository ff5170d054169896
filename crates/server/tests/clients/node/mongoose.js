// The scenario of `cargo xtask clients` with mongoose: what its models add to the driver.
"use strict";
const assert = require("node:assert");
const mongoose = require("mongoose");
const { plain, without, range, run } = require("./steps.js");

const { deepStrictEqual: same, ok, strictEqual: equal } = assert;
const { Schema } = mongoose;
const { MongoServerError, MongoBulkWriteError, GridFSBucket } = mongoose.mongo;

const OPEN = `mongodb://${process.env.FLAGSTONE_OPEN}/scenario_mongoose`;
const CUT = `mongodb://${process.env.FLAGSTONE_CUT}/scenario_mongoose`;
const SECURE = `mongodb://${process.env.FLAGSTONE_SECURE}/shop`;

async function refused(work, kind, code) {
  await assert.rejects(work, (error) => {
    ok(error instanceof kind, error.stack);
    if (code !== undefined) equal(error.code, code, error.message);
    return true;
  });
}

const authorSchema = new Schema({ name: { type: String, required: true, unique: true } });
const bookSchema = new Schema(
  {
    title: { type: String, required: true },
    author: { type: Schema.Types.ObjectId, ref: "Author", index: true },
    price: Schema.Types.Decimal128,
    pages: { type: Number, min: 1 },
    sold: { type: Schema.Types.BigInt },
    cover: Buffer,
    key: Schema.Types.UUID,
    tags: [String],
    chapters: [{ title: String, length: Number }],
    prices: { type: Map, of: Number },
    anything: Schema.Types.Mixed,
  },
  { timestamps: true, optimisticConcurrency: true },
);
bookSchema.index({ title: 1, pages: -1 });

/** Returns the models on a connection of their own. */
async function models(uri, options) {
  const connection = await mongoose.createConnection(uri, options).asPromise();
  const [Author, Book] = [connection.model("Author", authorSchema), connection.model("Book", bookSchema)];
  return { connection, Author, Book };
}

const shelf = (Book, n) => Book.insertMany(range(n, (at) => ({ title: `t${at % 10}`, pages: at + 1 })));

const steps = {
  async connect({ connection }) {
    equal(connection.readyState, 1);
    equal((await connection.db.command({ ping: 1 })).ok, 1);
  },

  async login() {
    const login = { user: "ada", pass: "secret", tls: true, tlsCAFile: process.env.FLAGSTONE_CA };
    const { connection, Author } = await models(SECURE, login);
    await Author.init();
    await Author.deleteMany();
    equal((await Author.create({ name: "ada" })).name, "ada");
    await connection.close();
    await refused(() => models(SECURE, { ...login, pass: "wrong", serverSelectionTimeoutMS: 2000 }), Error);
  },

  async types({ Book }) {
    const made = await Book.create({
      title: "all",
      price: "1.10",
      sold: 2n ** 62n,
      cover: Buffer.from([0, 255]),
      key: "01234567-89ab-4def-8123-456789abcdef",
      tags: ["a", "b"],
      chapters: [{ title: "one", length: 1.5 }],
      prices: { eur: 1, usd: 2 },
      anything: { deep: [1, "a", null, { b: new Date(0) }] },
    });
    const found = await Book.findById(made.id);
    const shown = (book) => JSON.stringify(book, (_, value) => (typeof value === "bigint" ? `${value}` : value));
    same(JSON.parse(shown(found)), JSON.parse(shown(made)));
    same([String(found.price), found.sold, found.prices.get("usd")], ["1.10", 2n ** 62n, 2]);
    ok(found.createdAt instanceof Date && found.cover.equals(Buffer.from([0, 255])));
    equal((await Book.findOne({ key: made.key }))?.id, made.id);
    equal((await Book.findOne({ sold: { $gt: 2n ** 61n } }))?.id, made.id);
  },

  async crud({ Author, Book }) {
    const ada = await Author.create({ name: "ada" });
    const book = await Book.create({ title: "notes", author: ada, pages: 3 });
    const found = await Book.findOne({ title: /^NOTES/i }).populate("author").orFail();
    equal(found.author.name, "ada");
    found.pages = 5;
    found.tags.push("x");
    await found.save();
    same([(await Book.findById(book.id).lean()).pages, found.tags.length], [5, 1]);
    await shelf(Book, 30);
    const page = await Book.find({ pages: { $gte: 10 } }).sort("-pages title").skip(1).limit(2).select("pages -_id").lean();
    same(page, [{ pages: 29 }, { pages: 28 }]);
    equal(await Book.countDocuments({ title: "t1" }), 3);
    same((await Book.distinct("title", { pages: { $lt: 3 } })).sort(), ["t0", "t1"]);
    ok(await Book.exists({ title: "notes" }));
    equal((await Book.deleteMany({ title: "t1" })).deletedCount, 3);
    await book.deleteOne();
    equal(await Book.findById(book.id), null);
  },

  async bulk({ Author, Book }) {
    const work = [
      { insertOne: { document: { title: "a" } } },
      { updateOne: { filter: { title: "b" }, update: { $set: { pages: 2 } }, upsert: true } },
      { deleteOne: { filter: { title: "none" } } },
    ];
    const done = await Book.bulkWrite(work);
    same([done.insertedCount, done.upsertedCount, done.deletedCount], [1, 1, 0]);
    const books = await Book.find();
    books.forEach((book) => book.set("pages", 9));
    equal((await Book.bulkSave(books)).modifiedCount, 2);
    await Author.init();
    const twice = [{ name: "x" }, { name: "x" }, { name: "y" }];
    await refused(() => Author.insertMany(twice, { ordered: false }), MongoBulkWriteError, 11000);
    equal(await Author.countDocuments(), 2);
  },

  async updates({ connection }) {
    const Loose = connection.models.Loose ?? connection.model("Loose", new Schema({}, { strict: false, minimize: false }));
    for (const test of plain.updates) {
      // Mongoose refuses an update of _id, and a pipeline that it is not told to be one, itself.
      if (test.code || test.update.$set?._id) continue;
      const base = { key: "k", ...test.before };
      await Loose.collection.deleteMany({});
      if (test.before) await Loose.collection.insertOne(base);
      const options = { arrayFilters: test.filters, upsert: test.upsert, updatePipeline: Array.isArray(test.update) };
      await Loose.updateOne({ ...test.where }, test.update, options);
      const found = await Loose.findOne({}, { _id: 0, __v: 0, key: 0 }).lean();
      same(found, test.after, JSON.stringify(test.update));
    }
  },

  async "find-and-modify"({ Book }) {
    await shelf(Book, 5);
    const taken = await Book.findOneAndUpdate({}, { $inc: { pages: 100 } }, { sort: { pages: -1 }, returnDocument: "after" });
    equal(taken.pages, 105);
    const made = await Book.findOneAndUpdate({ title: "new" }, { pages: 7 }, { upsert: true, returnDocument: "after", setDefaultsOnInsert: true });
    ok(made.pages === 7 && made.createdAt instanceof Date);
    equal((await Book.findByIdAndDelete(made.id)).title, "new");
    equal(await Book.findByIdAndUpdate(made.id, { pages: 1 }), null);
    equal((await Book.findOneAndReplace({ title: "t0" }, { title: "r" }, { returnDocument: "after" })).title, "r");
  },

  async indexes({ Author, Book }) {
    await Promise.all([Author.init(), Book.init()]);
    same((await Book.listIndexes()).map((index) => index.name).sort(), ["_id_", "author_1", "title_1_pages_-1"]);
    await Book.collection.createIndex({ tags: 1 });
    same(await Book.syncIndexes(), ["tags_1"]);
    same((await Book.diffIndexes()).toDrop, []);
    await Author.create({ name: "ada" });
    await refused(() => Author.create({ name: "ada" }), MongoServerError, 11000);
  },

  async aggregate({ Author, Book }) {
    const [ada, bob] = await Author.create([{ name: "ada" }, { name: "bob" }]);
    await Book.create([{ title: "a", author: ada, pages: 1 }, { title: "b", author: ada, pages: 2 }, { title: "c", author: bob, pages: 5 }]);
    const rows = await Book.aggregate()
      .group({ _id: "$author", pages: { $sum: "$pages" } })
      .lookup({ from: "authors", localField: "_id", foreignField: "_id", as: "who" })
      .unwind("who")
      .project({ _id: 0, name: "$who.name", pages: 1 })
      .sort({ name: 1 });
    same(rows, [{ pages: 3, name: "ada" }, { pages: 5, name: "bob" }]);
    const facets = await Book.aggregate().facet({ n: [{ $count: "n" }], most: [{ $sort: { pages: -1 } }, { $limit: 1 }] });
    same([facets[0].n, facets[0].most[0].title], [[{ n: 3 }], "c"]);
  },

  async cursors({ Book }) {
    await shelf(Book, 500);
    let n = 0;
    for await (const book of Book.find().sort({ pages: 1 }).cursor({ batchSize: 7 })) equal(book.pages, (n += 1));
    equal(n, 500);
    n = 0;
    await Book.find().cursor().eachAsync(() => (n += 1), { parallel: 4 });
    equal(n, 500);
  },

  async transactions({ connection, Book }) {
    await shelf(Book, 2);
    await connection.transaction(async (session) => {
      await Book.create([{ title: "in", pages: 1 }], { session });
      const book = await Book.findOne({ title: "t0" }).session(session);
      book.pages = 77;
      await book.save();
    });
    equal(await Book.countDocuments({ $or: [{ title: "in" }, { pages: 77 }] }), 2);
    const failing = connection.transaction(async (session) => {
      await Book.create([{ title: "out" }], { session });
      throw new RangeError("ends it");
    });
    await assert.rejects(failing, RangeError);
    equal(await Book.countDocuments({ title: "out" }), 0);
    let tries = 0;
    await connection.transaction(async (session) => {
      tries += 1;
      const book = await Book.findOne({ title: "t1" }).session(session);
      if (tries === 1) await Book.updateOne({ title: "t1" }, { $inc: { pages: 1 } });
      book.pages += 10;
      await book.save({ session });
    });
    same([tries, (await Book.findOne({ title: "t1" })).pages], [2, 13]);
  },

  async retries({ Book }) {
    const { connection, Book: Cut } = await models(CUT);
    const book = await Cut.create({ title: "cut reply mg1", pages: 1 });
    book.tags.push("cut reply mg2");
    book.pages += 1;
    await book.save();
    equal((await Cut.findOneAndUpdate({ _id: book.id }, { $inc: { pages: 1 }, title: "cut reply mg3" })).pages, 2);
    await connection.close();
    same((await Book.find()).map((found) => found.pages), [3]);
  },

  async streams({ Book }) {
    await Book.createCollection({ changeStreamPreAndPostImages: { enabled: true } });
    const stream = Book.watch([], { hydrate: true, fullDocument: "updateLookup" });
    await new Promise((done) => stream.once("ready", done));
    const events = [];
    stream.on("change", (event) => events.push(event));
    await new Promise((done) => setTimeout(done, 300));
    const book = await Book.create({ title: "a", pages: 1 });
    book.pages = 2;
    await book.save();
    await book.deleteOne();
    for (let n = 0; n < 100 && events.length < 3; n += 1) await new Promise((done) => setTimeout(done, 50));
    await stream.close();
    same(events.map((event) => event.operationType), ["insert", "update", "delete"]);
    ok(events[0].fullDocument instanceof Book);
  },

  async causal({ connection, Book }) {
    const session = await connection.startSession({ causalConsistency: true });
    const [book] = await Book.create([{ title: "a", pages: 1 }], { session });
    equal((await Book.findById(book.id).session(session)).pages, 1);
    await session.endSession();
  },

  async concerns({ Book }) {
    const book = await Book.create([{ title: "a" }], { writeConcern: { w: "majority", j: true } });
    ok(await Book.findById(book[0].id).read("secondaryPreferred").readConcern("majority"));
    await refused(() => Book.updateOne({ title: "a" }, { pages: 2 }, { writeConcern: { w: 5 } }), MongoServerError, 2);
  },

  async gridfs({ connection }) {
    const bucket = new GridFSBucket(connection.db, { bucketName: "covers" });
    const upload = bucket.openUploadStream("a.png");
    const done = new Promise((resolve, reject) => upload.once("finish", resolve).once("error", reject));
    upload.end(Buffer.alloc(700_000, 7));
    await done;
    const parts = await bucket.openDownloadStream(upload.id).toArray();
    ok(Buffer.concat(parts).equals(Buffer.alloc(700_000, 7)));
    await bucket.drop();
  },

  async catalog({ connection, Book }) {
    await Book.createCollection();
    ok((await connection.listCollections()).some((found) => found.name === "books"));
    ok((await connection.listDatabases()).databases.some((found) => found.name === connection.name));
    await connection.dropCollection("books");
    ok(!(await connection.listCollections()).some((found) => found.name === "books"));
  },

  async errors({ Book }) {
    await refused(() => Book.create({ pages: 0 }), mongoose.Error.ValidationError);
    await refused(() => Book.findById("no id"), mongoose.Error.CastError);
    const book = await Book.create({ title: "a", tags: ["x"] });
    const [first, second] = [await Book.findById(book.id), await Book.findById(book.id)];
    first.pages = 1;
    await first.save();
    second.pages = 2;
    await refused(() => second.save(), mongoose.Error.VersionError);
    await refused(() => Book.findOne({ title: "none" }).orFail(), mongoose.Error.DocumentNotFoundError);
  },

  async "max-time"({ connection, Book }) {
    await connection.collection("slow").insertMany(range(1000, (n) => ({ _id: n })));
    const slow = connection.model("Slow", new Schema({ _id: Number }, { collection: "slow", autoCreate: false }));
    await refused(() => slow.aggregate(plain.slow).option({ maxTimeMS: 30 }), MongoServerError, 50);
    same(await Book.find().maxTimeMS(60_000), []);
  },

  async explain({ Book }) {
    await Book.createIndexes();
    await shelf(Book, 100);
    const plan = await Book.find({ title: "t1" }).explain("executionStats");
    const found = plan.queryPlanner ?? plan[0].queryPlanner;
    equal(found.winningPlan.inputStage.indexName, "title_1_pages_-1");
    ok((await Book.aggregate([{ $match: { title: "t1" } }]).explain()).queryPlanner);
  },

  async refusals({ Book }) {
    await refused(() => Book.find({ $where: "true" }), MongoServerError, 115);
    await refused(() => Book.find().collation({ locale: "pl" }), MongoServerError, 115);
    await refused(() => Book.collection.createIndex({ title: "text" }), MongoServerError, 115);
  },
};

/** Each step begins with an empty database. */
async function main() {
  const given = await models(OPEN);
  const each = Object.entries(steps).map(([name, step]) => [
    name,
    async () => {
      await Promise.all([given.Author.init(), given.Book.init()]);
      for (const model of Object.values(given.connection.models)) await model.deleteMany({});
      await step(given);
    },
  ]);
  await given.connection.dropDatabase();
  await Promise.all([given.Author.createIndexes(), given.Book.createIndexes()]);
  const failures = await run(Object.fromEntries(each));
  await given.connection.close();
  process.exit(failures > 0 ? 1 : 0);
}

main();
