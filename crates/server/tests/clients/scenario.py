"""The scenario of `cargo xtask clients` with pymongo."""

import concurrent.futures
import datetime
import os
import re
import sys
import threading
import traceback

import bson
import gridfs
import pymongo
from bson import Int64, ObjectId, Timestamp, json_util
from pymongo import (
    DeleteMany,
    DeleteOne,
    InsertOne,
    MongoClient,
    ReplaceOne,
    ReturnDocument,
    UpdateMany,
    UpdateOne,
    errors,
)
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

OPEN = "mongodb://" + os.environ["FLAGSTONE_OPEN"]
CUT = "mongodb://" + os.environ["FLAGSTONE_CUT"]
SECURE = os.environ["FLAGSTONE_SECURE"]
CA = os.environ["FLAGSTONE_CA"]

with open(os.environ["FLAGSTONE_CASES"], encoding="utf-8") as file:
    CASES = json_util.loads(file.read(), json_options=json_util.CANONICAL_JSON_OPTIONS.with_options(tz_aware=False))
STEPS = []


def step(name):
    def add(function):
        STEPS.append((name, function))
        return function

    return add


def equal(found, expected):
    assert found == expected, f"expected {expected!r}, found {found!r}"


def raises(kind, code, function, *words, **options):
    """Calls, and returns the error, which must be of this class and code."""
    try:
        function(*words, **options)
    except kind as error:
        if code is not None:
            equal(getattr(error, "code", None), code)
        return error
    raise AssertionError(f"expected {kind} {code}, but it succeeded")


def without(name, piece, reason):
    print(f"without {name}: {piece}: {reason}")


def fresh(db, name, documents=()):
    db.drop_collection(name)
    if documents:
        db[name].insert_many(list(documents))
    return db[name]


@step("connect")
def connect(db):
    client = db.client
    equal(client.admin.command("ping")["ok"], 1.0)
    hello = client.admin.command("hello")
    assert hello["isWritablePrimary"] and hello["maxWireVersion"] >= 21, hello
    assert client.server_info()["versionArray"][0] >= 7
    raises(errors.OperationFailure, 59, client.admin.command, "noSuchCommand")
    with MongoClient(OPEN, appname="scenario", compressors="zlib", maxPoolSize=4) as other:
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(other.admin.command("ping")["ok"]))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(found, [1.0] * 8)


def secure(**options):
    return MongoClient(f"mongodb://{SECURE}", tls=True, tlsCAFile=CA, **options)


@step("login")
def login(db):
    with secure(username="ada", password="secret") as root:
        root.shop.orders.insert_one({"_id": 1})
        for user in ("reader", "writer"):
            try:
                root.admin.command("dropUser", user)
            except errors.OperationFailure as error:
                equal(error.code, 11)
        root.admin.command(
            "createUser", "reader", pwd="r e@d/er", roles=[{"role": "read", "db": "shop"}]
        )
        root.admin.command(
            "createUser", "writer", pwd="x", roles=[{"role": "readWrite", "db": "shop"}]
        )
        names = {user["user"] for user in root.admin.command("usersInfo", 1)["users"]}
        assert {"ada", "reader", "writer"} <= names, names
    with secure(username="ada", password="wrong") as wrong:
        raises(errors.OperationFailure, 18, wrong.shop.orders.find_one)
    with secure(username="nobody", password="wrong") as wrong:
        raises(errors.OperationFailure, 18, wrong.shop.orders.find_one)
    with secure() as nobody:
        raises(errors.OperationFailure, 13, nobody.shop.orders.find_one)
    with secure(username="reader", password="r e@d/er", authSource="shop") as reader:
        equal(reader.shop.orders.find_one(), {"_id": 1})
        raises(errors.OperationFailure, 13, reader.shop.orders.insert_one, {"_id": 2})
        raises(errors.OperationFailure, 13, reader.other.orders.find_one)
        equal(reader.list_database_names(), ["shop"])
    with secure(username="writer", password="x", authMechanism="SCRAM-SHA-256") as writer:
        writer.shop.orders.insert_one({"_id": 2})
        raises(errors.OperationFailure, 13, writer.admin.command, "createUser", "e", pwd="e", roles=[])
        equal(writer.shop.orders.delete_one({"_id": 2}).deleted_count, 1)
    with MongoClient(f"mongodb://{SECURE}", serverSelectionTimeoutMS=1500) as plain:
        raises(errors.PyMongoError, None, plain.admin.command, "ping")
    with MongoClient(
        f"mongodb://{SECURE}", tls=True, serverSelectionTimeoutMS=1500
    ) as untrusted:
        raises(errors.ServerSelectionTimeoutError, None, untrusted.admin.command, "ping")


@step("types")
def types(db):
    things, keys = fresh(db, "types"), fresh(db, "keys")
    document = {"_id": "all", **CASES["types"]}
    things.insert_one(document)
    # As bytes: equality of Python does not see the width of an integer.
    equal(bson.encode(things.find_one({"_id": "all"})), bson.encode(document))
    for name, value in CASES["types"].items():
        found = things.count_documents({name: value})
        if name == "regex":
            equal(found, 0)
            without("types", "a stored pattern as filter", "a pattern finds texts only")
        else:
            equal((name, found), (name, 1))
        key = {"_id": value, "name": name}
        if name in ("list", "regex", "db-ref"):
            raises(errors.WriteError, None, keys.insert_one, key)
            continue
        try:
            keys.insert_one(key)
        except errors.DuplicateKeyError:
            # 1 and 1.0 and the long 1 are one key.
            assert name in ("int64", "double"), name
            continue
        equal(bson.encode(keys.find_one({"_id": value})), bson.encode(key))
    things.insert_one({"_id": "nan", "value": float("nan")})
    nan = things.find_one({"_id": "nan"})["value"]
    assert nan != nan
    deep = {"_id": 1, "deep": 0}
    for _ in range(90):
        deep = {"_id": 1, "deep": deep}
    things.insert_one(deep)
    equal(things.find_one({"_id": 1}), deep)
    large = {"_id": "large", "text": "x" * (15 << 20)}
    things.insert_one(large)
    equal(things.find_one({"_id": "large"}), large)
    raises(errors.DocumentTooLarge, None, things.insert_one, {"text": "x" * (17 << 20)})


@step("crud")
def crud(db):
    orders = fresh(db, "orders")
    made = orders.insert_one({"customer": "ada", "total": 3})
    assert isinstance(made.inserted_id, ObjectId) and made.acknowledged
    equal(len(orders.insert_many([{"_id": n, "n": n, "m": n % 3} for n in range(30)]).inserted_ids), 30)
    found = orders.find({"n": {"$gte": 10}}, {"m": 1, "_id": 0}).sort([("m", -1), ("n", 1)])
    equal(list(found.skip(1).limit(2)), [{"m": 2}, {"m": 2}])
    equal([d["_id"] for d in orders.find({"n": {"$in": [5, 3]}}).sort("n")], [3, 5])
    equal(orders.find_one({"$or": [{"n": 29}, {"n": {"$exists": False}, "total": 4}]})["_id"], 29)
    equal(orders.count_documents({"m": 1}), 10)
    equal(orders.count_documents({}, skip=5, limit=10), 10)
    equal(orders.estimated_document_count(), 31)
    equal(sorted(orders.distinct("m", {"n": {"$lt": 2}})), [0, 1])
    replaced = orders.replace_one({"_id": 1}, {"n": "one"})
    equal((replaced.matched_count, replaced.modified_count), (1, 1))
    equal(orders.find_one({"_id": 1}), {"_id": 1, "n": "one"})
    upserted = orders.replace_one({"_id": 100}, {"n": 100}, upsert=True)
    equal((upserted.upserted_id, upserted.matched_count), (100, 0))
    same = orders.update_one({"_id": 1}, {"$set": {"n": "one"}})
    equal((same.matched_count, same.modified_count), (1, 0))
    many = orders.update_many({"m": 2}, {"$set": {"seen": True}})
    equal((many.matched_count, many.modified_count), (10, 10))
    equal(orders.delete_one({"m": 2}).deleted_count, 1)
    equal(orders.delete_many({"m": 2}).deleted_count, 9)
    equal(orders.delete_many({"nothing": 1}).deleted_count, 0)
    equal(orders.find_one({"_id": "nothing"}), None)
    text = orders.find_one({"customer": re.compile("^A", re.IGNORECASE)})
    equal(text["total"], 3)


@step("bulk")
def bulk(db):
    things = fresh(db, "bulk")
    done = things.bulk_write(
        [
            InsertOne({"_id": 1}),
            InsertOne({"_id": 2}),
            UpdateOne({"_id": 1}, {"$set": {"a": 1}}),
            UpdateMany({}, {"$inc": {"b": 1}}),
            ReplaceOne({"_id": 3}, {"c": 3}, upsert=True),
            UpdateOne({"_id": 4}, {"$set": {"c": 4}}, upsert=True),
            DeleteOne({"_id": 2}),
            DeleteMany({"c": 4}),
        ]
    )
    equal(
        (done.inserted_count, done.matched_count, done.modified_count, done.deleted_count),
        (2, 3, 3, 2),
    )
    equal(done.upserted_ids, {4: 3, 5: 4})
    work = [InsertOne({"_id": 1}), InsertOne({"_id": 9}), DeleteOne({"_id": 3})]
    error = raises(errors.BulkWriteError, 65, things.bulk_write, work)
    equal((error.details["nInserted"], error.details["writeErrors"][0]["index"]), (0, 0))
    equal(error.details["writeErrors"][0]["code"], 11000)
    equal(error.details["writeErrors"][0]["keyValue"], {"_id": 1})
    error = raises(errors.BulkWriteError, 65, things.bulk_write, work, ordered=False)
    equal((error.details["nInserted"], error.details["nRemoved"]), (1, 1))
    many = [{"_id": n + 100, "text": "x" * 100} for n in range(120_000)]
    equal(len(things.insert_many(many, ordered=False).inserted_ids), 120_000)
    equal(things.count_documents({"_id": {"$gte": 100}}), 120_000)
    equal(things.delete_many({"_id": {"$gte": 100}}).deleted_count, 120_000)


@step("updates")
def updates(db):
    things = fresh(db, "updates")
    for n, case in enumerate(CASES["updates"]):
        if "before" in case:
            things.insert_one({"_id": n, **case["before"]})
        where = {"_id": n, **case.get("where", {})}
        words = (where, case["update"], case.get("upsert", False))
        options = {"array_filters": case.get("filters")}
        if "code" in case:
            raises(errors.WriteError, case["code"], things.update_one, *words, **options)
            continue
        things.update_one(*words, **options)
        equal(things.find_one({"_id": n}, {"_id": 0}), case["after"])
    now = {"$currentDate": {"d": True, "t": {"$type": "timestamp"}}}
    things.update_one({"_id": "now"}, now, upsert=True)
    now = things.find_one({"_id": "now"})
    assert isinstance(now["d"], datetime.datetime) and isinstance(now["t"], Timestamp), now


@step("find-and-modify")
def find_and_modify(db):
    jobs = fresh(db, "jobs", [{"_id": n, "state": "new", "rank": -n} for n in range(5)])
    taken = jobs.find_one_and_update(
        {"state": "new"}, {"$set": {"state": "taken"}}, sort=[("rank", 1)]
    )
    equal(taken, {"_id": 4, "state": "new", "rank": -4})
    taken = jobs.find_one_and_update(
        {"state": "new"},
        {"$set": {"state": "taken"}},
        sort=[("rank", 1)],
        projection={"state": 1},
        return_document=ReturnDocument.AFTER,
    )
    equal(taken, {"_id": 3, "state": "taken"})
    made = jobs.find_one_and_update(
        {"_id": "counter"}, {"$inc": {"n": 1}}, upsert=True, return_document=ReturnDocument.AFTER
    )
    equal(made, {"_id": "counter", "n": 1})
    equal(jobs.find_one_and_update({"_id": 77}, {"$set": {"a": 1}}), None)
    equal(jobs.find_one_and_replace({"_id": 0}, {"x": 1})["state"], "new")
    equal(jobs.find_one({"_id": 0}), {"_id": 0, "x": 1})
    equal(jobs.find_one_and_delete({"state": "taken"}, sort=[("_id", -1)])["_id"], 4)
    changed = jobs.find_one_and_update(
        {"_id": 1},
        {"$set": {"list": [1, 2]}},
        return_document=ReturnDocument.AFTER,
    )
    changed = jobs.find_one_and_update(
        {"_id": 1},
        {"$inc": {"list.$[x]": 5}},
        array_filters=[{"x": 2}],
        return_document=ReturnDocument.AFTER,
    )
    equal(changed["list"], [1, 7])


@step("indexes")
def indexes(db):
    users = fresh(db, "users")
    equal(users.create_index("mail", unique=True), "mail_1")
    equal(users.create_index([("town", 1), ("age", -1)], name="town_age"), "town_age")
    users.create_index("nick", sparse=True)
    users.create_index("born", expireAfterSeconds=3600)
    users.create_index("score", partialFilterExpression={"score": {"$gt": 10}})
    information = users.index_information()
    equal(
        set(information), {"_id_", "mail_1", "town_age", "nick_1", "born_1", "score_1"}
    )
    equal(information["mail_1"]["unique"], True)
    equal(information["town_age"]["key"], [("town", 1), ("age", -1)])
    equal(information["born_1"]["expireAfterSeconds"], 3600)
    equal(information["score_1"]["partialFilterExpression"], {"score": {"$gt": 10}})
    users.insert_many([{"_id": n, "mail": f"m{n}", "town": f"t{n % 3}", "age": n} for n in range(30)])
    error = raises(errors.DuplicateKeyError, 11000, users.insert_one, {"mail": "m3"})
    equal((error.details["keyPattern"], error.details["keyValue"]), ({"mail": 1}, {"mail": "m3"}))
    raises(errors.DuplicateKeyError, 11000, users.update_one, {"_id": 1}, {"$set": {"mail": "m2"}})
    raises(
        errors.DuplicateKeyError, 11000, users.find_one_and_update, {"_id": 1}, {"$set": {"mail": "m2"}}
    )
    plan = users.find({"town": "t1", "age": {"$gt": 3}}).explain()["queryPlanner"]["winningPlan"]
    assert "town_age" in str(plan), plan
    equal(users.find({"town": "t1"}).hint("town_age").sort("age", -1)[0]["age"], 28)
    equal(len(list(users.find({"town": "t1"}).hint([("town", 1), ("age", -1)]))), 10)
    raises(errors.OperationFailure, 2, list, users.find({}).hint("no_such_index"))
    raises(errors.OperationFailure, 86, users.create_index, "other", name="town_age")
    raises(errors.DuplicateKeyError, 11000, users.create_index, "town", unique=True)
    users.drop_index("town_age")
    raises(errors.OperationFailure, 27, users.drop_index, "town_age")
    raises(errors.OperationFailure, 72, users.drop_index, "_id_")
    users.drop_indexes()
    equal(list(users.index_information()), ["_id_"])
    # Programs that start at the same time all create what they need.
    for turn in range(20):
        name = f"at_once_{turn}"

        def begin(n):
            db[name].create_index("a", unique=True)
            db[name].insert_one({"_id": n, "a": n})

        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            list(threads.map(begin, range(8)))
        equal(db[name].count_documents({}), 8)
        equal(set(db[name].index_information()), {"_id_", "a_1"})
        db.drop_collection(name)


def collections(db):
    for name, documents in CASES["collections"].items():
        fresh(db, name, documents)


@step("aggregate")
def aggregate(db):
    collections(db)
    for case in CASES["aggregates"]:
        equal(list(db[case["of"]].aggregate(case["pipeline"])), case["rows"])
    by_total = [{"$sort": {"total": -1}}, {"$project": {"total": 1}}]
    rows = db.sales.aggregate(by_total, batchSize=7, allowDiskUse=True)
    equal([row["total"] for row in rows], list(range(39, -1, -1)))
    equal(len(list(db.sales.aggregate([{"$sample": {"size": 5}}]))), 5)
    try:
        db.sales.aggregate([{"$group": {"_id": "$c", "n": {"$sum": 1}}}, {"$out": "totals"}])
        equal(db.totals.count_documents({}), 4)
        db.sales.aggregate([{"$group": {"_id": 0, "n": {"$sum": 5}}}, {"$merge": "totals"}])
        equal(db.totals.find_one({"_id": 0})["n"], 200)
    except errors.OperationFailure as error:
        equal(error.code, 115)
        without("aggregate", "$out and $merge", "the server refuses them")


@step("cursors")
def cursors(db):
    rows = fresh(db, "rows", [{"_id": n, "pad": "x" * 50} for n in range(5000)])
    equal([row["_id"] for row in rows.find().sort("_id", 1).batch_size(37)], list(range(5000)))
    equal(sum(1 for _ in rows.find(batch_size=1000).limit(3000)), 3000)
    cursor = rows.find(batch_size=10)
    next(cursor)
    identity = cursor.cursor_id
    assert identity, "the cursor ends with its first batch"
    cursor.close()
    error = raises(errors.OperationFailure, 43, db.command, "getMore", Int64(identity), collection="rows")
    assert isinstance(error, errors.CursorNotFound)
    cursor = rows.find(batch_size=10)
    next(cursor)
    killed = db.command("killCursors", "rows", cursors=[Int64(cursor.cursor_id), Int64(77)])
    equal((killed["cursorsKilled"], killed["cursorsNotFound"]), ([cursor.cursor_id], [77]))
    raises(errors.CursorNotFound, 43, list, cursor)
    equal(len(list(rows.find_raw_batches(batch_size=1000))), 5)
    with rows.find(no_cursor_timeout=True, batch_size=2, comment="why not") as cursor:
        for n, row in enumerate(cursor):
            if n == 10:
                break
    equal(rows.find({}, {"_id": 1})[4999], {"_id": 4999})


@step("transactions")
def transactions(db):
    accounts = fresh(db, "accounts", [{"_id": "a", "sum": 100}, {"_id": "b", "sum": 0}])

    def move(session, sum=10):
        accounts.update_one({"_id": "a"}, {"$inc": {"sum": -sum}}, session=session)
        accounts.update_one({"_id": "b"}, {"$inc": {"sum": sum}}, session=session)
        return [row["sum"] for row in accounts.find(session=session).sort("_id")]

    with db.client.start_session() as session:
        equal(session.with_transaction(move), [90, 10])
        with session.start_transaction():
            move(session)
            equal(accounts.find_one({"_id": "a"})["sum"], 90)
            session.abort_transaction()
        equal([row["sum"] for row in accounts.find()], [90, 10])
        tries = []

        def meet(session):
            tries.append(1)
            before = accounts.find_one({"_id": "a"}, session=session)["sum"]
            if len(tries) == 1:
                accounts.update_one({"_id": "a"}, {"$inc": {"sum": 1}})
            accounts.update_one({"_id": "a"}, {"$set": {"sum": before + 5}}, session=session)

        session.with_transaction(meet)
        equal((len(tries), accounts.find_one({"_id": "a"})["sum"]), (2, 96))
        session.start_transaction(ReadConcern("snapshot"), WriteConcern("majority"))
        accounts.insert_one({"_id": "c"}, session=session)
        db.accounts_log.insert_one({"_id": 1, "what": "c"}, session=session)
        equal(len(list(accounts.aggregate([{"$match": {}}], session=session))), 3)
        session.commit_transaction()
        session.commit_transaction()
        with session.start_transaction():
            error = raises(
                errors.DuplicateKeyError, 11000, accounts.insert_one, {"_id": "c"}, session=session
            )
            error = raises(
                errors.OperationFailure, 251, accounts.find_one, {}, session=session
            )
            assert error.has_error_label("TransientTransactionError"), error.details
            session.abort_transaction()
    db.accounts_log.drop()
    first, second = db.client.start_session(), db.client.start_session()
    with first, second:
        first.start_transaction()
        second.start_transaction()
        accounts.update_one({"_id": "a"}, {"$set": {"by": 1}}, session=first)
        try:
            accounts.update_one({"_id": "a"}, {"$set": {"by": 2}}, session=second)
            first.commit_transaction()
            second.commit_transaction()
            raise AssertionError("both committed")
        except errors.OperationFailure as error:
            equal(error.code, 112)
            assert error.has_error_label("TransientTransactionError"), error.details
        if first.in_transaction:
            first.commit_transaction()


@step("retries")
def retries(db):
    things = fresh(db, "retries", [{"_id": 1, "n": 0}])
    with MongoClient(CUT) as client:
        cut = client[db.name].retries
        cut.insert_one({"_id": 2, "note": "cut reply 1"})
        cut.update_one({"_id": 1}, {"$inc": {"n": 1}, "$set": {"note": "cut reply 2"}})
        found = cut.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}, "$set": {"note": "cut reply 3"}})
        equal(found["n"], 1)
        cut.delete_one({"_id": 2, "note": {"$ne": "cut reply 4"}})
        cut.insert_many([{"_id": n, "note": "cut reply 5"} for n in range(10, 20)])
        done = cut.bulk_write(
            [UpdateOne({"_id": 1}, {"$inc": {"n": 1}, "$set": {"note": "cut reply 6"}}), InsertOne({"_id": 20})]
        )
        equal((done.modified_count, done.inserted_count), (1, 1))
        equal(cut.find_one({"_id": 1, "note": {"$ne": "cut reply 7"}})["n"], 3)
    equal(things.count_documents({}), 12)
    with MongoClient(CUT, retryWrites=False) as client:
        raises(
            errors.AutoReconnect, None, client[db.name].retries.insert_one, {"note": "cut reply 8"}
        )
    with MongoClient(CUT) as client, client.start_session() as session:
        def body(session):
            client[db.name].retries.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
            client[db.name].retries.insert_one({"note": "cut reply 9"}, session=session)
        session.with_transaction(body)
    equal(things.find_one({"_id": 1})["n"], 4)


@step("streams")
def streams(db):
    things = fresh(db, "streams")
    db.create_collection("streams", changeStreamPreAndPostImages={"enabled": True})
    with things.watch(
        full_document="updateLookup", full_document_before_change="whenAvailable", max_await_time_ms=500
    ) as stream:
        equal(stream.try_next(), None)
        things.insert_one({"_id": 1, "n": 1})
        things.update_one({"_id": 1}, {"$set": {"n": 2}})
        things.replace_one({"_id": 1}, {"m": 3})
        things.delete_one({"_id": 1})
        kinds, tokens = [], []
        for _ in range(4):
            event = stream.next()
            kinds.append(event["operationType"])
            tokens.append(event["_id"])
            equal(event["ns"], {"db": db.name, "coll": "streams"})
            equal(event["documentKey"], {"_id": 1})
            if len(kinds) == 2:
                equal(event["updateDescription"]["updatedFields"], {"n": 2})
                equal(event["fullDocumentBeforeChange"], {"_id": 1, "n": 1})
        equal((kinds[0], kinds[1], kinds[3]), ("insert", "update", "delete"))
        if kinds[2] != "replace":
            equal(kinds[2], "update")
            without("streams", "replace events", "a replacement is an update with the difference")
    with things.watch(resume_after=tokens[0]) as stream:
        equal(stream.next()["operationType"], "update")
    with things.watch(start_after=tokens[2]) as stream:
        equal(stream.next()["operationType"], "delete")
    only = [{"$match": {"operationType": "insert"}}, {"$project": {"fullDocument": 1}}]
    try:
        with things.watch(only) as stream:
            things.insert_one({"_id": 5})
            things.delete_one({"_id": 5})
            things.insert_one({"_id": 6})
            found = [stream.next(), stream.next()]
            equal([event["fullDocument"] for event in found], [{"_id": 5}, {"_id": 6}])
            equal(set(found[0]), {"_id", "fullDocument"})
    except errors.OperationFailure as error:
        equal(error.code, 115)
        without("streams", "stages after $changeStream", "the server refuses them")
    with db.watch() as stream, db.client.watch() as everything:
        db.streams_b.insert_one({"_id": 1})
        equal(stream.next()["ns"]["coll"], "streams_b")
        equal(everything.next()["ns"], {"db": db.name, "coll": "streams_b"})
    with MongoClient(CUT) as client, client[db.name].streams.watch() as stream:
        things.insert_one({"_id": 10})
        equal(stream.next()["documentKey"], {"_id": 10})
        things.insert_one({"_id": 11, "note": "cut event 1"})
        things.insert_one({"_id": 12})
        equal([stream.next()["documentKey"]["_id"] for _ in range(2)], [11, 12])
    with things.watch() as stream:
        db.drop_collection("streams")
        kinds = [event["operationType"] for event in stream]
        equal(kinds, ["drop", "invalidate"])
    raises(errors.OperationFailure, None, things.watch, resume_after={"_data": "forged"})
    db.streams_b.drop()


@step("causal")
def causal(db):
    things = fresh(db, "causal", [{"_id": 1, "n": 0}])
    with db.client.start_session(causal_consistency=True) as session:
        for n in range(1, 20):
            things.update_one({"_id": 1}, {"$set": {"n": n}}, session=session)
            equal(things.find_one({"_id": 1}, session=session)["n"], n)
        equal(session.operation_time <= session.cluster_time["clusterTime"], True)
    with db.client.start_session(snapshot=True) as session:
        raises(errors.OperationFailure, 115, things.find_one, {}, session=session)
        without("causal", "snapshot sessions", "refused: a transaction reads one snapshot")


@step("concerns")
def concerns(db):
    fresh(db, "concerns")
    for n, concern in enumerate(
        [
            WriteConcern(1),
            WriteConcern("majority", wtimeout=5000),
            WriteConcern(1, j=True),
            WriteConcern(1, j=False),
        ]
    ):
        equal(db.get_collection("concerns", write_concern=concern).insert_one({"_id": n}).acknowledged, True)
    zero = db.get_collection("concerns", write_concern=WriteConcern(0))
    equal(zero.insert_one({"_id": "zero"}).acknowledged, False)
    for _ in range(100):
        if db.concerns.count_documents({}) == 5:
            break
    equal(db.concerns.count_documents({}), 5)
    for level in ("local", "available", "majority", "linearizable"):
        concern = db.get_collection("concerns", read_concern=ReadConcern(level))
        equal(concern.find_one({"_id": 1}), {"_id": 1})
    for preference in (
        ReadPreference.PRIMARY,
        ReadPreference.PRIMARY_PREFERRED,
        ReadPreference.SECONDARY_PREFERRED,
        ReadPreference.NEAREST,
    ):
        other = db.get_collection("concerns", read_preference=preference)
        equal(other.find_one({"_id": 1}), {"_id": 1})
        equal(len(list(other.aggregate([{"$match": {"_id": 1}}]))), 1)
    five = db.get_collection("concerns", write_concern=WriteConcern(5, wtimeout=100))
    raises(errors.OperationFailure, 2, five.insert_one, {"_id": "five"})


@step("gridfs")
def grid(db):
    for name in ("fs.files", "fs.chunks"):
        db.drop_collection(name)
    bucket = gridfs.GridFSBucket(db, chunk_size_bytes=1000)
    content = bytes(n % 251 for n in range(1_234_567))
    identity = bucket.upload_from_stream("film.bin", content, metadata={"kind": "film"})
    equal(bucket.open_download_stream(identity).read(), content)
    equal(db["fs.chunks"].count_documents({}), 1235)
    with bucket.open_upload_stream("film.bin") as stream:
        stream.write(b"second")
    equal(bucket.open_download_stream_by_name("film.bin").read(), b"second")
    equal(bucket.open_download_stream_by_name("film.bin", revision=0).read(5), content[:5])
    with bucket.open_download_stream(identity) as stream:
        stream.seek(1_000_001)
        equal(stream.read(10), content[1_000_001:1_000_011])
    equal([file.filename for file in bucket.find({"metadata.kind": "film"})], ["film.bin"])
    bucket.rename(identity, "other.bin")
    bucket.delete(identity)
    raises(gridfs.NoFile, None, bucket.open_download_stream, identity)
    equal(db["fs.chunks"].count_documents({"files_id": identity}), 0)
    indexes = db["fs.chunks"].index_information()
    assert any(index.get("unique") for index in indexes.values()), indexes


@step("catalog")
def catalog(db):
    client = db.client
    other = client["catalog_other"]
    client.drop_database("catalog_other")
    other.create_collection("one")
    other.two.insert_one({"_id": 1})
    other.two.create_index("a")
    other["with.dots"].insert_one({"_id": 1})
    assert "catalog_other" in client.list_database_names()
    found = {entry["name"]: entry for entry in client.list_databases()}
    assert found["catalog_other"]["sizeOnDisk"] >= 0 and not found["catalog_other"]["empty"], found
    found = client.list_databases(filter={"name": "catalog_other"})
    equal([entry["name"] for entry in found], ["catalog_other"])
    equal(sorted(other.list_collection_names()), ["one", "two", "with.dots"])
    equal(other.list_collection_names(filter={"name": {"$regex": "^t"}}), ["two"])
    found = list(other.list_collections(filter={"name": "two"}))
    equal((found[0]["type"], found[0]["idIndex"]["name"]), ("collection", "_id_"))
    raises(errors.CollectionInvalid, None, other.create_collection, "one")
    raises(errors.OperationFailure, 48, other.command, "create", "one", validationLevel="strict")
    other.two.rename("three")
    equal(other.three.find_one(), {"_id": 1})
    equal(set(other.three.index_information()), {"_id_", "a_1"})
    raises(errors.OperationFailure, 48, other.three.rename, "one")
    other.three.rename("one", dropTarget=True)
    raises(errors.OperationFailure, 26, other.none.rename, "some")
    equal(other.one.count_documents({}), 1)
    stats = other.command("dbStats")
    equal((stats["collections"], stats["objects"]), (2, 2))
    equal(other.command("collStats", "one")["count"], 1)
    assert other.validate_collection("one")["valid"]
    other.drop_collection("one")
    other.drop_collection("none")
    client.drop_database("catalog_other")
    assert "catalog_other" not in client.list_database_names()
    raises(errors.InvalidName, None, other.__getitem__, "a$b")


@step("errors")
def failures(db):
    collections(db)
    for case in CASES["errors"]:
        error = raises(errors.OperationFailure, None, db.command, case["command"])
        equal((case["command"], error.code), (case["command"], case["code"]))
    things = fresh(db, "errors", [{"_id": 1, "text": "a"}])
    raises(errors.DuplicateKeyError, 11000, things.insert_one, {"_id": 1})
    raises(errors.WriteError, None, things.insert_one, {"_id": [1]})
    raises(errors.OperationFailure, None, list, things.find({"text": {"$regex": "("}}))


@step("max-time")
def max_time(db):
    slow = fresh(db, "slow", [{"_id": n} for n in range(1000)])
    raises(errors.ExecutionTimeout, 50, lambda: list(slow.aggregate(CASES["slow"], maxTimeMS=30)))
    equal(len(list(slow.find().max_time_ms(60_000))), 1000)
    with pymongo.timeout(0.05):
        error = raises(errors.PyMongoError, None, lambda: list(slow.aggregate(CASES["slow"])))
        assert error.timeout, error
    equal(db.command("ping")["ok"], 1.0)


@step("explain")
def explain(db):
    things = fresh(db, "plans", [{"_id": n, "a": n % 5} for n in range(100)])
    things.create_index("a")
    plan = things.find({"a": 3}).explain()
    assert "queryPlanner" in plan and "executionStats" in plan, plan
    equal(plan["executionStats"]["nReturned"], 20)
    assert plan["executionStats"]["totalDocsExamined"] <= 20, plan
    text = str(plan["queryPlanner"]["winningPlan"])
    assert "IXSCAN" in text and "a_1" in text, text
    whole = things.find({"b": 3}).explain()["queryPlanner"]["winningPlan"]
    assert "COLLSCAN" in str(whole), whole
    for command in (
        {"aggregate": "plans", "pipeline": [{"$match": {"a": 1}}, {"$group": {"_id": "$a"}}], "cursor": {}},
        {"update": "plans", "updates": [{"q": {"a": 1}, "u": {"$set": {"b": 1}}}]},
        {"delete": "plans", "deletes": [{"q": {"a": 1}, "limit": 0}]},
        {"count": "plans", "query": {"a": 1}},
        {"distinct": "plans", "key": "a"},
        {"findAndModify": "plans", "query": {"a": 1}, "update": {"$set": {"b": 1}}},
    ):
        for verbosity in ("queryPlanner", "executionStats", "allPlansExecution"):
            equal(db.command("explain", command, verbosity=verbosity)["ok"], 1.0)
    equal(things.count_documents({"b": 1}), 0)


@step("refusals")
def refusals(db):
    collections(db)
    for case in CASES["refusals"]:
        error = raises(errors.OperationFailure, None, db.command, case["command"])
        equal((case["command"], error.code), (case["command"], case["code"]))
        assert error.details["codeName"], case
    assert "x" not in db.list_collection_names()


def main():
    failed = 0
    wanted = sys.argv[1:]
    with MongoClient(OPEN) as client:
        client.drop_database("scenario")
        for name, function in STEPS:
            if wanted and name not in wanted:
                continue
            try:
                function(client.scenario)
                print(f"ok {name}", flush=True)
            except Exception as error:
                failed += 1
                where = traceback.extract_tb(error.__traceback__)
                lines = [entry.lineno for entry in where if entry.filename == __file__]
                text = f"{type(error).__name__}: {error}".replace("\n", " ")
                print(f"FAILED {name}: line {lines[-1]}: {text[:600]}", flush=True)
    sys.exit(failed > 0)


main()
