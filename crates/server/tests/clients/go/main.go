// The scenario of `cargo xtask clients` with the Go driver.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/gridfs"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.mongodb.org/mongo-driver/mongo/readconcern"
	"go.mongodb.org/mongo-driver/mongo/readpref"
	"go.mongodb.org/mongo-driver/mongo/writeconcern"
)

var (
	ctx   = context.Background()
	open  = "mongodb://" + os.Getenv("FLAGSTONE_OPEN")
	cut   = "mongodb://" + os.Getenv("FLAGSTONE_CUT")
	cases bson.Raw
)

// failed is what a check panics with: a step ends at the first.
type failed struct{ text string }

func fail(format string, words ...any) {
	text := fmt.Sprintf(format, words...)
	for depth := 1; ; depth++ {
		caller, _, line, is := runtime.Caller(depth)
		if !is || strings.HasPrefix(runtime.FuncForPC(caller).Name(), "main.step") {
			panic(failed{fmt.Sprintf("line %d: %s", line, text)})
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		fail("%v", err)
	}
	return value
}

func ok(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func equal(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		fail("expected %v, found %v", expected, found)
	}
}

func check(is bool, format string, words ...any) {
	if !is {
		fail(format, words...)
	}
}

// refused returns the error of a server, which must have this code.
func refused(err error, code int) mongo.ServerError {
	var server mongo.ServerError
	if !errors.As(err, &server) {
		fail("expected an error of the server with code %d, found %v", code, err)
	}
	check(code == 0 || server.HasErrorCode(code), "expected code %d, found %v", code, err)
	return server
}

func without(step, piece, reason string) { fmt.Printf("without %s: %s: %s\n", step, piece, reason) }

func connect(uri string, more ...*options.ClientOptions) *mongo.Client {
	all := append([]*options.ClientOptions{options.Client().ApplyURI(uri)}, more...)
	return must(mongo.Connect(ctx, all...))
}

func fresh(db *mongo.Database, name string, documents ...any) *mongo.Collection {
	ok(db.Collection(name).Drop(ctx))
	if len(documents) > 0 {
		must(db.Collection(name).InsertMany(ctx, documents))
	}
	return db.Collection(name)
}

func many(n int, make func(n int) any) (documents []any) {
	for i := 0; i < n; i++ {
		documents = append(documents, make(i))
	}
	return documents
}

func all(cursor *mongo.Cursor, err error) (rows []bson.Raw) {
	ok(err)
	ok(cursor.All(ctx, &rows))
	return rows
}

func list(value bson.RawValue) (items []bson.RawValue) {
	if value.Type == bson.TypeArray {
		items = must(value.Array().Values())
	}
	return items
}

// number returns the whole number at a path.
func number(document bson.Raw, path ...string) int64 {
	value, err := document.LookupErr(path...)
	if err != nil {
		fail("no %v in %v", path, document)
	}
	found, is := value.AsInt64OK()
	check(is, "no number at %v in %v", path, document)
	return found
}

func get(things *mongo.Collection, filter any) bson.Raw {
	return must(things.FindOne(ctx, filter).Raw())
}

func collections(db *mongo.Database) {
	for _, element := range must(cases.Lookup("collections").Document().Elements()) {
		ok(db.Collection(element.Key()).Drop(ctx))
		var documents []any
		for _, document := range list(element.Value()) {
			documents = append(documents, document.Document())
		}
		must(db.Collection(element.Key()).InsertMany(ctx, documents))
	}
}

func sameRows(found []bson.Raw, expected []bson.RawValue) {
	check(len(found) == len(expected), "expected %d rows, found %v", len(expected), found)
	for n, row := range found {
		check(bytes.Equal(row, expected[n].Value), "expected %v, found %v", expected[n], row)
	}
}

func stepConnect(db *mongo.Database) {
	ok(db.Client().Ping(ctx, readpref.Primary()))
	hello := must(db.RunCommand(ctx, bson.M{"hello": 1}).Raw())
	check(number(hello, "maxWireVersion") >= 21, "%v", hello)
	refused(db.RunCommand(ctx, bson.M{"noSuchCommand": 1}).Err(), 59)
	other := connect(open, options.Client().SetCompressors([]string{"zlib"}).SetMaxPoolSize(4))
	defer other.Disconnect(ctx)
	done := make(chan error)
	for i := 0; i < 8; i++ {
		go func() { done <- other.Ping(ctx, nil) }()
	}
	for i := 0; i < 8; i++ {
		ok(<-done)
	}
}

func stepLogin(_ *mongo.Database) {
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(must(os.ReadFile(os.Getenv("FLAGSTONE_CA"))))
	trusting := &tls.Config{RootCAs: authority}
	uri := "mongodb://" + os.Getenv("FLAGSTONE_SECURE")
	short := options.Client().SetServerSelectionTimeout(1500 * time.Millisecond)
	secure := func(user, password string) *mongo.Client {
		login := options.Credential{Username: user, Password: password}
		return connect(uri, options.Client().SetTLSConfig(trusting).SetAuth(login))
	}
	root := secure("ada", "secret")
	defer root.Disconnect(ctx)
	must(root.Database("shop").Collection("orders").DeleteMany(ctx, bson.M{}))
	must(root.Database("shop").Collection("orders").InsertOne(ctx, bson.M{"_id": 1}))
	if err := root.Database("admin").RunCommand(ctx, bson.M{"dropUser": "reader"}).Err(); err != nil {
		refused(err, 11)
	}
	roles := bson.A{bson.M{"role": "read", "db": "shop"}}
	create := bson.D{{"createUser", "reader"}, {"pwd", "r e@d/er"}, {"roles", roles}}
	ok(root.Database("admin").RunCommand(ctx, create).Err())
	for _, wrong := range []string{"ada", "nobody"} {
		client := secure(wrong, "wrong")
		err := client.Database("shop").Collection("orders").FindOne(ctx, bson.M{}).Err()
		check(err != nil && strings.Contains(err.Error(), "auth error"), "%v", err)
		client.Disconnect(ctx)
	}
	reader := secure("reader", "r e@d/er")
	defer reader.Disconnect(ctx)
	equal(number(get(reader.Database("shop").Collection("orders"), bson.M{}), "_id"), int64(1))
	_, err := reader.Database("shop").Collection("orders").InsertOne(ctx, bson.M{"_id": 2})
	refused(err, 13)
	refused(reader.Database("other").Collection("orders").FindOne(ctx, bson.M{}).Err(), 13)
	equal(must(reader.ListDatabaseNames(ctx, bson.M{})), []string{"shop"})
	nobody := connect(uri, options.Client().SetTLSConfig(trusting))
	defer nobody.Disconnect(ctx)
	refused(nobody.Database("shop").Collection("orders").FindOne(ctx, bson.M{}).Err(), 13)
	for _, client := range []*mongo.Client{
		connect(uri, short), connect(uri, short.SetTLSConfig(&tls.Config{RootCAs: x509.NewCertPool()})),
	} {
		check(client.Ping(ctx, nil) != nil, "a client without TLS, or without trust, is answered")
		client.Disconnect(ctx)
	}
}

func stepTypes(db *mongo.Database) {
	things, keys := fresh(db, "types"), fresh(db, "keys")
	types := must(cases.Lookup("types").Document().Elements())
	document := bson.D{{"_id", "all"}}
	for _, element := range types {
		document = append(document, bson.E{Key: element.Key(), Value: element.Value()})
	}
	must(things.InsertOne(ctx, document))
	expected := must(bson.Marshal(document))
	check(bytes.Equal(get(things, bson.M{"_id": "all"}), expected), "not the same bytes")
	var tree bson.D
	ok(things.FindOne(ctx, bson.M{"_id": "all"}).Decode(&tree))
	check(bytes.Equal(must(bson.Marshal(tree)), expected), "not the same bytes after decoding")
	for _, element := range types {
		name, value := element.Key(), element.Value()
		found := must(things.CountDocuments(ctx, bson.D{{name, value}}))
		if name == "regex" {
			equal(found, int64(0))
			without("types", "a stored pattern as filter", "a pattern finds texts only")
		} else {
			check(found == 1, "%s: found %d", name, found)
		}
		key := bson.D{{"_id", value}, {"name", name}}
		_, err := keys.InsertOne(ctx, key)
		switch {
		case name == "list" || name == "regex" || name == "db-ref":
			refused(err, 0)
		case mongo.IsDuplicateKeyError(err):
			check(name == "int64" || name == "double", "%s: %v", name, err)
		default:
			ok(err)
			bytes1 := get(keys, bson.D{{"_id", value}})
			check(bytes.Equal(bytes1, must(bson.Marshal(key))), "%s: %v", name, bytes1)
		}
	}
	large := bson.D{{"_id", "large"}, {"text", strings.Repeat("x", 15<<20)}}
	must(things.InsertOne(ctx, large))
	check(bytes.Equal(get(things, bson.M{"_id": "large"}), must(bson.Marshal(large))), "large")
	_, err := things.InsertOne(ctx, bson.M{"text": strings.Repeat("x", 17<<20)})
	check(err != nil, "17 MiB are accepted")
}

func stepCrud(db *mongo.Database) {
	orders := fresh(db, "orders", many(30, func(n int) any { return bson.M{"_id": n, "n": n, "m": n % 3} })...)
	made := must(orders.InsertOne(ctx, bson.M{"customer": "ada", "total": 3}))
	_, is := made.InsertedID.(primitive.ObjectID)
	check(is, "%v", made)
	find := options.Find().SetSort(bson.D{{"m", -1}, {"n", 1}}).SetSkip(1).SetLimit(2)
	rows := all(orders.Find(ctx, bson.M{"n": bson.M{"$gte": 10}}, find.SetProjection(bson.M{"_id": 0, "n": 1})))
	equal(fmt.Sprint(rows), `[{"n": {"$numberInt":"14"}} {"n": {"$numberInt":"17"}}]`)
	equal(must(orders.CountDocuments(ctx, bson.M{"m": 1})), int64(10))
	counted := options.Count().SetSkip(5).SetLimit(10)
	equal(must(orders.CountDocuments(ctx, bson.M{}, counted)), int64(10))
	equal(must(orders.EstimatedDocumentCount(ctx)), int64(31))
	equal(len(must(orders.Distinct(ctx, "m", bson.M{"n": bson.M{"$lt": 2}}))), 2)
	replaced := must(orders.ReplaceOne(ctx, bson.M{"_id": 1}, bson.M{"n": "one"}))
	equal(*replaced, mongo.UpdateResult{MatchedCount: 1, ModifiedCount: 1})
	upserted := must(orders.ReplaceOne(ctx, bson.M{"_id": 100}, bson.M{"n": 100}, options.Replace().SetUpsert(true)))
	equal([]any{upserted.UpsertedID, upserted.UpsertedCount}, []any{int32(100), int64(1)})
	same := must(orders.UpdateByID(ctx, 1, bson.M{"$set": bson.M{"n": "one"}}))
	equal(*same, mongo.UpdateResult{MatchedCount: 1})
	changed := must(orders.UpdateMany(ctx, bson.M{"m": 2}, bson.M{"$set": bson.M{"seen": true}}))
	equal(*changed, mongo.UpdateResult{MatchedCount: 10, ModifiedCount: 10})
	equal(must(orders.DeleteOne(ctx, bson.M{"m": 2})).DeletedCount, int64(1))
	equal(must(orders.DeleteMany(ctx, bson.M{"m": 2})).DeletedCount, int64(9))
	check(orders.FindOne(ctx, bson.M{"_id": "nothing"}).Err() == mongo.ErrNoDocuments, "found nothing")
	get(orders, bson.M{"customer": primitive.Regex{Pattern: "^A", Options: "i"}})
}

func stepBulk(db *mongo.Database) {
	things := fresh(db, "bulk")
	insert := func(id int) mongo.WriteModel { return mongo.NewInsertOneModel().SetDocument(bson.M{"_id": id}) }
	done := must(things.BulkWrite(ctx, []mongo.WriteModel{
		insert(1),
		insert(2),
		mongo.NewUpdateOneModel().SetFilter(bson.M{"_id": 1}).SetUpdate(bson.M{"$set": bson.M{"a": 1}}),
		mongo.NewUpdateManyModel().SetFilter(bson.M{}).SetUpdate(bson.M{"$inc": bson.M{"b": 1}}),
		mongo.NewReplaceOneModel().SetFilter(bson.M{"_id": 3}).SetReplacement(bson.M{"c": 3}).SetUpsert(true),
		mongo.NewUpdateOneModel().SetFilter(bson.M{"_id": 4}).SetUpdate(bson.M{"$set": bson.M{"c": 4}}).SetUpsert(true),
		mongo.NewDeleteOneModel().SetFilter(bson.M{"_id": 2}),
		mongo.NewDeleteManyModel().SetFilter(bson.M{"c": 4}),
	}))
	equal(*done, mongo.BulkWriteResult{
		InsertedCount: 2, MatchedCount: 3, ModifiedCount: 3, DeletedCount: 2, UpsertedCount: 2,
		UpsertedIDs: map[int64]any{4: int32(3), 5: int32(4)},
	})
	work := []mongo.WriteModel{insert(1), insert(9), mongo.NewDeleteOneModel().SetFilter(bson.M{"_id": 3})}
	for _, ordered := range []bool{true, false} {
		done, err := things.BulkWrite(ctx, work, options.BulkWrite().SetOrdered(ordered))
		var bulk mongo.BulkWriteException
		check(errors.As(err, &bulk) && len(bulk.WriteErrors) == 1, "%v", err)
		equal([]int{bulk.WriteErrors[0].Index, bulk.WriteErrors[0].Code}, []int{0, 11000})
		if ordered {
			equal([]int64{done.InsertedCount, done.DeletedCount}, []int64{0, 0})
		} else {
			equal([]int64{done.InsertedCount, done.DeletedCount}, []int64{1, 1})
		}
	}
	rows := many(120000, func(n int) any { return bson.M{"_id": n + 100, "text": strings.Repeat("x", 100)} })
	equal(len(must(things.InsertMany(ctx, rows, options.InsertMany().SetOrdered(false))).InsertedIDs), 120000)
	equal(must(things.DeleteMany(ctx, bson.M{"_id": bson.M{"$gte": 100}})).DeletedCount, int64(120000))
}

func stepUpdates(db *mongo.Database) {
	things := fresh(db, "updates")
	for n, value := range list(cases.Lookup("updates")) {
		test := value.Document()
		if before, err := test.LookupErr("before"); err == nil {
			document := bson.D{{"_id", n}}
			for _, element := range must(before.Document().Elements()) {
				document = append(document, bson.E{Key: element.Key(), Value: element.Value()})
			}
			must(things.InsertOne(ctx, document))
		}
		where := bson.D{{"_id", n}}
		if more, err := test.LookupErr("where"); err == nil {
			for _, element := range must(more.Document().Elements()) {
				where = append(where, bson.E{Key: element.Key(), Value: element.Value()})
			}
		}
		choices := options.Update()
		if filters, err := test.LookupErr("filters"); err == nil {
			var each []any
			for _, filter := range list(filters) {
				each = append(each, filter.Document())
			}
			choices.SetArrayFilters(options.ArrayFilters{Filters: each})
		}
		if upsert, err := test.LookupErr("upsert"); err == nil {
			choices.SetUpsert(upsert.Boolean())
		}
		var update any
		if value := test.Lookup("update"); value.Type == bson.TypeArray {
			var stages bson.A
			ok(value.Unmarshal(&stages))
			update = stages
		} else {
			update = value.Document()
		}
		_, err := things.UpdateOne(ctx, where, update, choices)
		if code, wrong := test.LookupErr("code"); wrong == nil {
			refused(err, int(code.AsInt64()))
			continue
		}
		ok(err)
		found := must(things.FindOne(ctx, bson.M{"_id": n}, options.FindOne().SetProjection(bson.M{"_id": 0})).Raw())
		after := test.Lookup("after").Document()
		check(bytes.Equal(found, after), "%v: expected %v, found %v", update, after, found)
	}
	now := bson.M{"$currentDate": bson.M{"d": true, "t": bson.M{"$type": "timestamp"}}}
	must(things.UpdateOne(ctx, bson.M{"_id": "now"}, now, options.Update().SetUpsert(true)))
	found := get(things, bson.M{"_id": "now"})
	check(found.Lookup("d").Type == bson.TypeDateTime && found.Lookup("t").Type == bson.TypeTimestamp, "%v", found)
}

func stepFindAndModify(db *mongo.Database) {
	jobs := fresh(db, "jobs", many(5, func(n int) any { return bson.M{"_id": n, "state": "new", "rank": -n} })...)
	take, isNew := bson.M{"$set": bson.M{"state": "taken"}}, bson.M{"state": "new"}
	choices := options.FindOneAndUpdate().SetSort(bson.M{"rank": 1})
	taken := must(jobs.FindOneAndUpdate(ctx, isNew, take, choices).Raw())
	equal([]any{number(taken, "_id"), taken.Lookup("state").StringValue()}, []any{int64(4), "new"})
	choices.SetReturnDocument(options.After).SetProjection(bson.M{"state": 1})
	taken = must(jobs.FindOneAndUpdate(ctx, isNew, take, choices).Raw())
	equal(taken.String(), `{"_id": {"$numberInt":"3"},"state": "taken"}`)
	upsert := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)
	made := must(jobs.FindOneAndUpdate(ctx, bson.M{"_id": "counter"}, bson.M{"$inc": bson.M{"n": 1}}, upsert).Raw())
	equal(number(made, "n"), int64(1))
	err := jobs.FindOneAndUpdate(ctx, bson.M{"_id": 77}, take).Err()
	check(err == mongo.ErrNoDocuments, "%v", err)
	must(jobs.FindOneAndReplace(ctx, bson.M{"_id": 0}, bson.M{"x": 1}).Raw())
	equal(number(get(jobs, bson.M{"_id": 0}), "x"), int64(1))
	deleted := options.FindOneAndDelete().SetSort(bson.M{"_id": -1})
	equal(number(must(jobs.FindOneAndDelete(ctx, bson.M{"state": "taken"}, deleted).Raw()), "_id"), int64(4))
	must(jobs.UpdateByID(ctx, 1, bson.M{"$set": bson.M{"list": bson.A{1, 2}}}))
	upsert.SetArrayFilters(options.ArrayFilters{Filters: []any{bson.M{"x": 2}}})
	changed := must(jobs.FindOneAndUpdate(ctx, bson.M{"_id": 1}, bson.M{"$inc": bson.M{"list.$[x]": 5}}, upsert).Raw())
	equal(number(changed, "list", "1"), int64(7))
}

func stepIndexes(db *mongo.Database) {
	users := fresh(db, "users")
	index := func(keys bson.D, choices *options.IndexOptions) mongo.IndexModel {
		return mongo.IndexModel{Keys: keys, Options: choices}
	}
	names := must(users.Indexes().CreateMany(ctx, []mongo.IndexModel{
		index(bson.D{{"mail", 1}}, options.Index().SetUnique(true)),
		index(bson.D{{"town", 1}, {"age", -1}}, options.Index().SetName("town_age")),
		index(bson.D{{"nick", 1}}, options.Index().SetSparse(true)),
		index(bson.D{{"born", 1}}, options.Index().SetExpireAfterSeconds(3600)),
		index(bson.D{{"score", 1}}, options.Index().SetPartialFilterExpression(bson.M{"score": bson.M{"$gt": 10}})),
	}))
	equal(names, []string{"mail_1", "town_age", "nick_1", "born_1", "score_1"})
	seen := map[string]*mongo.IndexSpecification{}
	for _, found := range must(users.Indexes().ListSpecifications(ctx)) {
		seen[found.Name] = found
	}
	equal(len(seen), 6)
	check(*seen["mail_1"].Unique && *seen["nick_1"].Sparse && *seen["born_1"].ExpireAfterSeconds == 3600, "%v", seen)
	must(users.InsertMany(ctx, many(30, func(n int) any {
		return bson.M{"_id": n, "mail": fmt.Sprint("m", n), "town": fmt.Sprint("t", n%3), "age": n}
	})))
	_, err := users.InsertOne(ctx, bson.M{"mail": "m3"})
	check(mongo.IsDuplicateKeyError(err), "%v", err)
	var write mongo.WriteException
	check(errors.As(err, &write), "%v", err)
	equal(write.WriteErrors[0].Raw.Lookup("keyValue", "mail").StringValue(), "m3")
	_, err = users.UpdateByID(ctx, 1, bson.M{"$set": bson.M{"mail": "m2"}})
	check(mongo.IsDuplicateKeyError(err), "%v", err)
	err = users.FindOneAndUpdate(ctx, bson.M{"_id": 1}, bson.M{"$set": bson.M{"mail": "m2"}}).Err()
	check(mongo.IsDuplicateKeyError(err), "%v", err)
	hinted := options.Find().SetHint("town_age").SetSort(bson.M{"age": -1})
	equal(number(all(users.Find(ctx, bson.M{"town": "t1"}, hinted))[0], "age"), int64(28))
	hinted.SetHint(bson.D{{"town", 1}, {"age", -1}})
	equal(len(all(users.Find(ctx, bson.M{"town": "t1"}, hinted))), 10)
	_, err = users.Find(ctx, bson.M{}, options.Find().SetHint("no_such_index"))
	refused(err, 2)
	_, err = users.Indexes().CreateOne(ctx, index(bson.D{{"other", 1}}, options.Index().SetName("town_age")))
	refused(err, 86)
	_, err = users.Indexes().CreateOne(ctx, index(bson.D{{"town", 1}}, options.Index().SetUnique(true)))
	refused(err, 11000)
	must(users.Indexes().DropOne(ctx, "town_age"))
	_, err = users.Indexes().DropOne(ctx, "town_age")
	refused(err, 27)
	must(users.Indexes().DropAll(ctx))
	equal(len(must(users.Indexes().ListSpecifications(ctx))), 1)
}

func stepAggregate(db *mongo.Database) {
	collections(db)
	for _, value := range list(cases.Lookup("aggregates")) {
		test := value.Document()
		var pipeline bson.A
		ok(test.Lookup("pipeline").Unmarshal(&pipeline))
		sameRows(all(db.Collection(test.Lookup("of").StringValue()).Aggregate(ctx, pipeline)), list(test.Lookup("rows")))
	}
	sorted := bson.A{bson.M{"$sort": bson.M{"total": -1}}, bson.M{"$project": bson.M{"total": 1}}}
	batches := options.Aggregate().SetBatchSize(7).SetAllowDiskUse(true)
	for n, row := range all(db.Collection("sales").Aggregate(ctx, sorted, batches)) {
		equal(number(row, "total"), int64(39-n))
	}
	equal(len(all(db.Collection("sales").Aggregate(ctx, bson.A{bson.M{"$sample": bson.M{"size": 5}}}))), 5)
	group := bson.M{"$group": bson.M{"_id": "$c", "n": bson.M{"$sum": 1}}}
	if _, err := db.Collection("sales").Aggregate(ctx, bson.A{group, bson.M{"$out": "totals"}}); err != nil {
		refused(err, 115)
		without("aggregate", "$out and $merge", "the server refuses them")
	} else {
		equal(must(db.Collection("totals").CountDocuments(ctx, bson.M{})), int64(4))
	}
}

func stepCursors(db *mongo.Database) {
	rows := fresh(db, "rows", many(5000, func(n int) any { return bson.M{"_id": n, "pad": strings.Repeat("x", 50)} })...)
	n := int64(0)
	cursor := must(rows.Find(ctx, bson.M{}, options.Find().SetBatchSize(37).SetSort(bson.M{"_id": 1})))
	for cursor.Next(ctx) {
		equal(number(cursor.Current, "_id"), n)
		n++
	}
	ok(cursor.Err())
	equal(n, int64(5000))
	equal(len(all(rows.Find(ctx, bson.M{}, options.Find().SetBatchSize(1000).SetLimit(3000)))), 3000)
	cursor = must(rows.Find(ctx, bson.M{}, options.Find().SetBatchSize(10)))
	id := cursor.ID()
	check(id != 0, "the cursor ends with its first batch")
	ok(cursor.Close(ctx))
	refused(db.RunCommand(ctx, bson.D{{"getMore", id}, {"collection", "rows"}}).Err(), 43)
	cursor = must(rows.Find(ctx, bson.M{}, options.Find().SetBatchSize(10)))
	kill := bson.D{{"killCursors", "rows"}, {"cursors", bson.A{cursor.ID(), int64(77)}}}
	killed := must(db.RunCommand(ctx, kill).Raw())
	equal(number(killed, "cursorsKilled", "0"), cursor.ID())
	equal(number(killed, "cursorsNotFound", "0"), int64(77))
	for cursor.Next(ctx) {
	}
	refused(cursor.Err(), 43)
}

func stepTransactions(db *mongo.Database) {
	accounts := fresh(db, "accounts", bson.M{"_id": "a", "sum": 100}, bson.M{"_id": "b", "sum": 0})
	sum := func(id string) int64 { return number(get(accounts, bson.M{"_id": id}), "sum") }
	move := func(in mongo.SessionContext) (any, error) {
		_, err := accounts.UpdateByID(in, "a", bson.M{"$inc": bson.M{"sum": -10}})
		if err == nil {
			_, err = accounts.UpdateByID(in, "b", bson.M{"$inc": bson.M{"sum": 10}})
		}
		return nil, err
	}
	session := must(db.Client().StartSession())
	defer session.EndSession(ctx)
	must(session.WithTransaction(ctx, move))
	equal([]int64{sum("a"), sum("b")}, []int64{90, 10})
	ok(mongo.WithSession(ctx, session, func(in mongo.SessionContext) error {
		ok(session.StartTransaction())
		must(move(in))
		equal(number(must(accounts.FindOne(in, bson.M{"_id": "a"}).Raw()), "sum"), int64(80))
		return session.AbortTransaction(in)
	}))
	equal([]int64{sum("a"), sum("b")}, []int64{90, 10})
	tries := 0
	must(session.WithTransaction(ctx, func(in mongo.SessionContext) (any, error) {
		tries++
		before, err := accounts.FindOne(in, bson.M{"_id": "a"}).Raw()
		if err != nil {
			return nil, err
		}
		if tries == 1 {
			must(accounts.UpdateByID(ctx, "a", bson.M{"$inc": bson.M{"sum": 1}}))
		}
		return accounts.UpdateByID(in, "a", bson.M{"$set": bson.M{"sum": number(before, "sum") + 5}})
	}))
	equal([]int64{int64(tries), sum("a")}, []int64{2, 96})
	ok(mongo.WithSession(ctx, session, func(in mongo.SessionContext) error {
		choices := options.Transaction().SetReadConcern(readconcern.Snapshot())
		ok(session.StartTransaction(choices.SetWriteConcern(writeconcern.Majority())))
		must(accounts.InsertOne(in, bson.M{"_id": "c"}))
		equal(len(all(accounts.Aggregate(in, bson.A{bson.M{"$match": bson.M{}}}))), 3)
		ok(session.CommitTransaction(in))
		ok(session.CommitTransaction(in))
		ok(session.StartTransaction())
		_, err := accounts.InsertOne(in, bson.M{"_id": "c"})
		check(mongo.IsDuplicateKeyError(err), "%v", err)
		err = accounts.FindOne(in, bson.M{}).Err()
		check(refused(err, 251).HasErrorLabel("TransientTransactionError"), "%v", err)
		return session.AbortTransaction(in)
	}))
	first, second := must(db.Client().StartSession()), must(db.Client().StartSession())
	defer first.EndSession(ctx)
	defer second.EndSession(ctx)
	ok(first.StartTransaction())
	ok(second.StartTransaction())
	in1, in2 := mongo.NewSessionContext(ctx, first), mongo.NewSessionContext(ctx, second)
	must(accounts.UpdateByID(in1, "a", bson.M{"$set": bson.M{"by": 1}}))
	_, err := accounts.UpdateByID(in2, "a", bson.M{"$set": bson.M{"by": 2}})
	ok(first.CommitTransaction(in1))
	if err == nil {
		err = second.CommitTransaction(in2)
	}
	check(refused(err, 112).HasErrorLabel("TransientTransactionError"), "%v", err)
}

func stepRetries(db *mongo.Database) {
	things := fresh(db, "retries", bson.M{"_id": 1, "n": 0})
	client := connect(cut)
	defer client.Disconnect(ctx)
	through := client.Database(db.Name()).Collection("retries")
	more := func(note string) bson.M { return bson.M{"$inc": bson.M{"n": 1}, "$set": bson.M{"note": note}} }
	must(through.InsertOne(ctx, bson.M{"_id": 2, "note": "cut reply go1"}))
	must(through.UpdateByID(ctx, 1, more("cut reply go2")))
	equal(number(must(through.FindOneAndUpdate(ctx, bson.M{"_id": 1}, more("cut reply go3")).Raw()), "n"), int64(1))
	must(through.DeleteOne(ctx, bson.M{"_id": 2, "x": bson.M{"$ne": "cut reply go4"}}))
	must(through.InsertMany(ctx, many(10, func(n int) any { return bson.M{"_id": n + 10, "note": "cut reply go5"} })))
	done := must(through.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewUpdateOneModel().SetFilter(bson.M{"_id": 1}).SetUpdate(more("cut reply go6")),
		mongo.NewInsertOneModel().SetDocument(bson.M{"_id": 20}),
	}))
	equal([]int64{done.ModifiedCount, done.InsertedCount}, []int64{1, 1})
	equal(number(get(through, bson.M{"_id": 1, "x": bson.M{"$ne": "cut reply go7"}}), "n"), int64(3))
	equal(must(things.CountDocuments(ctx, bson.M{})), int64(12))
	once := connect(cut, options.Client().SetRetryWrites(false))
	defer once.Disconnect(ctx)
	_, err := once.Database(db.Name()).Collection("retries").InsertOne(ctx, bson.M{"note": "cut reply go8"})
	check(mongo.IsNetworkError(err), "%v", err)
	session := must(client.StartSession())
	defer session.EndSession(ctx)
	must(session.WithTransaction(ctx, func(in mongo.SessionContext) (any, error) {
		if _, err := through.UpdateByID(in, 1, bson.M{"$inc": bson.M{"n": 1}}); err != nil {
			return nil, err
		}
		return through.InsertOne(in, bson.M{"note": "cut reply go9"})
	}))
	equal(number(get(things, bson.M{"_id": 1}), "n"), int64(4))
}

func next(stream *mongo.ChangeStream) bson.Raw {
	short, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	check(stream.Next(short), "no event: %v", stream.Err())
	return append(bson.Raw(nil), stream.Current...)
}

func stepStreams(db *mongo.Database) {
	things := fresh(db, "streams")
	images := options.CreateCollection().SetChangeStreamPreAndPostImages(bson.M{"enabled": true})
	ok(db.CreateCollection(ctx, "streams", images))
	choices := options.ChangeStream().SetFullDocument(options.UpdateLookup).SetFullDocumentBeforeChange(options.WhenAvailable)
	stream := must(things.Watch(ctx, mongo.Pipeline{}, choices.SetMaxAwaitTime(500*time.Millisecond)))
	check(!stream.TryNext(ctx), "an event before there is one")
	must(things.InsertOne(ctx, bson.M{"_id": 1, "n": 1}))
	must(things.UpdateByID(ctx, 1, bson.M{"$set": bson.M{"n": 2}}))
	must(things.ReplaceOne(ctx, bson.M{"_id": 1}, bson.M{"m": 3}))
	must(things.DeleteOne(ctx, bson.M{"_id": 1}))
	var kinds []string
	var tokens []bson.Raw
	for i := 0; i < 4; i++ {
		event := next(stream)
		kinds = append(kinds, event.Lookup("operationType").StringValue())
		tokens = append(tokens, event.Lookup("_id").Document())
		equal(event.Lookup("ns", "coll").StringValue(), "streams")
		equal(number(event, "documentKey", "_id"), int64(1))
		if i == 1 {
			equal(number(event, "updateDescription", "updatedFields", "n"), int64(2))
			equal(number(event, "fullDocumentBeforeChange", "n"), int64(1))
		}
	}
	ok(stream.Close(ctx))
	equal([]string{kinds[0], kinds[1], kinds[3]}, []string{"insert", "update", "delete"})
	if kinds[2] != "replace" {
		without("streams", "replace events", "a replacement is an update with the difference")
	}
	resumed := must(things.Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetResumeAfter(tokens[0])))
	equal(next(resumed).Lookup("operationType").StringValue(), "update")
	ok(resumed.Close(ctx))
	resumed = must(things.Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetStartAfter(tokens[2])))
	equal(next(resumed).Lookup("operationType").StringValue(), "delete")
	ok(resumed.Close(ctx))
	only := bson.A{bson.M{"$match": bson.M{"operationType": "insert"}}, bson.M{"$project": bson.M{"fullDocument": 1}}}
	if inserts, err := things.Watch(ctx, only); err != nil {
		refused(err, 115)
		without("streams", "stages after $changeStream", "the server refuses them")
	} else {
		must(things.InsertOne(ctx, bson.M{"_id": 5}))
		must(things.DeleteOne(ctx, bson.M{"_id": 5}))
		must(things.InsertOne(ctx, bson.M{"_id": 6}))
		for _, id := range []int64{5, 6} {
			equal(number(next(inserts), "fullDocument", "_id"), id)
		}
		ok(inserts.Close(ctx))
	}
	ofDatabase, ofAll := must(db.Watch(ctx, mongo.Pipeline{})), must(db.Client().Watch(ctx, mongo.Pipeline{}))
	must(db.Collection("streams_b").InsertOne(ctx, bson.M{"_id": 1}))
	equal(next(ofDatabase).Lookup("ns", "coll").StringValue(), "streams_b")
	equal(next(ofAll).Lookup("ns", "coll").StringValue(), "streams_b")
	ok(ofDatabase.Close(ctx))
	ok(ofAll.Close(ctx))
	client := connect(cut)
	defer client.Disconnect(ctx)
	through := must(client.Database(db.Name()).Collection("streams").Watch(ctx, mongo.Pipeline{}))
	must(things.InsertOne(ctx, bson.M{"_id": 10}))
	equal(number(next(through), "documentKey", "_id"), int64(10))
	must(things.InsertOne(ctx, bson.M{"_id": 11, "note": "cut event go1"}))
	must(things.InsertOne(ctx, bson.M{"_id": 12}))
	equal(number(next(through), "documentKey", "_id"), int64(11))
	equal(number(next(through), "documentKey", "_id"), int64(12))
	ok(through.Close(ctx))
	last := must(things.Watch(ctx, mongo.Pipeline{}))
	ok(things.Drop(ctx))
	equal(next(last).Lookup("operationType").StringValue(), "drop")
	equal(next(last).Lookup("operationType").StringValue(), "invalidate")
	check(!last.Next(ctx), "an event after invalidate")
	_, err := things.Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetResumeAfter(bson.M{"_data": "forged"}))
	refused(err, 0)
	ok(db.Collection("streams_b").Drop(ctx))
}

func stepCausal(db *mongo.Database) {
	things := fresh(db, "causal", bson.M{"_id": 1, "n": 0})
	session := must(db.Client().StartSession(options.Session().SetCausalConsistency(true)))
	defer session.EndSession(ctx)
	in := mongo.NewSessionContext(ctx, session)
	for n := int64(1); n < 20; n++ {
		must(things.UpdateByID(in, 1, bson.M{"$set": bson.M{"n": n}}))
		equal(number(must(things.FindOne(in, bson.M{"_id": 1}).Raw()), "n"), n)
	}
	equal(session.OperationTime() != nil, true)
	snapshot := must(db.Client().StartSession(options.Session().SetSnapshot(true)))
	defer snapshot.EndSession(ctx)
	refused(things.FindOne(mongo.NewSessionContext(ctx, snapshot), bson.M{}).Err(), 115)
	without("causal", "snapshot sessions", "refused: a transaction reads one snapshot")
}

func stepConcerns(db *mongo.Database) {
	fresh(db, "concerns")
	journaled := true
	for n, concern := range []*writeconcern.WriteConcern{
		writeconcern.W1(), writeconcern.Majority(), {W: 1, Journal: &journaled}, {W: "majority", WTimeout: time.Second},
	} {
		things := db.Collection("concerns", options.Collection().SetWriteConcern(concern))
		must(things.InsertOne(ctx, bson.M{"_id": n}))
	}
	zero := db.Collection("concerns", options.Collection().SetWriteConcern(writeconcern.Unacknowledged()))
	if _, err := zero.InsertOne(ctx, bson.M{"_id": "zero"}); err != mongo.ErrUnacknowledgedWrite {
		ok(err)
	}
	for i := 0; i < 100 && must(db.Collection("concerns").CountDocuments(ctx, bson.M{})) < 5; i++ {
		time.Sleep(20 * time.Millisecond)
	}
	equal(must(db.Collection("concerns").CountDocuments(ctx, bson.M{})), int64(5))
	for _, concern := range []*readconcern.ReadConcern{
		readconcern.Local(), readconcern.Available(), readconcern.Majority(), readconcern.Linearizable(),
	} {
		get(db.Collection("concerns", options.Collection().SetReadConcern(concern)), bson.M{"_id": 1})
	}
	for _, preference := range []*readpref.ReadPref{
		readpref.Primary(), readpref.PrimaryPreferred(), readpref.SecondaryPreferred(), readpref.Nearest(),
	} {
		get(db.Collection("concerns", options.Collection().SetReadPreference(preference)), bson.M{"_id": 1})
	}
	five := db.Collection("concerns", options.Collection().SetWriteConcern(&writeconcern.WriteConcern{W: 5}))
	_, err := five.InsertOne(ctx, bson.M{"_id": "five"})
	refused(err, 2)
}

func stepGridfs(db *mongo.Database) {
	ok(db.Collection("fs.files").Drop(ctx))
	ok(db.Collection("fs.chunks").Drop(ctx))
	bucket := must(gridfs.NewBucket(db, options.GridFSBucket().SetChunkSizeBytes(1000)))
	content := make([]byte, 1234567)
	for n := range content {
		content[n] = byte(n % 251)
	}
	metadata := options.GridFSUpload().SetMetadata(bson.M{"kind": "film"})
	id := must(bucket.UploadFromStream("film.bin", bytes.NewReader(content), metadata))
	var read bytes.Buffer
	must(bucket.DownloadToStream(id, &read))
	check(bytes.Equal(read.Bytes(), content), "other bytes come back")
	equal(must(db.Collection("fs.chunks").CountDocuments(ctx, bson.M{})), int64(1235))
	must(bucket.UploadFromStream("film.bin", strings.NewReader("second")))
	read.Reset()
	must(bucket.DownloadToStreamByName("film.bin", &read))
	equal(read.String(), "second")
	equal(len(all(bucket.Find(bson.M{"metadata.kind": "film"}))), 1)
	ok(bucket.Rename(id, "other.bin"))
	ok(bucket.Delete(id))
	_, err := bucket.OpenDownloadStream(id)
	check(err == gridfs.ErrFileNotFound, "%v", err)
	equal(must(db.Collection("fs.chunks").CountDocuments(ctx, bson.M{"files_id": id})), int64(0))
}

func stepCatalog(db *mongo.Database) {
	client := db.Client()
	other := client.Database("catalog_other")
	ok(other.Drop(ctx))
	ok(other.CreateCollection(ctx, "one"))
	must(other.Collection("two").InsertOne(ctx, bson.M{"_id": 1}))
	must(other.Collection("two").Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{"a", 1}}}))
	must(other.Collection("with.dots").InsertOne(ctx, bson.M{"_id": 1}))
	databases := must(client.ListDatabases(ctx, bson.M{"name": "catalog_other"}))
	check(len(databases.Databases) == 1 && !databases.Databases[0].Empty, "%v", databases)
	equal(must(other.ListCollectionNames(ctx, bson.M{})), []string{"one", "two", "with.dots"})
	equal(must(other.ListCollectionNames(ctx, bson.M{"name": bson.M{"$regex": "^t"}})), []string{"two"})
	specifications := must(other.ListCollectionSpecifications(ctx, bson.M{"name": "two"}))
	equal([]string{specifications[0].Type, specifications[0].IDIndex.Name}, []string{"collection", "_id_"})
	ok(other.CreateCollection(ctx, "one"))
	strict := options.CreateCollection().SetValidationLevel("strict")
	refused(other.CreateCollection(ctx, "one", strict), 48)
	rename := func(from, to string, drop bool) error {
		command := bson.D{{"renameCollection", "catalog_other." + from}, {"to", "catalog_other." + to}, {"dropTarget", drop}}
		return client.Database("admin").RunCommand(ctx, command).Err()
	}
	ok(rename("two", "three", false))
	equal(len(must(other.Collection("three").Indexes().ListSpecifications(ctx))), 2)
	refused(rename("three", "one", false), 48)
	ok(rename("three", "one", true))
	refused(rename("none", "some", false), 26)
	equal(number(must(other.RunCommand(ctx, bson.M{"dbStats": 1}).Raw()), "collections"), int64(2))
	equal(number(must(other.RunCommand(ctx, bson.M{"collStats": "one"}).Raw()), "count"), int64(1))
	check(must(other.RunCommand(ctx, bson.M{"validate": "one"}).Raw()).Lookup("valid").Boolean(), "not valid")
	ok(other.Collection("one").Drop(ctx))
	ok(other.Collection("none").Drop(ctx))
	ok(other.Drop(ctx))
	equal(len(must(client.ListDatabaseNames(ctx, bson.M{"name": "catalog_other"}))), 0)
}

func commands(db *mongo.Database, name string) {
	collections(db)
	for _, value := range list(cases.Lookup(name)) {
		command := value.Document().Lookup("command").Document()
		err := db.RunCommand(ctx, command).Err()
		var server mongo.CommandError
		if !errors.As(err, &server) {
			fail("%v: expected an error of the server, found %v", command, err)
		}
		check(int64(server.Code) == number(value.Document(), "code") && server.Name != "", "%v: %v", command, err)
	}
}

func stepErrors(db *mongo.Database) {
	commands(db, "errors")
	things := fresh(db, "errors", bson.M{"_id": 1, "text": "a"})
	_, err := things.InsertOne(ctx, bson.M{"_id": 1})
	check(mongo.IsDuplicateKeyError(err), "%v", err)
	_, err = things.InsertOne(ctx, bson.M{"_id": bson.A{1}})
	var write mongo.WriteException
	check(errors.As(err, &write), "%v", err)
	_, err = things.Find(ctx, bson.M{"text": bson.M{"$regex": "("}})
	refused(err, 0)
}

func stepMaxTime(db *mongo.Database) {
	slow := fresh(db, "slow", many(1000, func(n int) any { return bson.M{"_id": n} })...)
	var pipeline bson.A
	ok(cases.Lookup("slow").Unmarshal(&pipeline))
	cursor, err := slow.Aggregate(ctx, pipeline, options.Aggregate().SetMaxTime(30*time.Millisecond))
	if err == nil {
		var rows []bson.Raw
		err = cursor.All(ctx, &rows)
	}
	var command mongo.CommandError
	check(errors.As(err, &command) && command.IsMaxTimeMSExpiredError() && mongo.IsTimeout(err), "%v", err)
	equal(len(all(slow.Find(ctx, bson.M{}, options.Find().SetMaxTime(time.Minute)))), 1000)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = slow.Aggregate(short, pipeline)
	check(mongo.IsTimeout(err), "%v", err)
	ok(db.Client().Ping(ctx, nil))
}

func stepExplain(db *mongo.Database) {
	things := fresh(db, "plans", many(100, func(n int) any { return bson.M{"_id": n, "a": n % 5} })...)
	must(things.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{"a", 1}}}))
	explain := func(command bson.D, verbosity string) bson.Raw {
		return must(db.RunCommand(ctx, bson.D{{"explain", command}, {"verbosity", verbosity}}).Raw())
	}
	plan := explain(bson.D{{"find", "plans"}, {"filter", bson.M{"a": 3}}}, "executionStats")
	equal(plan.Lookup("queryPlanner", "winningPlan", "inputStage", "indexName").StringValue(), "a_1")
	equal([]int64{number(plan, "executionStats", "nReturned"), number(plan, "executionStats", "totalKeysExamined")}, []int64{20, 20})
	whole := explain(bson.D{{"find", "plans"}, {"filter", bson.M{"b": 3}}}, "executionStats")
	equal(whole.Lookup("queryPlanner", "winningPlan", "stage").StringValue(), "COLLSCAN")
	equal([]int64{number(whole, "executionStats", "nReturned"), number(whole, "executionStats", "totalDocsExamined")}, []int64{0, 100})
	of, set := bson.M{"a": 1}, bson.M{"$set": bson.M{"b": 1}}
	for _, command := range []bson.D{
		{{"aggregate", "plans"}, {"pipeline", bson.A{bson.M{"$match": of}, bson.M{"$group": bson.M{"_id": "$a"}}}}, {"cursor", bson.M{}}},
		{{"update", "plans"}, {"updates", bson.A{bson.M{"q": of, "u": set}}}},
		{{"delete", "plans"}, {"deletes", bson.A{bson.M{"q": of, "limit": 0}}}},
		{{"count", "plans"}, {"query", of}},
		{{"distinct", "plans"}, {"key", "a"}},
		{{"findAndModify", "plans"}, {"query", of}, {"update", set}},
	} {
		for _, verbosity := range []string{"queryPlanner", "executionStats", "allPlansExecution"} {
			explain(command, verbosity)
		}
	}
	equal(must(things.CountDocuments(ctx, bson.M{"b": 1})), int64(0))
}

func stepRefusals(db *mongo.Database) {
	commands(db, "refusals")
	equal(len(must(db.ListCollectionNames(ctx, bson.M{"name": "x"}))), 0)
}

func run(name string, db *mongo.Database, step func(*mongo.Database)) (is bool) {
	defer func() {
		switch why := recover().(type) {
		case nil:
			is = true
			fmt.Printf("ok %s\n", name)
		case failed:
			fmt.Printf("FAILED %s: %s\n", name, strings.ReplaceAll(why.text, "\n", " "))
		default:
			// The driver panics where a value is not of the type that is asked for.
			fmt.Printf("FAILED %s: %v\n", name, why)
		}
	}()
	step(db)
	return
}

func main() {
	text := must(os.ReadFile(os.Getenv("FLAGSTONE_CASES")))
	ok(bson.UnmarshalExtJSON(text, false, &cases))
	client := connect(open)
	ok(client.Database("scenario").Drop(ctx))
	failures := 0
	for _, step := range []struct {
		name string
		run  func(*mongo.Database)
	}{
		{"connect", stepConnect},
		{"login", stepLogin},
		{"types", stepTypes},
		{"crud", stepCrud},
		{"bulk", stepBulk},
		{"updates", stepUpdates},
		{"find-and-modify", stepFindAndModify},
		{"indexes", stepIndexes},
		{"aggregate", stepAggregate},
		{"cursors", stepCursors},
		{"transactions", stepTransactions},
		{"retries", stepRetries},
		{"streams", stepStreams},
		{"causal", stepCausal},
		{"concerns", stepConcerns},
		{"gridfs", stepGridfs},
		{"catalog", stepCatalog},
		{"errors", stepErrors},
		{"max-time", stepMaxTime},
		{"explain", stepExplain},
		{"refusals", stepRefusals},
	} {
		if !run(step.name, client.Database("scenario"), step.run) {
			failures++
		}
	}
	ok(client.Disconnect(ctx))
	if failures > 0 {
		os.Exit(1)
	}
}
