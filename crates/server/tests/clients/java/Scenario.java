import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Filters.gte;
import static com.mongodb.client.model.Filters.in;
import static com.mongodb.client.model.Filters.lt;
import static com.mongodb.client.model.Filters.ne;
import static com.mongodb.client.model.Filters.regex;
import static com.mongodb.client.model.Sorts.ascending;
import static com.mongodb.client.model.Sorts.descending;
import static com.mongodb.client.model.Sorts.orderBy;
import static com.mongodb.client.model.Updates.combine;
import static com.mongodb.client.model.Updates.inc;
import static com.mongodb.client.model.Updates.set;
import static java.util.Arrays.asList;

import com.mongodb.ClientSessionOptions;
import com.mongodb.ConnectionString;
import com.mongodb.DuplicateKeyException;
import com.mongodb.ExplainVerbosity;
import com.mongodb.MongoBulkWriteException;
import com.mongodb.MongoClientException;
import com.mongodb.MongoClientSettings;
import com.mongodb.MongoCommandException;
import com.mongodb.MongoCredential;
import com.mongodb.MongoCursorNotFoundException;
import com.mongodb.MongoException;
import com.mongodb.MongoExecutionTimeoutException;
import com.mongodb.MongoGridFSException;
import com.mongodb.MongoSecurityException;
import com.mongodb.MongoSocketException;
import com.mongodb.MongoTimeoutException;
import com.mongodb.MongoWriteException;
import com.mongodb.ReadConcern;
import com.mongodb.ReadPreference;
import com.mongodb.TransactionOptions;
import com.mongodb.WriteConcern;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoChangeStreamCursor;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoCursor;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.gridfs.GridFSBuckets;
import com.mongodb.client.gridfs.model.GridFSUploadOptions;
import com.mongodb.client.model.BulkWriteOptions;
import com.mongodb.client.model.ChangeStreamPreAndPostImagesOptions;
import com.mongodb.client.model.CountOptions;
import com.mongodb.client.model.CreateCollectionOptions;
import com.mongodb.client.model.DeleteManyModel;
import com.mongodb.client.model.DeleteOneModel;
import com.mongodb.client.model.FindOneAndDeleteOptions;
import com.mongodb.client.model.FindOneAndUpdateOptions;
import com.mongodb.client.model.IndexModel;
import com.mongodb.client.model.IndexOptions;
import com.mongodb.client.model.InsertManyOptions;
import com.mongodb.client.model.InsertOneModel;
import com.mongodb.client.model.RenameCollectionOptions;
import com.mongodb.client.model.ReplaceOneModel;
import com.mongodb.client.model.ReplaceOptions;
import com.mongodb.client.model.ReturnDocument;
import com.mongodb.client.model.UpdateManyModel;
import com.mongodb.client.model.UpdateOneModel;
import com.mongodb.client.model.UpdateOptions;
import com.mongodb.client.model.ValidationLevel;
import com.mongodb.client.model.ValidationOptions;
import com.mongodb.client.model.WriteModel;
import com.mongodb.client.model.changestream.ChangeStreamDocument;
import com.mongodb.client.model.changestream.FullDocument;
import com.mongodb.client.model.changestream.FullDocumentBeforeChange;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.bson.BsonDocument;
import org.bson.BsonInt32;
import org.bson.BsonString;
import org.bson.BsonTimestamp;
import org.bson.BsonValue;
import org.bson.Document;
import org.bson.RawBsonDocument;
import org.bson.conversions.Bson;
import org.bson.types.ObjectId;

/** The scenario of `cargo xtask clients` with the Java driver. */
public class Scenario {
    static final String OPEN = "mongodb://" + System.getenv("FLAGSTONE_OPEN");
    static final String CUT = "mongodb://" + System.getenv("FLAGSTONE_CUT");
    static final String SECURE = "mongodb://" + System.getenv("FLAGSTONE_SECURE");
    static final Document NOTHING = new Document();

    static BsonDocument cases;
    static MongoClient client;
    static MongoDatabase db;

    interface Step {
        void run() throws Exception;
    }

    static class Failed extends RuntimeException {
        Failed(String text) {
            super(text);
        }
    }

    static void check(boolean is, Object found) {
        if (!is) {
            throw new Failed(String.valueOf(found));
        }
    }

    static void equal(Object found, Object expected) {
        check(Objects.deepEquals(found, expected), "expected " + expected + ", found " + found);
    }

    /** Expects that `work` fails with an error of this class and code; -1 stands for any code. */
    static <T extends Throwable> T refused(Class<T> kind, int code, Step work) {
        try {
            work.run();
        } catch (Throwable error) {
            check(kind.isInstance(error), "expected " + kind.getSimpleName() + ", found " + error);
            boolean is = code == -1 || ((MongoException) error).getCode() == code;
            check(is, "expected code " + code + ", found " + error);
            return kind.cast(error);
        }
        throw new Failed("expected " + kind.getSimpleName() + " " + code + ", but it succeeded");
    }

    static void without(String step, String piece, String reason) {
        System.out.println("without " + step + ": " + piece + ": " + reason);
    }

    static Document doc(Object... pairs) {
        Document document = new Document();
        for (int n = 0; n < pairs.length; n += 2) {
            document.append((String) pairs[n], pairs[n + 1]);
        }
        return document;
    }

    static List<Document> many(int n, IntFunction<Document> make) {
        return IntStream.range(0, n).mapToObj(make).collect(Collectors.toList());
    }

    static <T> List<T> all(Iterable<T> rows) {
        List<T> list = new ArrayList<>();
        rows.forEach(list::add);
        return list;
    }

    static MongoCollection<Document> fresh(String name, List<Document> documents) {
        db.getCollection(name).drop();
        if (!documents.isEmpty()) {
            db.getCollection(name).insertMany(documents);
        }
        return db.getCollection(name);
    }

    static MongoCollection<BsonDocument> bson(String name) {
        return db.getCollection(name, BsonDocument.class);
    }

    static void collections() {
        cases.getDocument("collections").forEach((name, documents) -> {
            bson(name).drop();
            bson(name).insertMany(documents.asArray().stream().map(BsonValue::asDocument).collect(Collectors.toList()));
        });
    }

    static byte[] bytes(BsonDocument document) {
        var raw = new RawBsonDocument(document, new org.bson.codecs.BsonDocumentCodec()).getByteBuffer();
        byte[] bytes = new byte[raw.remaining()];
        raw.get(bytes);
        return bytes;
    }

    static void sameBytes(BsonDocument found, BsonDocument expected) {
        boolean is = found != null && Arrays.equals(bytes(found), bytes(expected));
        check(is, "expected " + expected + ", found " + found);
    }

    static void connect() {
        equal(db.runCommand(doc("ping", 1)).getDouble("ok"), 1.0);
        check(db.runCommand(doc("hello", 1)).getInteger("maxWireVersion") >= 21, "the version of the wire");
        refused(MongoCommandException.class, 59, () -> db.runCommand(doc("noSuchCommand", 1)));
        try (MongoClient other = MongoClients.create(OPEN + "/?compressors=zlib&maxPoolSize=4&appName=scenario")) {
            var pings = IntStream.range(0, 8).parallel().mapToObj(n -> other.getDatabase("a").runCommand(doc("ping", 1)));
            equal(pings.filter(reply -> reply.getDouble("ok") == 1.0).count(), 8L);
        }
    }

    static SSLContext trust() throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (var file = Files.newInputStream(Path.of(System.getenv("FLAGSTONE_CA")))) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, factory.getTrustManagers(), null);
        return context;
    }

    static MongoClient secure(SSLContext context, String user, String password) {
        var settings = MongoClientSettings.builder().applyConnectionString(new ConnectionString(SECURE));
        settings.applyToClusterSettings(cluster -> cluster.serverSelectionTimeout(3, TimeUnit.SECONDS));
        if (context != null) {
            settings.applyToSslSettings(tls -> tls.enabled(true).context(context));
        }
        if (user != null) {
            settings.credential(MongoCredential.createCredential(user, "admin", password.toCharArray()));
        }
        return MongoClients.create(settings.build());
    }

    static void login() throws Exception {
        SSLContext trust = trust();
        try (MongoClient root = secure(trust, "ada", "secret")) {
            root.getDatabase("shop").getCollection("orders").deleteMany(NOTHING);
            root.getDatabase("shop").getCollection("orders").insertOne(doc("_id", 1));
            MongoDatabase admin = root.getDatabase("admin");
            try {
                admin.runCommand(doc("dropUser", "reader"));
            } catch (MongoCommandException error) {
                equal(error.getCode(), 11);
            }
            admin.runCommand(doc("createUser", "reader", "pwd", "r e@d/er", "roles", asList(doc("role", "read", "db", "shop"))));
        }
        for (String name : asList("ada", "nobody")) {
            try (MongoClient wrong = secure(trust, name, "wrong")) {
                refused(MongoSecurityException.class, -1, () -> wrong.getDatabase("shop").getCollection("orders").find().first());
            }
        }
        try (MongoClient reader = secure(trust, "reader", "r e@d/er")) {
            var orders = reader.getDatabase("shop").getCollection("orders");
            equal(orders.find().first(), doc("_id", 1));
            refused(MongoException.class, 13, () -> orders.insertOne(doc("_id", 2)));
            refused(MongoException.class, 13, () -> reader.getDatabase("other").getCollection("a").find().first());
            equal(all(reader.listDatabaseNames()), asList("shop"));
        }
        try (MongoClient nobody = secure(trust, null, null)) {
            refused(MongoException.class, 13, () -> nobody.getDatabase("shop").getCollection("orders").find().first());
        }
        for (SSLContext other : asList(null, SSLContext.getDefault())) {
            try (MongoClient stranger = secure(other, null, null)) {
                refused(MongoTimeoutException.class, -1, () -> stranger.getDatabase("a").runCommand(doc("ping", 1)));
            }
        }
    }

    static void types() {
        bson("types").drop();
        bson("keys").drop();
        BsonDocument types = cases.getDocument("types");
        BsonDocument whole = new BsonDocument("_id", new BsonString("all"));
        whole.putAll(types);
        bson("types").insertOne(whole);
        sameBytes(db.getCollection("types", RawBsonDocument.class).find(eq("_id", "all")).first(), whole);
        types.forEach((name, value) -> {
            long found = bson("types").countDocuments(new BsonDocument(name, value));
            if (name.equals("regex")) {
                equal(found, 0L);
                without("types", "a stored pattern as filter", "a pattern finds texts only");
            } else {
                check(found == 1, name + ": " + found);
            }
            BsonDocument key = new BsonDocument("_id", value).append("name", new BsonString(name));
            if (Set.of("list", "regex", "db-ref").contains(name)) {
                refused(MongoWriteException.class, -1, () -> bson("keys").insertOne(key));
                return;
            }
            try {
                bson("keys").insertOne(key);
            } catch (MongoWriteException error) {
                check(error.getCode() == 11000 && Set.of("int64", "double").contains(name), name + ": " + error);
                return;
            }
            sameBytes(bson("keys").find(new BsonDocument("_id", value)).first(), key);
        });
        Document large = doc("_id", "large", "text", "x".repeat(15 << 20));
        db.getCollection("types").insertOne(large);
        equal(db.getCollection("types").find(eq("_id", "large")).first(), large);
        refused(RuntimeException.class, -1, () -> db.getCollection("types").insertOne(doc("text", "x".repeat(17 << 20))));
    }

    static void crud() {
        var orders = fresh("orders", many(30, n -> doc("_id", n, "n", n, "m", n % 3)));
        check(orders.insertOne(doc("customer", "ada", "total", 3)).getInsertedId().isObjectId(), "no ObjectId");
        var page = orders.find(gte("n", 10)).sort(orderBy(descending("m"), ascending("n"))).skip(1).limit(2);
        equal(all(page.projection(doc("_id", 0, "n", 1))), asList(doc("n", 14), doc("n", 17)));
        equal(orders.countDocuments(eq("m", 1)), 10L);
        equal(orders.countDocuments(NOTHING, new CountOptions().skip(5).limit(10)), 10L);
        equal(orders.estimatedDocumentCount(), 31L);
        equal(all(orders.distinct("m", lt("n", 2), Integer.class)).size(), 2);
        var replaced = orders.replaceOne(eq("_id", 1), doc("n", "one"));
        equal(replaced.getMatchedCount() + replaced.getModifiedCount(), 2L);
        var upserted = orders.replaceOne(eq("_id", 100), doc("n", 100), new ReplaceOptions().upsert(true));
        equal(upserted.getUpsertedId(), new BsonInt32(100));
        var same = orders.updateOne(eq("_id", 1), set("n", "one"));
        equal(same.getMatchedCount() - same.getModifiedCount(), 1L);
        equal(orders.updateMany(eq("m", 2), set("seen", true)).getModifiedCount(), 10L);
        equal(orders.deleteOne(eq("m", 2)).getDeletedCount(), 1L);
        equal(orders.deleteMany(eq("m", 2)).getDeletedCount(), 9L);
        equal(orders.find(eq("_id", "nothing")).first(), null);
        equal(orders.find(regex("customer", "^A", "i")).first().getInteger("total"), 3);
    }

    static void bulk() {
        var things = fresh("bulk", List.of());
        var done = things.bulkWrite(asList(
            new InsertOneModel<>(doc("_id", 1)),
            new InsertOneModel<>(doc("_id", 2)),
            new UpdateOneModel<>(eq("_id", 1), set("a", 1)),
            new UpdateManyModel<>(NOTHING, inc("b", 1)),
            new ReplaceOneModel<>(eq("_id", 3), doc("c", 3), new ReplaceOptions().upsert(true)),
            new UpdateOneModel<>(eq("_id", 4), set("c", 4), new UpdateOptions().upsert(true)),
            new DeleteOneModel<>(eq("_id", 2)),
            new DeleteManyModel<>(eq("c", 4))));
        equal(asList(done.getInsertedCount(), done.getMatchedCount(), done.getModifiedCount(), done.getDeletedCount()), asList(2, 3, 3, 2));
        equal(done.getUpserts().size(), 2);
        List<WriteModel<Document>> work = asList(
            new InsertOneModel<>(doc("_id", 1)), new InsertOneModel<>(doc("_id", 9)), new DeleteOneModel<>(eq("_id", 3)));
        for (boolean ordered : new boolean[] {true, false}) {
            var options = new BulkWriteOptions().ordered(ordered);
            var error = refused(MongoBulkWriteException.class, -1, () -> things.bulkWrite(work, options));
            equal(error.getWriteErrors().get(0).getCode(), 11000);
            equal(error.getWriteErrors().get(0).getIndex(), 0);
            int each = ordered ? 0 : 1;
            equal(asList(error.getWriteResult().getInsertedCount(), error.getWriteResult().getDeletedCount()), asList(each, each));
        }
        var rows = many(120_000, n -> doc("_id", n + 100, "text", "x".repeat(100)));
        equal(things.insertMany(rows, new InsertManyOptions().ordered(false)).getInsertedIds().size(), 120_000);
        equal(things.deleteMany(gte("_id", 100)).getDeletedCount(), 120_000L);
    }

    static void updates() {
        var things = bson("updates");
        things.drop();
        int n = 0;
        for (BsonValue value : cases.getArray("updates")) {
            BsonDocument test = value.asDocument();
            BsonDocument id = new BsonDocument("_id", new BsonInt32(n++));
            if (test.containsKey("before")) {
                BsonDocument before = id.clone();
                before.putAll(test.getDocument("before"));
                things.insertOne(before);
            }
            BsonDocument where = id.clone();
            where.putAll(test.getDocument("where", new BsonDocument()));
            UpdateOptions options = new UpdateOptions().upsert(test.containsKey("upsert"));
            if (test.containsKey("filters")) {
                options.arrayFilters(test.getArray("filters").stream().map(BsonValue::asDocument).collect(Collectors.toList()));
            }
            Step update = () -> {
                if (test.isArray("update")) {
                    things.updateOne(where, test.getArray("update").stream().map(BsonValue::asDocument).collect(Collectors.toList()), options);
                } else {
                    things.updateOne(where, test.getDocument("update"), options);
                }
            };
            if (test.containsKey("code")) {
                refused(MongoWriteException.class, test.getNumber("code").intValue(), update);
                continue;
            }
            try {
                update.run();
            } catch (Exception error) {
                throw new Failed(test + ": " + error);
            }
            sameBytes(things.find(id).projection(doc("_id", 0)).first(), test.getDocument("after"));
        }
        var now = doc("$currentDate", doc("d", true, "t", doc("$type", "timestamp")));
        things.updateOne(eq("_id", "now"), now, new UpdateOptions().upsert(true));
        BsonDocument found = things.find(eq("_id", "now")).first();
        check(found.isDateTime("d") && found.isTimestamp("t"), found);
    }

    static void findAndModify() {
        var jobs = fresh("jobs", many(5, n -> doc("_id", n, "state", "new", "rank", -n)));
        Bson take = set("state", "taken");
        var options = new FindOneAndUpdateOptions().sort(ascending("rank"));
        equal(jobs.findOneAndUpdate(eq("state", "new"), take, options), doc("_id", 4, "state", "new", "rank", -4));
        options.returnDocument(ReturnDocument.AFTER).projection(doc("state", 1));
        equal(jobs.findOneAndUpdate(eq("state", "new"), take, options), doc("_id", 3, "state", "taken"));
        var upsert = new FindOneAndUpdateOptions().upsert(true).returnDocument(ReturnDocument.AFTER);
        equal(jobs.findOneAndUpdate(eq("_id", "counter"), inc("n", 1), upsert), doc("_id", "counter", "n", 1));
        equal(jobs.findOneAndUpdate(eq("_id", 77), take), null);
        equal(jobs.findOneAndReplace(eq("_id", 0), doc("x", 1)).getString("state"), "new");
        var last = new FindOneAndDeleteOptions().sort(descending("_id"));
        equal(jobs.findOneAndDelete(eq("state", "taken"), last).getInteger("_id"), 4);
        jobs.updateOne(eq("_id", 1), set("list", asList(1, 2)));
        upsert.arrayFilters(asList(eq("x", 2)));
        equal(jobs.findOneAndUpdate(eq("_id", 1), inc("list.$[x]", 5), upsert).get("list"), asList(1, 7));
    }

    static void indexes() {
        var users = fresh("users", List.of());
        var names = users.createIndexes(asList(
            new IndexModel(ascending("mail"), new IndexOptions().unique(true)),
            new IndexModel(orderBy(ascending("town"), descending("age")), new IndexOptions().name("town_age")),
            new IndexModel(ascending("nick"), new IndexOptions().sparse(true)),
            new IndexModel(ascending("born"), new IndexOptions().expireAfter(3600L, TimeUnit.SECONDS)),
            new IndexModel(ascending("score"), new IndexOptions().partialFilterExpression(doc("score", doc("$gt", 10))))));
        equal(names, asList("mail_1", "town_age", "nick_1", "born_1", "score_1"));
        Map<String, Document> listed = all(users.listIndexes()).stream().collect(Collectors.toMap(index -> index.getString("name"), index -> index));
        equal(listed.size(), 6);
        check(listed.get("mail_1").getBoolean("unique") && listed.get("born_1").getInteger("expireAfterSeconds") == 3600, listed);
        users.insertMany(many(30, n -> doc("_id", n, "mail", "m" + n, "town", "t" + n % 3, "age", n)));
        var error = refused(MongoWriteException.class, 11000, () -> users.insertOne(doc("mail", "m3")));
        equal(error.getError().getCategory(), com.mongodb.ErrorCategory.DUPLICATE_KEY);
        refused(MongoWriteException.class, 11000, () -> users.updateOne(eq("_id", 1), set("mail", "m2")));
        refused(MongoCommandException.class, 11000, () -> users.findOneAndUpdate(eq("_id", 1), set("mail", "m2")));
        equal(users.find(eq("town", "t1")).hintString("town_age").sort(descending("age")).first().getInteger("age"), 28);
        equal(all(users.find(eq("town", "t1")).hint(doc("town", 1, "age", -1))).size(), 10);
        refused(MongoException.class, 2, () -> users.find().hintString("no_such_index").first());
        refused(MongoCommandException.class, 86, () -> users.createIndex(ascending("other"), new IndexOptions().name("town_age")));
        refused(DuplicateKeyException.class, 11000, () -> users.createIndex(ascending("town"), new IndexOptions().unique(true)));
        users.dropIndex("town_age");
        users.dropIndex(ascending("mail"));
        users.dropIndexes();
        equal(all(users.listIndexes()).size(), 1);
    }

    static void aggregate() {
        collections();
        for (BsonValue value : cases.getArray("aggregates")) {
            BsonDocument test = value.asDocument();
            List<BsonDocument> pipeline = test.getArray("pipeline").stream().map(BsonValue::asDocument).collect(Collectors.toList());
            List<BsonDocument> found = all(bson(test.getString("of").getValue()).aggregate(pipeline));
            equal(found.size(), test.getArray("rows").size());
            for (int n = 0; n < found.size(); n++) {
                sameBytes(found.get(n), test.getArray("rows").get(n).asDocument());
            }
        }
        var sales = db.getCollection("sales");
        var sorted = sales.aggregate(asList(doc("$sort", doc("total", -1)), doc("$project", doc("total", 1))));
        List<Document> rows = all(sorted.batchSize(7).allowDiskUse(true));
        IntStream.range(0, 40).forEach(n -> equal(rows.get(n).getInteger("total"), 39 - n));
        equal(all(sales.aggregate(asList(doc("$sample", doc("size", 5))))).size(), 5);
        Document group = doc("$group", doc("_id", "$c", "n", doc("$sum", 1)));
        try {
            sales.aggregate(asList(group, doc("$out", "totals"))).toCollection();
            equal(db.getCollection("totals").countDocuments(), 4L);
        } catch (MongoCommandException error) {
            equal(error.getCode(), 115);
            without("aggregate", "$out and $merge", "the server refuses them");
        }
    }

    static void cursors() {
        var rows = fresh("rows", many(5000, n -> doc("_id", n, "pad", "x".repeat(50))));
        List<Document> found = all(rows.find().sort(ascending("_id")).batchSize(37));
        IntStream.range(0, 5000).forEach(n -> equal(found.get(n).getInteger("_id"), n));
        equal(all(rows.find().batchSize(1000).limit(3000)).size(), 3000);
        MongoCursor<Document> cursor = rows.find().batchSize(10).cursor();
        cursor.next();
        long id = cursor.getServerCursor().getId();
        cursor.close();
        refused(MongoException.class, 43, () -> db.runCommand(doc("getMore", id, "collection", "rows")));
        MongoCursor<Document> killed = rows.find().batchSize(10).cursor();
        killed.next();
        Document kill = doc("killCursors", "rows", "cursors", asList(killed.getServerCursor().getId(), 77L));
        equal(db.runCommand(kill).getList("cursorsNotFound", Long.class), asList(77L));
        refused(MongoCursorNotFoundException.class, 43, () -> {
            while (killed.hasNext()) {
                killed.next();
            }
        });
    }

    static void transactions() {
        var accounts = fresh("accounts", asList(doc("_id", "a", "sum", 100), doc("_id", "b", "sum", 0)));
        java.util.function.Supplier<List<Integer>> sums =
            () -> all(accounts.find().sort(ascending("_id"))).stream().map(row -> row.getInteger("sum")).collect(Collectors.toList());
        try (ClientSession session = client.startSession()) {
            Runnable move = () -> {
                accounts.updateOne(session, eq("_id", "a"), inc("sum", -10));
                accounts.updateOne(session, eq("_id", "b"), inc("sum", 10));
            };
            session.withTransaction(() -> {
                move.run();
                return null;
            });
            equal(sums.get(), asList(90, 10));
            session.startTransaction();
            move.run();
            equal(accounts.find(session, eq("_id", "a")).first().getInteger("sum"), 80);
            session.abortTransaction();
            equal(sums.get(), asList(90, 10));
            int[] tries = {0};
            session.withTransaction(() -> {
                tries[0]++;
                int before = accounts.find(session, eq("_id", "a")).first().getInteger("sum");
                if (tries[0] == 1) {
                    accounts.updateOne(eq("_id", "a"), inc("sum", 1));
                }
                return accounts.updateOne(session, eq("_id", "a"), set("sum", before + 5));
            });
            equal(asList(tries[0], sums.get().get(0)), asList(2, 96));
            session.startTransaction(TransactionOptions.builder().readConcern(ReadConcern.SNAPSHOT).writeConcern(WriteConcern.MAJORITY).build());
            accounts.insertOne(session, doc("_id", "c"));
            equal(all(accounts.aggregate(session, asList(doc("$match", NOTHING)))).size(), 3);
            session.commitTransaction();
            session.commitTransaction();
            session.startTransaction();
            refused(MongoException.class, 11000, () -> accounts.insertOne(session, doc("_id", "c")));
            var error = refused(MongoException.class, 251, () -> accounts.find(session).first());
            check(error.hasErrorLabel(MongoException.TRANSIENT_TRANSACTION_ERROR_LABEL), error);
            session.abortTransaction();
        }
        try (ClientSession first = client.startSession(); ClientSession second = client.startSession()) {
            first.startTransaction();
            second.startTransaction();
            accounts.updateOne(first, eq("_id", "a"), set("by", 1));
            var error = refused(MongoException.class, 112, () -> {
                accounts.updateOne(second, eq("_id", "a"), set("by", 2));
                first.commitTransaction();
                second.commitTransaction();
            });
            check(error.hasErrorLabel(MongoException.TRANSIENT_TRANSACTION_ERROR_LABEL), error);
        }
    }

    static void retries() {
        var things = fresh("retries", asList(doc("_id", 1, "n", 0)));
        IntFunction<Bson> more = n -> combine(inc("n", 1), set("note", "cut reply java" + n));
        try (MongoClient through = MongoClients.create(CUT)) {
            var cut = through.getDatabase(db.getName()).getCollection("retries");
            cut.insertOne(doc("_id", 2, "note", "cut reply java1"));
            cut.updateOne(eq("_id", 1), more.apply(2));
            equal(cut.findOneAndUpdate(eq("_id", 1), more.apply(3)).getInteger("n"), 1);
            cut.deleteOne(doc("_id", 2, "x", doc("$ne", "cut reply java4")));
            cut.insertMany(many(10, n -> doc("_id", n + 10, "note", "cut reply java5")));
            var done = cut.bulkWrite(asList(new UpdateOneModel<>(eq("_id", 1), more.apply(6)), new InsertOneModel<>(doc("_id", 20))));
            equal(asList(done.getModifiedCount(), done.getInsertedCount()), asList(1, 1));
            equal(cut.find(doc("_id", 1, "x", doc("$ne", "cut reply java7"))).first().getInteger("n"), 3);
            equal(things.countDocuments(), 12L);
            try (ClientSession session = through.startSession()) {
                session.withTransaction(() -> {
                    cut.updateOne(session, eq("_id", 1), inc("n", 1));
                    return cut.insertOne(session, doc("note", "cut reply java9"));
                });
            }
        }
        try (MongoClient once = MongoClients.create(CUT + "/?retryWrites=false")) {
            var cut = once.getDatabase(db.getName()).getCollection("retries");
            refused(MongoSocketException.class, -1, () -> cut.insertOne(doc("note", "cut reply java8")));
        }
        equal(things.find(eq("_id", 1)).first().getInteger("n"), 4);
    }

    static int key(ChangeStreamDocument<Document> event) {
        return event.getDocumentKey().getInt32("_id").getValue();
    }

    static void streams() {
        var things = fresh("streams", List.of());
        var images = new CreateCollectionOptions().changeStreamPreAndPostImagesOptions(new ChangeStreamPreAndPostImagesOptions(true));
        db.createCollection("streams", images);
        List<ChangeStreamDocument<Document>> events = new ArrayList<>();
        var full = things.watch().fullDocument(FullDocument.UPDATE_LOOKUP).fullDocumentBeforeChange(FullDocumentBeforeChange.WHEN_AVAILABLE);
        try (var stream = full.maxAwaitTime(500, TimeUnit.MILLISECONDS).cursor()) {
            equal(stream.tryNext(), null);
            things.insertOne(doc("_id", 1, "n", 1));
            things.updateOne(eq("_id", 1), set("n", 2));
            things.replaceOne(eq("_id", 1), doc("m", 3));
            things.deleteOne(eq("_id", 1));
            while (events.size() < 4) {
                events.add(stream.next());
            }
        }
        for (var event : events) {
            equal(asList(event.getNamespace().getFullName(), key(event)), asList(db.getName() + ".streams", 1));
        }
        var kinds = events.stream().map(event -> event.getOperationTypeString()).collect(Collectors.toList());
        equal(asList(kinds.get(0), kinds.get(1), kinds.get(3)), asList("insert", "update", "delete"));
        equal(events.get(1).getUpdateDescription().getUpdatedFields().getInt32("n").getValue(), 2);
        equal(events.get(1).getFullDocumentBeforeChange(), doc("_id", 1, "n", 1));
        if (!kinds.get(2).equals("replace")) {
            without("streams", "replace events", "a replacement is an update with the difference");
        }
        try (var stream = things.watch().resumeAfter(events.get(0).getResumeToken()).cursor()) {
            equal(stream.next().getOperationTypeString(), "update");
        }
        try (var stream = things.watch().startAfter(events.get(2).getResumeToken()).cursor()) {
            equal(stream.next().getOperationTypeString(), "delete");
        }
        var inserts = asList(doc("$match", doc("operationType", "insert")), doc("$project", doc("fullDocument", 1)));
        try (MongoChangeStreamCursor<ChangeStreamDocument<Document>> only = things.watch(inserts).cursor()) {
            things.insertOne(doc("_id", 5));
            things.deleteOne(eq("_id", 5));
            things.insertOne(doc("_id", 6));
            equal(only.next().getFullDocument(), doc("_id", 5));
            equal(only.next().getFullDocument(), doc("_id", 6));
        } catch (MongoCommandException error) {
            equal(error.getCode(), 115);
            without("streams", "stages after $changeStream", "the server refuses them");
        }
        try (var ofDatabase = db.watch().cursor(); var ofAll = client.watch().cursor()) {
            db.getCollection("streams_b").insertOne(doc("_id", 1));
            equal(ofDatabase.next().getNamespace().getCollectionName(), "streams_b");
            equal(ofAll.next().getNamespace().getCollectionName(), "streams_b");
        }
        try (MongoClient through = MongoClients.create(CUT);
                var cut = through.getDatabase(db.getName()).getCollection("streams").watch().cursor()) {
            things.insertOne(doc("_id", 10));
            equal(key(cut.next()), 10);
            things.insertOne(doc("_id", 11, "note", "cut event java1"));
            things.insertOne(doc("_id", 12));
            equal(asList(key(cut.next()), key(cut.next())), asList(11, 12));
        }
        try (var last = things.watch().cursor()) {
            things.drop();
            equal(last.next().getOperationTypeString(), "drop");
            equal(last.next().getOperationTypeString(), "invalidate");
        }
        var forged = things.watch().resumeAfter(BsonDocument.parse("{\"_data\": \"forged\"}"));
        refused(MongoCommandException.class, -1, () -> forged.cursor().tryNext());
        db.getCollection("streams_b").drop();
    }

    static void causal() {
        var things = fresh("causal", asList(doc("_id", 1, "n", 0)));
        try (ClientSession session = client.startSession(ClientSessionOptions.builder().causallyConsistent(true).build())) {
            for (int n = 1; n < 20; n++) {
                things.updateOne(session, eq("_id", 1), set("n", n));
                equal(things.find(session, eq("_id", 1)).first().getInteger("n"), n);
            }
            equal(session.getOperationTime() != null, true);
        }
        try (ClientSession session = client.startSession(ClientSessionOptions.builder().snapshot(true).build())) {
            refused(MongoCommandException.class, 115, () -> things.find(session).first());
            without("causal", "snapshot sessions", "refused: a transaction reads one snapshot");
        }
    }

    static void concerns() throws InterruptedException {
        var things = fresh("concerns", List.of());
        int n = 0;
        for (WriteConcern concern : asList(WriteConcern.W1, WriteConcern.MAJORITY, WriteConcern.JOURNALED,
                WriteConcern.MAJORITY.withWTimeout(1, TimeUnit.SECONDS))) {
            check(things.withWriteConcern(concern).insertOne(doc("_id", n++)).wasAcknowledged(), concern);
        }
        equal(things.withWriteConcern(WriteConcern.UNACKNOWLEDGED).insertOne(doc("_id", "zero")).wasAcknowledged(), false);
        for (int tries = 0; tries < 100 && things.countDocuments() < 5; tries++) {
            Thread.sleep(20);
        }
        equal(things.countDocuments(), 5L);
        for (ReadConcern concern : asList(ReadConcern.LOCAL, ReadConcern.AVAILABLE, ReadConcern.MAJORITY, ReadConcern.LINEARIZABLE)) {
            equal(things.withReadConcern(concern).find(eq("_id", 1)).first(), doc("_id", 1));
        }
        for (ReadPreference preference : asList(ReadPreference.primary(), ReadPreference.secondaryPreferred(), ReadPreference.nearest())) {
            equal(things.withReadPreference(preference).find(eq("_id", 1)).first(), doc("_id", 1));
        }
        refused(MongoException.class, 2, () -> things.withWriteConcern(new WriteConcern(5)).insertOne(doc("_id", "five")));
    }

    static void gridfs() {
        db.getCollection("fs.files").drop();
        db.getCollection("fs.chunks").drop();
        var bucket = GridFSBuckets.create(db);
        byte[] content = new byte[1_234_567];
        for (int n = 0; n < content.length; n++) {
            content[n] = (byte) (n % 251);
        }
        var options = new GridFSUploadOptions().chunkSizeBytes(1000).metadata(doc("kind", "film"));
        ObjectId id = bucket.uploadFromStream("film.bin", new ByteArrayInputStream(content), options);
        var read = new ByteArrayOutputStream();
        bucket.downloadToStream(id, read);
        check(Arrays.equals(read.toByteArray(), content), "other bytes come back");
        equal(db.getCollection("fs.chunks").countDocuments(), 1235L);
        bucket.uploadFromStream("film.bin", new ByteArrayInputStream("second".getBytes()));
        read.reset();
        bucket.downloadToStream("film.bin", read);
        equal(read.toString(), "second");
        equal(all(bucket.find(eq("metadata.kind", "film"))).size(), 1);
        bucket.rename(id, "other.bin");
        bucket.delete(id);
        refused(MongoGridFSException.class, -1, () -> bucket.downloadToStream(id, read));
        equal(db.getCollection("fs.chunks").countDocuments(eq("files_id", id)), 0L);
    }

    static void catalog() {
        MongoDatabase other = client.getDatabase("catalog_other");
        other.drop();
        other.createCollection("one");
        other.getCollection("two").insertOne(doc("_id", 1));
        other.getCollection("two").createIndex(ascending("a"));
        other.getCollection("with.dots").insertOne(doc("_id", 1));
        var listed = all(client.listDatabases().filter(eq("name", "catalog_other")));
        check(listed.size() == 1 && !listed.get(0).getBoolean("empty"), listed);
        equal(new HashSet<>(all(other.listCollectionNames())), Set.of("one", "two", "with.dots"));
        var two = other.listCollections().filter(regex("name", "^t")).first();
        equal(two.get("idIndex", Document.class).getString("name"), "_id_");
        other.createCollection("one");
        var level = new ValidationOptions().validationLevel(ValidationLevel.STRICT);
        var strict = new CreateCollectionOptions().validationOptions(level);
        refused(MongoCommandException.class, 48, () -> other.createCollection("one", strict));
        var three = new com.mongodb.MongoNamespace("catalog_other", "three");
        var one = new com.mongodb.MongoNamespace("catalog_other", "one");
        other.getCollection("two").renameCollection(three);
        equal(all(other.getCollection("three").listIndexes()).size(), 2);
        refused(MongoCommandException.class, 48, () -> other.getCollection("three").renameCollection(one));
        other.getCollection("three").renameCollection(one, new RenameCollectionOptions().dropTarget(true));
        refused(MongoCommandException.class, 26, () -> other.getCollection("none").renameCollection(three));
        equal(other.runCommand(doc("dbStats", 1)).getLong("collections"), 2L);
        equal(other.runCommand(doc("collStats", "one")).getInteger("count"), 1);
        equal(other.runCommand(doc("validate", "one")).getBoolean("valid"), true);
        other.getCollection("one").drop();
        other.getCollection("none").drop();
        other.drop();
        equal(all(client.listDatabases().filter(eq("name", "catalog_other"))).size(), 0);
    }

    static void commands(String name) {
        collections();
        for (BsonValue value : cases.getArray(name)) {
            BsonDocument command = value.asDocument().getDocument("command");
            int code = value.asDocument().getNumber("code").intValue();
            try {
                db.runCommand(command);
            } catch (MongoException error) {
                check(error.getCode() == code, command + ": " + error);
                continue;
            }
            throw new Failed(command + " succeeded");
        }
    }

    static void errors() {
        commands("errors");
        var things = fresh("errors", asList(doc("_id", 1, "text", "a")));
        refused(MongoWriteException.class, 11000, () -> things.insertOne(doc("_id", 1)));
        refused(MongoWriteException.class, -1, () -> things.insertOne(doc("_id", asList(1))));
        refused(MongoException.class, -1, () -> things.find(doc("text", doc("$regex", "("))).first());
    }

    static void maxTime() {
        var slow = fresh("slow", many(1000, n -> doc("_id", n)));
        List<BsonDocument> pipeline = cases.getArray("slow").stream().map(BsonValue::asDocument).collect(Collectors.toList());
        refused(MongoExecutionTimeoutException.class, 50, () -> slow.aggregate(pipeline).maxTime(30, TimeUnit.MILLISECONDS).first());
        equal(all(slow.find().maxTime(1, TimeUnit.MINUTES)).size(), 1000);
        refused(MongoException.class, -1, () -> slow.withTimeout(50, TimeUnit.MILLISECONDS).aggregate(pipeline).first());
        equal(db.runCommand(doc("ping", 1)).getDouble("ok"), 1.0);
    }

    static void explain() {
        var things = fresh("plans", many(100, n -> doc("_id", n, "a", n % 5)));
        things.createIndex(ascending("a"));
        Document plan = things.find(eq("a", 3)).explain(ExplainVerbosity.EXECUTION_STATS);
        equal(plan.getEmbedded(asList("queryPlanner", "winningPlan", "inputStage", "indexName"), String.class), "a_1");
        equal(plan.getEmbedded(asList("executionStats", "nReturned"), Integer.class), 20);
        Document whole = things.find(eq("b", 3)).explain(ExplainVerbosity.EXECUTION_STATS);
        equal(whole.getEmbedded(asList("queryPlanner", "winningPlan", "stage"), String.class), "COLLSCAN");
        equal(whole.getEmbedded(asList("executionStats", "totalDocsExamined"), Integer.class), 100);
        var stages = asList(doc("$match", doc("a", 1)), doc("$group", doc("_id", "$a")));
        check(things.aggregate(stages).explain().containsKey("stages"), "aggregate");
        Document of = doc("a", 1);
        Document change = doc("$set", doc("b", 1));
        for (Document command : asList(
            doc("update", "plans", "updates", asList(doc("q", of, "u", change))),
            doc("delete", "plans", "deletes", asList(doc("q", of, "limit", 0))),
            doc("count", "plans", "query", of),
            doc("distinct", "plans", "key", "a"),
            doc("findAndModify", "plans", "query", of, "update", change))) {
            for (String verbosity : asList("queryPlanner", "executionStats", "allPlansExecution")) {
                db.runCommand(doc("explain", command, "verbosity", verbosity));
            }
        }
        equal(things.countDocuments(eq("b", 1)), 0L);
    }

    static void refusals() {
        commands("refusals");
        check(!all(db.listCollectionNames()).contains("x"), "a collection that was refused is there");
    }

    static int failures = 0;

    static void step(String name, Step step) {
        try {
            step.run();
            System.out.println("ok " + name);
        } catch (Throwable error) {
            failures++;
            int line = Arrays.stream(error.getStackTrace())
                .filter(frame -> frame.getClassName().equals("Scenario") && !Set.of("check", "equal", "refused", "sameBytes").contains(frame.getMethodName()))
                .mapToInt(StackTraceElement::getLineNumber).findFirst().orElse(0);
            System.out.println("FAILED " + name + ": line " + line + ": " + error.toString().replace("\n", " "));
        }
    }

    public static void main(String[] words) throws Exception {
        java.util.logging.Logger.getLogger("org.mongodb.driver").setLevel(java.util.logging.Level.OFF);
        cases = BsonDocument.parse(Files.readString(Path.of(System.getenv("FLAGSTONE_CASES"))));
        client = MongoClients.create(OPEN);
        db = client.getDatabase("scenario");
        db.drop();
        step("connect", Scenario::connect);
        step("login", Scenario::login);
        step("types", Scenario::types);
        step("crud", Scenario::crud);
        step("bulk", Scenario::bulk);
        step("updates", Scenario::updates);
        step("find-and-modify", Scenario::findAndModify);
        step("indexes", Scenario::indexes);
        step("aggregate", Scenario::aggregate);
        step("cursors", Scenario::cursors);
        step("transactions", Scenario::transactions);
        step("retries", Scenario::retries);
        step("streams", Scenario::streams);
        step("causal", Scenario::causal);
        step("concerns", Scenario::concerns);
        step("gridfs", Scenario::gridfs);
        step("catalog", Scenario::catalog);
        step("errors", Scenario::errors);
        step("max-time", Scenario::maxTime);
        step("explain", Scenario::explain);
        step("refusals", Scenario::refusals);
        client.close();
        System.exit(failures > 0 ? 1 : 0);
    }
}
