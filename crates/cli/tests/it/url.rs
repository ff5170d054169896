//! Commands that are given the URL of a server do what they do with a directory.

use crate::run::{Place, ran};
use crate::serve::Served;
use flagstone_testkit::program::Ran;
use std::io::{Read, Write};
use std::net::TcpListener;

/// Two databases to which the same happens: one in a directory, one behind a server.
struct Both {
    here: Place,
    there: Place,
    served: Served,
}

impl Both {
    fn new() -> Self {
        let (here, there) = (Place::new(), Place::new());
        let served = Served::new(&there, "");
        Self { here, there, served }
    }

    fn url(&self) -> String {
        format!("mongodb://{}", self.served.address)
    }

    /// Writes a file for both.
    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) {
        self.here.file(name, &bytes);
        self.there.file(name, &bytes);
    }

    /// Runs a command, whose word `db` is the database, in both ways: they must do the same.
    #[track_caller]
    fn run_with(&self, args: &str, input: &[u8]) -> Ran {
        let url = self.url();
        let here = self.here.run_with(args, input);
        let there = self.there.run_with(&args.replace(" db", &format!(" {url}")), input);
        // Times differ, and so does what a directory alone says.
        let lines = |ran: &Ran| -> Vec<String> {
            let text = ran.stderr.replace(&url, "db").replace(" (new)", "");
            let lines = text.lines().filter(|line| !line.starts_with("closed in"));
            let timed = [" of JSON in ", " documents in ", " document in "];
            let untimed = |line: &str| match timed.iter().find_map(|end| line.rfind(*end)) {
                // Before the bytes of a load, of which chunks count as a whole.
                Some(_) if line.contains(" loaded into ") => line.find(": "),
                end => end,
            };
            lines.map(|line| line[..untimed(line).unwrap_or(line.len())].to_owned()).collect()
        };
        assert_eq!(
            (here.code, &here.stdout, lines(&here)),
            (there.code, &there.stdout, lines(&there)),
            "{args}"
        );
        there
    }

    /// As [`Self::run_with`], for what must succeed. Returns its stdout.
    #[track_caller]
    fn ok(&self, args: &str) -> String {
        let ran = self.run_with(args, b"");
        assert_eq!(ran.code, 0, "{args}: {ran:?}");
        ran.stdout
    }

    /// As [`Self::run_with`], for what must fail with `code` and `text`.
    #[track_caller]
    fn fails(&self, args: &str, code: i32, text: &str) {
        let ran = self.run_with(args, b"");
        assert_eq!(ran.code, code, "{args}: {ran:?}");
        let stderr = ran.stderr.replace(&self.url(), "db");
        assert!(stderr.contains(text), "{args}: expected {text:?} in {ran:?}");
    }

    /// Refused because of the URL: with exit code 2, by the name of the command.
    #[track_caller]
    fn refused(&self, args: &str, text: &str) {
        let ran = self.there.run(&args.replace(" db", &format!(" {}", self.url())));
        assert_eq!((ran.code, &*ran.stdout), (2, ""), "{args}: {ran:?}");
        assert!(ran.stderr.contains(text), "{args}: expected {text:?} in {ran:?}");
    }
}

#[test]
fn commands_on_one_document_do_the_same() {
    let both = Both::new();
    both.ok(r#"put db c k1 {"a":1.10,"big":18446744073709551617,"z":[1e400,-0]}"#);
    let expected = "{\"a\":1.10,\"big\":18446744073709551617,\"z\":[1e400,-0]}\n";
    assert_eq!(both.ok("get db c k1"), expected);
    // More than 34 digits, microseconds: BSON has neither.
    let exact = concat!(
        r#"{"n":1.234567890123456789012345678901234567890,"#,
        r#""t":{"$date":"2026-12-31T00:00:00.000001Z"}}"#
    );
    both.ok(&format!("put db shop.c 1001 {exact} --json-key --extended-json"));
    assert!(both.ok("get db shop.c 1001 --json-key").contains("1.2345678901234567890123456789012"));
    assert!(both.ok("get db shop.c 1001 --json-key").contains("00.000001Z"));
    both.fails("get db shop.c 1001", 1, "with --json-key there is one");
    both.ok(r#"put db c {"a":1} {"x":1} --json-key"#);
    both.ok(r#"put db c [1,"a"] {"x":2} --json-key"#);
    both.ok("keys db c --json-key");
    both.run_with("put db c k2", b" {\"from\": \"stdin\"}\n");
    both.ok("get db c k2 --path from --pretty");
    both.fails("get db c k2 --path to", 1, "there is nothing at to");
    both.fails(
        "get db nosuch k",
        1,
        "there is no collection \"nosuch\" in db, which has c, shop.c",
    );
    both.fails("put db c k {", 2, "the document");
    both.fails("put db flagstone.x k {}", 2, "names that begin with flagstone. are the");
    both.file("in.jsonl", "{\"id\":1}\n");
    both.fails("load db flagstone.x in.jsonl", 2, "names that begin with flagstone. are the");
    both.fails("put db '' k {}", 2, "invalid collection name \"\": it is empty");
    both.fails("get db c k9", 1, "there is no document k9");
    both.ok("delete db c k2");
    both.fails("delete db c k2", 1, "there is no document k2");
    both.fails("get db c ''", 1, "there is no document \"\" in c");
    both.ok("put db c late {} --expires 2100-01-01T00:00:00Z");
    both.ok("put db c gone {} --expires 1ms");
    assert_eq!(both.ok("get db c late --expires"), "2100-01-01T00:00:00Z\n");
    both.fails("get db c gone", 1, "there is no document gone");
    assert_eq!(both.ok("get db c k1 --expires"), "never\n");
}

#[test]
fn update_documents_do_the_same() {
    let both = Both::new();
    both.ok(r#"put db c k {"n":1,"tags":["a","b"],"items":[{"s":"x","n":1},{"s":"y","n":5}]}"#);
    both.ok(
        r#"put db c 7 {"n":2,"tags":["b"],"items":[]} --json-key --expires 2100-01-01T00:00:00Z"#,
    );
    for (update, expected) in [
        (r#"k --update {"$inc":{"n":1},"$set":{"at.city":"Rome"}}"#, r#""at":{"city":"Rome"}"#),
        (r#"k --update {"$inc":{"items.$[].n":1}}"#, r#"[{"s":"x","n":2},{"s":"y","n":6}]"#),
        (
            r#"k --update {"$mul":{"items.$[i].n":2}} --array-filters [{"i.s":"y"}]"#,
            r#"[{"s":"x","n":2},{"s":"y","n":12}]"#,
        ),
        (
            r#"k --update {"$push":{"tags":{"$each":["d","c"],"$sort":-1,"$slice":3}}}"#,
            r#""tags":["d","c","b"]"#,
        ),
        (
            r#"k --update {"$push":{"tags":{"$each":["z"],"$position":1}}}"#,
            r#""tags":["d","z","c","b"]"#,
        ),
        (r#"k --update {"$pull":{"tags":{"$in":["d","z"]}}}"#, r#""tags":["c","b"]"#),
        (r#"k --update {"$pull":{"items":{"n":{"$gt":9}}}}"#, r#""items":[{"s":"x","n":2}]"#),
        (r#"k --update {"$setOnInsert":{"m":9},"$max":{"n":7}}"#, r#""n":7"#),
        (r#"k --update [{"$set":{"sum":{"$add":["$n",1]},"by":"$_id"}}]"#, r#""sum":8,"by":"k""#),
        (r#"--where {"tags":"b","n":7} --update {"$set":{"tags.$":"B"}}"#, r#""tags":["c","B"]"#),
        (r#"k --update {"only":1}"#, "{\"only\":1}\n"),
    ] {
        both.ok(&format!("update db c {update}"));
        let found = both.ok("get db c k");
        assert!(found.contains(expected), "{update}: {found}");
    }
    assert_eq!(both.ok("get db c 7 --json-key"), "{\"n\":2,\"tags\":[\"b\"],\"items\":[]}\n");
    both.ok(r#"update db c 7 --json-key --update {"$currentDate":{"at":true}}"#);
    both.ok("get db c 7 --json-key --path n");
    assert_eq!(both.ok("get db c 7 --json-key --expires"), "2100-01-01T00:00:00Z\n");
    let date = r#"{"$date":"2026-12-31T00:00:00Z"}"#;
    both.ok(&format!(r#"update db c k --update {{"$set":{{"d":{date}}}}} --extended-json"#));
    assert_eq!(both.ok("get db c k --path d --extended-json"), format!("{date}\n"));
    let ran = both.run_with("update db c k --update -", br#"{"$unset":{"d":1}}"#);
    assert_eq!((ran.code, &*ran.stderr), (0, "1 document changed\n"), "{ran:?}");
    let ran = both.run_with(r#"update db c k --update {"$set":{"only":1}}"#, b"");
    assert!(ran.stderr.contains("1 document stays as it is"), "{ran:?}");
    assert_eq!(both.ok("get db c k"), "{\"only\":1}\n");
}

#[test]
fn upserts_of_update_documents_do_the_same() {
    let both = Both::new();
    both.ok("put db c k {}");
    both.fails(r#"update db c new --update {"$inc":{"n":1}}"#, 1, "there is no document new");
    for _ in 0..2 {
        both.ok(r#"update db c new --upsert --update {"$inc":{"n":1},"$setOnInsert":{"s":2}}"#);
    }
    assert_eq!(both.ok("get db c new"), "{\"n\":2,\"s\":2}\n");
    let upsert = r#"update db c --where {"$key":5,"at.city":"Oslo"} --upsert --update"#;
    for said in ["0 documents changed; 1 inserted, with the key 5", "1 document changed"] {
        let ran = both.run_with(&format!(r#"{upsert} {{"$inc":{{"n":1}}}}"#), b"");
        assert_eq!((ran.code, ran.stderr.contains(said)), (0, true), "{ran:?}");
    }
    assert_eq!(both.ok("get db c 5 --json-key"), "{\"at\":{\"city\":\"Oslo\"},\"n\":2}\n");
    both.fails(
        r#"update db c --where {"$key":5,"n":9} --upsert --update {"$inc":{"m":1}}"#,
        1,
        "there is a document 5",
    );
    both.ok(r#"update db c --where {"none":1} --update {"$inc":{"m":1}}"#);
    assert_eq!(both.ok("count db c"), "3\n");
}

#[test]
fn update_documents_that_are_wrong_are_refused_the_same() {
    let both = Both::new();
    both.ok(r#"put db c k {"t":"x","a":[1]}"#);
    both.ok(r#"put db c l {"t":1,"a":[1]}"#);
    for (update, text) in [
        (r#"k --update {"$pus":{"a":1}}"#, "update: expected one of $set $unset"),
        (r#"--where {} --update {"a":1}"#, "a replacement needs KEY"),
        (r#"--where {"_id":1} --upsert --update {"$set":{"a":1}}"#, "expected $key for the key"),
        (r#"k --update {"$inc":{"a":"x"}}"#, "update.$inc.a: expected a number"),
        (r#"k --update {"$inc":{"t":1}}"#, "document \"k\": update.$inc.t: expected a number"),
        (r#"k --update {"$set":{"a":1,"a.b":2}}"#, "update.$set.a"),
        (r#"k --update {"$set":{"a.$[x]":1}}"#, "expected an array filter for \"x\""),
        (r#"k --update {"$set":{"a":1}} --array-filters [{"x":1}]"#, "expected $[x] in a path"),
        (r#"k --update {"$set":{"a":1}} --array-filters {}"#, "expected an array of filters"),
        (r#"k --update {"$set":{"a":1}} --array-filters [{]"#, "--array-filters: JSON, line 1"),
        (r#"k --update {"$set":{"a.$":1}}"#, "expected a filter that matches an element"),
        (r#"k --update {"$set":{"_id":1}}"#, "update._id: expected no change of this field"),
        (r#"k --update [{"$match":{"a":1}}]"#, "update[0]: expected one of $set $addFields"),
        ("k --update {", "--update: JSON, line 1"),
        ("k --update 7", "update: expected operators, a replacement or stages"),
        (r#"k --update {"$set":{"a":1}} b=2"#, "given without other changes and conditions"),
        (r#"k --update {"$set":{"a":1}} --if-eq b=2"#, "without other changes and conditions"),
        (r#"k --update {"$set":{"a":1}} --merge-patch {}"#, "cannot be used with"),
        (r#"k --update {"$set":{"a":1}} --blind"#, "cannot be used with"),
        ("k a=1 --array-filters []", "--update"),
        (r#"k --where {} --update {"$set":{"a":1}}"#, "if it is a key, drop it"),
        (r#"--where {} --merge-patch {}"#, "--where changes documents that are there"),
    ] {
        both.fails(&format!("update db c {update}"), 2, text);
    }
    // It stops at the first document, or counts those to which it does not apply.
    let all = r#"update db c --where {} --update {"$inc":{"t":1}} --yes"#;
    both.fails(all, 2, "update.$inc.t: expected a number");
    let ran = both.run_with(&format!("{all} --keep-going"), b"");
    assert!(ran.stderr.contains("1 document changed, to 1 document"), "{ran:?}");
    assert_eq!(both.ok("scan db c"), "{\"t\":\"x\",\"a\":[1]}\n{\"t\":2,\"a\":[1]}\n");
    both.ok("index create db c by_t t --unique");
    both.fails(r#"update db c k --update {"$set":{"t":2}}"#, 1, "by_t");
    both.ok(r#"update db c k --update {"$set":{"t":3}}"#);
}

#[test]
fn updates_do_the_same() {
    let both = Both::new();
    both.ok(r#"put db c k {"n":1.10,"tags":["a"],"old":1,"low":5,"high":5}"#);
    both.ok("update db c k --inc n=1 --push tags=2 --rename old=new --min low=3 --max high=4");
    both.ok(r#"update db c k --mul low=-2 --add-to-set tags="c" --push-at tags=-1:7 --if-gte n=2"#);
    both.ok(r#"update db c k --pull tags="a" --pop-first tags --unset high x.y=7"#);
    both.fails("update db c k n=1 --if-lt n=0", 1, "does not meet the condition");
    let text = "document \"k\": the document cannot be changed by: inc tags 1; inc tags 1 does not \
                apply to an array (length 2) at \"tags\"";
    both.fails("update db c k --inc tags=1", 2, text);
    // They were said to be errors of BSON.
    both.fails(r#"update db c k --inc n="x""#, 2, "flagstone: \"n\" cannot be changed by text");
    both.fails(r#"update db c --where {} --inc n="x" --yes"#, 2, "flagstone: \"n\" cannot be");
    both.fails(r#"update db c k --blind --inc n="x""#, 2, "\"n\" cannot be changed by text");
    both.fails("update db c --where {} --yes", 2, "flagstone: a patch without changes");
    both.ok("update db c k told=1");
    both.ok("update db c k told=1");
    both.ok("update db c k told=2 --blind");
    both.fails("update db c none a=1", 1, "there is no document none");
    both.ok(r#"update db c new --default {"n":1} --inc n=1"#);
    both.ok("update db c new --upsert --inc n=1");
    both.ok(r#"update db c k --json-patch [{"op":"move","from":"/x/y","path":"/d"}]"#);
    both.fails(r#"update db c k --json-patch [{"op":"test","path":"/d","value":3}]"#, 1, "differs");
    both.ok(r#"update db c k --merge-patch {"x":null,"a":{"x":1}}"#);
    both.ok(r#"update db c merged --upsert --merge-patch {"a":1,"b":null}"#);
    both.ok(r#"update db c --where {"n":{"$exists":true}} m=1"#);
    both.ok(r#"update db c --where {} --inc n=1 --keep-going"#);
    both.fails(r#"update db c --where {} --inc tags=1"#, 2, "tags");
    both.fails(r#"update db c --where {"n":{"$wrong":1}} m=1"#, 2, "$wrong");
    both.ok(r#"delete db c --where {"a":1}"#);
    assert_eq!(both.ok("count db c"), "2\n");
    both.ok("scan db c --keys");
}

/// Puts 300 documents, in a collection of a database.
fn fill(both: &Both) {
    let lines: Vec<String> = (0..300)
        .map(|n| {
            let tags = if n % 3 == 0 { "[\"x\",\"y\"]" } else { "[]" };
            format!("{{\"id\":{n},\"n\":{},\"name\":\"p{}\",\"tags\":{tags}}}", n % 7, n % 11)
        })
        .collect();
    both.file("in.jsonl", lines.join("\n"));
    both.ok("load db shop.c in.jsonl");
}

/// The other collection has its whole name, as in a directory.
const LOOKUP: &str = concat!(
    r#"aggregate db shop.c [{"$match":{"id":8}},{"$lookup":{"from":"shop.c","#,
    r#""localField":"n","foreignField":"id","as":"o"}}]"#
);

#[test]
fn queries_do_the_same() {
    let both = Both::new();
    fill(&both);
    assert_eq!(both.ok("count db shop.c"), "300\n");
    for args in [
        "find db shop.c --sort $key",
        r#"find db shop.c {"n":3} --sort -id --skip 2 --limit 5 --project id,name --keys"#,
        r#"find db shop.c {"n":{"$gte":5}} --sort n,id --format csv"#,
        r#"find db shop.c {"n":{"$gte":5}} --sort n,id --format table --limit 4"#,
        "find db shop.c --sort id --project -tags --extended-json --limit 3",
        "find db shop.c --group 'n: count as k, avg(id) as mean, min(name)' --sort -k,n",
        "find db shop.c --group ': count' --format csv",
        r#"find db shop.c {"n":2} --explain --format table"#,
        r#"find db shop.c {"n":2} --sort id --analyze --scan --format json"#,
        "find db shop.c --group 'n: count' --explain --format table",
        r#"count db shop.c {"tags":"x"}"#,
        "distinct db shop.c n",
        r#"distinct db shop.c tags {"n":1}"#,
        "distinct db shop.c name --limit 3",
        "scan db shop.c",
        "scan db shop.c --from 290 --json-key --reverse --keys",
        "scan db shop.c --from 3 --to 9 --json-key --limit 2",
        "scan db shop.c --prefix p",
        "keys db shop.c",
        "keys db shop.c --sample 7 --seed 3",
        r#"aggregate db shop.c [{"$match":{"n":1}},{"$unwind":"$tags"},{"$sortByCount":"$tags"}]"#,
        r#"aggregate db shop.c [{"$group":{"_id":"$n","k":{"$sum":1}}},{"$sort":{"_id":1}}]"#,
        r#"aggregate db shop.c [{"$match":{"id":{"$lt":2}}},{"$sort":{"id":1}}] --format csv"#,
        LOOKUP,
        "export db shop.c --sort id",
        "export db shop.c --sort id --type csv --fields id,tags --limit 9",
        "describe db shop.c",
        "describe db shop.c --sample 10 --json",
    ] {
        let found = both.ok(args);
        assert!(!found.is_empty() || args.contains("prefix"), "{args}");
    }
    both.ok("export db shop.c --sort id --output out.jsonl.gz");
    both.ok("load db copy out.jsonl.gz");
    assert_eq!(both.ok("find db copy --sort id"), both.ok("find db shop.c --sort id"));
    for (args, code, text) in [
        ("find db shop.c {", 2, "the filter"),
        (r#"find db shop.c {"a":{"$x":1}}"#, 2, "$x"),
        ("find db shop.c --sort 'n desc'", 2, "expected paths"),
        ("find db shop.c --index none", 2, "there is no index none of shop.c, which has none"),
        ("find db shop.c --after x", 2, "token"),
        ("find db shop.d", 1, "did you mean shop.c?"),
        (r#"aggregate db shop.c [{"$none":1}]"#, 2, "$none"),
        ("scan db nosuch", 1, "there is no collection"),
    ] {
        both.fails(args, code, text);
    }
}

#[test]
fn pages_follow_one_another() {
    let both = Both::new();
    fill(&both);
    let url = both.url();
    let (mut after, mut seen) = (String::new(), Vec::new());
    while seen.len() < 300 {
        let page = format!("find {url} shop.c --sort -n,id --project id --page 70 {after}");
        let ran = both.there.run(&page);
        seen.extend(ran.stdout.lines().map(str::to_owned));
        let Some((_, token)) = ran.stderr.trim().split_once("--after ") else { break };
        after = format!("--after {token}");
    }
    let all = both.ok("find db shop.c --sort -n,id --project id");
    assert_eq!(seen, all.lines().collect::<Vec<_>>());
    // A page of another query.
    let ran = both.there.run(&format!("find {url} shop.c --sort n --page 70 {after}"));
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[test]
fn indexes_and_collections_do_the_same() {
    let both = Both::new();
    fill(&both);
    both.ok("index create db shop.c by_n n -id");
    both.ok("index create db shop.c by_n n -id");
    both.fails("index create db shop.c by_n name", 2, "by_n");
    both.ok(r#"index create db shop.c names $.name --sparse --where {"n":{"$gt":3}}"#);
    both.fails("index create db shop.c one name --unique", 1, "one");
    both.fails("index create db shop.c one '$.['", 2, "");
    both.ok("index list db shop.c");
    let json = both.there.ok(&format!("index list {} shop.c --json", both.url()));
    assert!(json.contains("\"where\":\"{\\\"n\\\":{\\\"$gt\\\":3}}\""), "{json}");
    assert!(both.ok(r#"find db shop.c {"n":2} --explain --format table"#).contains("by_n"));
    both.ok(r#"find db shop.c {"n":2} --index by_n --sort id --limit 2"#);
    both.ok("index drop db shop.c names");
    both.fails(
        "index drop db shop.c names",
        1,
        "there is no index names of shop.c, which has by_n",
    );
    both.ok("put db other k {}");
    both.ok("rename db other renamed");
    both.fails("rename db renamed shop.c", 2, "shop.c");
    assert_eq!(both.ok("collections db --names"), "renamed\nshop.c\n");
    both.ok("drop db renamed");
    both.fails("drop db renamed", 1, "there is no collection");
    let url = both.url();
    let listed = both.there.ok(&format!("collections {url}"));
    assert!(listed.contains("shop.c") && listed.contains("300"), "{listed}");
    let stats = both.there.ok(&format!("stats {url}"));
    assert!(stats.contains("shop.c (documents") && stats.contains("index shop.c.by_n"), "{stats}");
    let stats: serde_json::Value =
        serde_json::from_str(&both.there.ok(&format!("stats {url} --json"))).unwrap();
    let names: Vec<_> = stats["indexes"].as_array().unwrap().iter().map(|i| &i["name"]).collect();
    assert_eq!(names, ["by_n"]);
}

#[test]
fn loads_do_the_same() {
    let both = Both::new();
    both.file("a.jsonl", "{\"id\":1,\"a\":1}\n{\"id\":2}\n{\"id\":1,\"b\":2}\n");
    both.ok("load db c a.jsonl");
    assert_eq!(both.ok("get db c 1 --json-key"), "{\"id\":1,\"b\":2}\n");
    both.ok("load db c a.jsonl --mode insert");
    both.fails("load db c a.jsonl --mode insert --stop-on-error", 1, "a.jsonl:1:1");
    both.ok("load db c a.jsonl --mode merge");
    assert_eq!(both.ok("get db c 1 --json-key"), "{\"id\":1,\"b\":2,\"a\":1}\n");
    both.ok("load db fresh a.jsonl --mode insert");
    assert_eq!(both.ok("get db fresh 1 --json-key"), "{\"id\":1,\"a\":1}\n");
    both.file("t.csv", "name,n,address.city\nada,1,London\nbob,007,\n");
    both.ok("load db people t.csv --key name --types n=int,name=text --ignore-blanks");
    both.fails("load db people t.csv --key none", 2, "none");
    both.ok("load db compound t.csv --key name,n");
    assert_eq!(both.ok("keys db compound"), "[\"ada\",1]\n[\"bob\",\"007\"]\n");
    both.file("array.json", "[{\"id\":\"x\"},\n {\"id\":\"y\"}]");
    both.ok("load db array array.json");
    both.file("bad.jsonl", "{\"id\":1}\n{\"id\":2\n{\"id\":3}\n{\"x\":1}\n{\"id\":4}\n");
    both.fails("load db stopped bad.jsonl", 2, "bad.jsonl:2:");
    assert_eq!(both.ok("count db stopped"), "1\n");
    both.ok("load db bad bad.jsonl --bad-lines bad.txt");
    assert_eq!(both.here.read("bad.txt"), both.there.read("bad.txt"));
    assert_eq!(both.ok("keys db bad"), "1\n3\n4\n");
    // A load that puts nothing leaves no collection.
    both.file("none.jsonl", "nothing\n");
    both.fails("load db empty none.jsonl", 2, "none.jsonl:1:1");
    both.fails("count db empty", 1, "there is no collection");
    both.file("none.csv", "n\n1\n");
    both.file("none.json", "[{\"n\":1}]");
    both.file("none.csv.gz", "no gzip");
    // The database itself refuses this one.
    both.file("long.jsonl", format!("{{\"id\":\"{}\"}}\n", "x".repeat(100_000)));
    for (file, code) in [
        ("none.csv", 2),
        ("none.json", 2),
        ("none.csv.gz", 2),
        ("long.jsonl", 2),
        ("none.jsonl", 2),
    ] {
        for options in ["", " --resume", " --mode merge"] {
            both.fails(&format!("load db empty {file}{options}"), code, file);
            both.fails("count db empty", 1, "there is no collection");
        }
    }
    // What the library stores, the tool sends: a name with a zero is one.
    both.file("zero.jsonl", "{\"id\":1,\"a\\u0000\":2}\n");
    both.ok("load db zero zero.jsonl");
    assert_eq!(both.ok("get db zero 1 --json-key"), "{\"id\":1,\"a\\u0000\":2}\n");
    both.ok("index create db c once v --unique --sparse");
    both.file("twice.jsonl", "{\"id\":7,\"v\":1}\n{\"id\":8,\"v\":1}\n{\"id\":9,\"v\":2}\n");
    both.ok("load db c twice.jsonl --bad-lines twice.txt");
    assert_eq!(both.here.read("twice.txt"), both.there.read("twice.txt"));
    both.fails("load db c none.jsonl --drop", 2, "none.jsonl:1:1");
    both.ok("load db c twice.jsonl --drop --expires 1h");
    assert_eq!(both.ok("count db c"), "3\n");
    both.run_with("load db stdin -", b"{\"id\":1}\n{\"id\":2}\n");
    assert_eq!(both.ok("count db stdin"), "2\n");
    let url = both.url();
    both.there.ok(&format!("load {url} auto a.jsonl --key auto"));
    assert_eq!(both.there.ok(&format!("count {url} auto")), "3\n");
}

/// Lines of changes without what differs between two databases.
fn changes(stdout: &str) -> Vec<String> {
    let strip = |line: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        let fields = line.as_object_mut().unwrap();
        fields.remove("token");
        fields.remove("seqno");
        // What the server notes of documents before a change.
        fields.remove("old");
        line.to_string()
    };
    stdout.lines().map(strip).collect()
}

#[test]
fn watch_prints_the_same() {
    let (here, there) = (Place::new(), Place::new());
    here.ok("put db c k {}");
    here.ok("watch db --keep 1MiB");
    let served = Served::new(&there, "--keep 1MiB");
    let url = format!("mongodb://{}", served.address);
    there.ok(&format!("put {url} c k {{}}"));
    let from = there.ok(&format!("watch {url}"));
    let from: serde_json::Value = serde_json::from_str(from.lines().last().unwrap()).unwrap();
    let from = from["token"].as_str().unwrap().to_owned();
    for args in [
        r#"put db c k1 {"a":1.10} --expires 2100-01-01T00:00:00Z"#,
        "update db c k1 --blind --inc a=1",
        "delete db c k1",
        "put db shop.other k {}",
        "rename db shop.other shop.next",
        "drop db shop.next",
    ] {
        here.ok(args);
        there.ok(&args.replace(" db", &format!(" {url}")));
    }
    let expected = changes(&here.ok("watch db"));
    assert!(expected.len() >= 5, "{expected:?}");
    let printed = there.ok(&format!("watch {url} --from {from}"));
    // A put with an expiry makes the server's collection read what it patches. The server keeps the
    // changes before a drop.
    let printed = changes(&printed);
    assert_eq!(printed[..3], expected[..3]);
    let rest = [
        r#"{"document":{},"key":"k","keyspace":"shop.other","kind":"put"}"#,
        r#"{"keyspace":"shop.other","kind":"renamed","to":"shop.next"}"#,
        r#"{"keyspace":"shop.next","kind":"dropped"}"#,
    ];
    assert_eq!(printed[3..], rest);
    assert_eq!(expected.last().unwrap(), rest[2]);
    let one = there.ok(&format!("watch {url} c --from {from} --limit 1"));
    assert_eq!(changes(&one), expected[..1]);
    assert_eq!(there.ok(&format!("watch {url} --from now")), "");
    there.fails(&format!("watch {url} nosuch --from now"), 1, "there is no keyspace \"nosuch\"");
    there.fails(&format!("watch {url} --from 12"), 2, "change token");
    there.fails(&format!("watch {url} --keep 1MiB"), 2, "start the server with --keep");
    // It was an error of input or output by URL alone.
    let other = Both::new();
    other.here.ok("put db c k {}");
    for (ran, name) in [(&other.here, "db"), (&other.there, &*other.url())] {
        ran.fails(&format!("watch {name}"), 2, "keeps no changes");
        ran.fails(&format!("watch {name} --from 12"), 2, "change token");
    }
    let followed = there.ok(&format!("watch {url} --from {from} --follow --timeout 1ms"));
    assert_eq!(changes(&followed), printed);
}

#[test]
fn the_database_of_the_url_is_that_of_the_collections() {
    let both = Both::new();
    fill(&both);
    let url = format!("{}/shop", both.url());
    assert_eq!(both.there.ok(&format!("count {url} c")), "300\n");
    assert_eq!(both.there.ok(&format!("count {} c", url.replace("mongodb:", "http:"))), "300\n");
    both.there.ok(&format!("put {url} a.b k {{}}"));
    assert_eq!(both.there.ok(&format!("collections {url} --names")), "a.b\nc\n");
    assert_eq!(both.there.ok(&format!("collections {} --names", both.url())), "shop.a.b\nshop.c\n");
    both.there.fails(&format!("count {url} d"), 1, "there is no collection \"d\" in mongodb://127");
    both.there.ok(&format!("rename {url} a.b d"));
    assert_eq!(both.there.ok(&format!("keys {} shop.d", both.url())), "k\n");
    both.there.fails(&format!("keys {}/main shop.d", both.url()), 2, "no dot in their names");
}

#[test]
fn command_runs_on_a_server() {
    let both = Both::new();
    fill(&both);
    let run = |args: &str| both.there.run(&format!("command {}{args}", both.url()));
    let ran = run(r#"/shop {"count":"c","query":{"n":1}}"#);
    assert_eq!((ran.code, &*ran.stdout), (0, "{\"n\":43,\"ok\":1.0}\n"), "{ran:?}");
    let ran = run(r#" {"count":"c"} --on shop"#);
    assert!(ran.stdout.contains("300"), "{ran:?}");
    let ran = run(r#" {"none":1}"#);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("CommandNotFound") && ran.stderr.contains("none"), "{ran:?}");
}

/// A load through a server began at the start each time.
#[test]
fn a_load_through_a_server_continues() {
    let place = Place::new();
    let served = Served::new(&place, "");
    let url = format!("mongodb://{}", served.address);
    let lines = |from: u32, to: u32| -> String {
        (from..to).map(|n| format!("{{\"n\":{n},\"text\":\"{}\"}}\n", "x".repeat(90))).collect()
    };
    for args in ["--key auto --mode insert", "--key n", "--key n --mode merge"] {
        let name = args.replace(['-', ' '], "");
        let load = |text: &str| {
            place.file("in.jsonl", text);
            place.run(&format!("load {url} {name} in.jsonl --resume {args}"))
        };
        let count = || place.ok(&format!("count {url} {name}")).trim().parse::<u32>().unwrap();
        let ran = load(&(lines(0, 9000) + "{\n"));
        assert!(ran.code == 2 && ran.stderr.contains("in.jsonl:9001:"), "{args}: {ran:?}");
        assert_eq!(count(), 9000);
        let ran = load(&lines(1, 9100));
        let refusal = "without --resume the load begins at the start";
        assert!(ran.code == 2 && ran.stderr.contains(refusal), "{args}: {ran:?}");
        assert_eq!(count(), 9000);
        let ran = load(&lines(0, 9500));
        assert!(ran.code == 0 && ran.stderr.contains("continued at byte"), "{args}: {ran:?}");
        assert!(ran.stderr.contains("500 documents loaded"), "{args}: {ran:?}");
        assert_eq!(count(), 9500);
        let ran = load(&lines(0, 9500));
        assert!(ran.code == 0 && ran.stderr.contains("to its end"), "{args}: {ran:?}");
        let ran = load(&lines(0, 9501));
        assert!(ran.stderr.contains("1 document loaded"), "{args}: {ran:?}");
        assert_eq!(count(), 9501);
        // A load without it forgets how far others came.
        place.ok(&format!("load {url} {name} in.jsonl {args}"));
        let ran = load(&lines(0, 9501));
        assert!(ran.stderr.contains("9,501 documents loaded"), "{args}: {ran:?}");
    }
}

/// A server removes by key what its expressions have found, which kept the marks: the load went on
/// behind the documents that were gone.
#[test]
fn removals_by_filters_of_drivers_end_the_marks_of_a_load() {
    let place = Place::new();
    let served = Served::new(&place, "");
    let url = format!("mongodb://{}", served.address);
    let session = [
        r#""lsid":{"id":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}}}"#,
        r#""txnNumber":{"$numberLong":"N"},"autocommit":false"#,
    ];
    let session = session.join(",");
    let first = r#""startTransaction":true"#;
    let delete = |q: &str, limit: u32| {
        format!(r#"{{"delete":"c","deletes":[{{"q":{q},"limit":{limit}}}]}}"#)
    };
    let bulk = |rest: &str| {
        let space = r#""nsInfo":[{"ns":"shop.c"}]"#;
        format!(r#"{{"bulkWrite":1,"ops":[{{"delete":0,{rest}}}],{space}}}"#)
    };
    let (by_expression, by_value) = (r#"{"$expr":{"$lte":["$n",2]}}"#, r#"{"n":{"$lte":2}}"#);
    let in_session = |command: String, rest: &str| {
        command.strip_suffix('}').unwrap().to_owned() + "," + &session + rest + "}"
    };
    let deleted = |q: &str, limit: u32| vec![("shop", delete(q, limit))];
    let committed = |command: String, database: &'static str| {
        let commit = in_session(r#"{"commitTransaction":1}"#.to_owned(), "");
        vec![(database, in_session(command, &format!(",{first}"))), ("admin", commit)]
    };
    // The commands, how many documents they leave, and how many there are after the rest of the
    // load.
    let ways = [
        (deleted(by_expression, 0), 1, 4),
        (deleted(by_expression, 1), 2, 4),
        (deleted(by_value, 0), 1, 4),
        (deleted(by_value, 1), 2, 4),
        (committed(delete(by_expression, 0), "shop"), 1, 4),
        (committed(delete(by_value, 0), "shop"), 1, 4),
        (committed(delete(by_value, 1), "shop"), 2, 4),
        (vec![("admin", bulk(&format!(r#""filter":{by_expression},"multi":true"#)))], 1, 4),
        (vec![("admin", bulk(&format!(r#""filter":{by_value},"multi":false"#)))], 2, 4),
        (vec![("shop", r#"{"findAndModify":"c","query":{"n":1},"remove":true}"#.to_owned())], 2, 4),
        (
            vec![(
                "shop",
                r#"{"aggregate":"c","pipeline":[{"$match":{"n":1}},{"$out":"c"}],"cursor":{}}"#
                    .to_owned(),
            )],
            1,
            4,
        ),
        // By their keys they stay removed.
        (deleted(r#"{"_id":1}"#, 0), 2, 3),
        (vec![("admin", bulk(r#""filter":{"_id":1},"multi":false"#))], 2, 3),
    ];
    let lines = "{\"id\":1,\"n\":1}\n{\"id\":2,\"n\":2}\n{\"id\":3,\"n\":3}\n";
    let count = || place.ok(&format!("count {url} shop.c"));
    for (number, (commands, left, after)) in ways.into_iter().enumerate() {
        place.file("in.jsonl", format!("{lines}{{\n"));
        place.run(&format!("drop {url} shop.c"));
        place.fails(&format!("load {url} shop.c in.jsonl --resume"), 2, "in.jsonl:4:2");
        for (database, command) in &commands {
            let command = command.replace("\"N\"", &format!("\"{number}\""));
            place.ok(&format!("command {url}/{database} {command}"));
        }
        assert_eq!(count(), format!("{left}\n"), "{commands:?}");
        place.file("in.jsonl", format!("{lines}{{\"id\":4,\"n\":4}}\n"));
        place.ok(&format!("load {url} shop.c in.jsonl --resume"));
        assert_eq!(count(), format!("{after}\n"), "{commands:?}");
    }
}

#[test]
fn what_a_server_cannot_do_is_refused_by_name() {
    let both = Both::new();
    both.file("a.jsonl", "{\"id\":1}\n");
    for (args, text) in [
        ("verify db", "verify needs the directory of a database"),
        ("repair db", "repair needs the directory"),
        ("compact db", "flagstone command URL"),
        ("backup db to", "flagstone serve --backups"),
        ("backup db --list", "read the directory of the backups"),
        ("backup db", "expected flagstone serve DB --backups DIR"),
        ("checkpoint db to", "checkpoint needs"),
        ("restore from db", "restore needs"),
        ("scrub db", "scrub needs"),
        ("alter db c --filter-bits 3", "alter needs"),
        ("shell db", "shell needs"),
        ("serve db", "serve needs"),
        ("user list db", "usersInfo"),
        ("load db c a.jsonl --resume --bad-lines x", "--bad-lines is for a load without --resume"),
        ("load db c a.jsonl --readers 2", "--readers is for the directory"),
        ("count db c --memory 64MiB", "--memory is for a directory"),
        ("export db c --type parquet", ""),
    ] {
        both.refused(args, text);
    }
}

#[test]
fn a_server_adds_backups_while_it_runs() {
    let place = Place::new();
    let served = Served::new(&place, "--backups backups");
    let url = format!("mongodb://{}", served.address);
    place.ok(&format!(r#"put {url} c k {{"a":1}}"#));
    for value in 2..5 {
        let ran = place.run(&format!("backup {url}"));
        assert_eq!((ran.code, &*ran.stdout), (0, ""), "{ran:?}");
        assert!(ran.stderr.contains(&format!("generation {}: ", value - 1)), "{ran:?}");
        place.ok(&format!("update {url} c k a={value}"));
    }
    let ran = place.run(&format!("backup {url}/shop --keep 2"));
    assert!(ran.code == 0 && ran.stderr.contains("dropped 2 generations"), "{ran:?}");
    assert_eq!(place.ok("backup backups --list").lines().count(), 3);
    place.ok("restore backups --generation 3 before");
    assert_eq!(place.ok("get before c k"), "{\"a\":3}\n");
    place.ok("restore backups newest");
    assert_eq!(place.ok("get newest c k"), "{\"a\":4}\n");
    place.fails(&format!("backup {url} --memory 64MiB"), 2, "expected DB and DIR");
    place.fails(&format!("backup {url} --rate 1MiB"), 2, "expected DB and DIR");
    served.signal("TERM");
    assert_eq!(served.end().0, Some(0));
}

/// `openssl req -x509` makes such certificates unless it is told not to, and curl and pymongo take
/// them. The tool said `Other(OtherError(CaUsedAsEndEntity))`.
#[test]
fn a_certificate_of_an_authority_is_refused_with_a_way_out() {
    let place = Place::new();
    let certificates = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/tests/it/net/certificates");
    let files = ["--tls-cert", "--tls-key"].into_iter().zip(["authority.pem", "authority.key"]);
    let files: Vec<_> = files.map(|(flag, file)| format!("{flag} {certificates}/{file}")).collect();
    let served = Served::new(&place, &files.join(" "));
    let url = format!(
        "mongodb://localhost:{}/?tls=true&tlsCAFile={certificates}/authority.pem",
        served.address.port()
    );
    unreachable(&place, &url, "made with basicConstraints=CA:FALSE");
}

/// An error names the server, and never a password.
#[track_caller]
fn unreachable(place: &Place, url: &str, text: &str) {
    let ran = place.run(&format!("count {url} c"));
    assert_eq!((ran.code, &*ran.stdout), (3, ""), "{url}: {ran:?}");
    assert!(ran.stderr.contains(text), "{url}: expected {text:?} in {ran:?}");
    assert!(!ran.stderr.contains("secret"), "{ran:?}");
}

/// A server that sends these bytes to every client.
fn strange(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _request = stream.read(&mut [0; 4096]);
            let _closed = stream.write_all(answer);
        }
    });
    format!("mongodb://ada:secret@{address}/shop?connectTimeoutMS=2000")
}

#[test]
fn servers_that_are_none_are_told_apart() {
    let place = Place::new();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    unreachable(&place, &format!("mongodb://ada:secret@{gone}"), "refused");
    unreachable(&place, "mongodb://%2Fno%2Fsuch.sock/", "/no/such.sock");
    unreachable(&place, &strange(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "no server of flagstone");
    unreachable(&place, &strange(b""), "closed the connection");
    // {"version":"7.0.1","ok":1}: a server of others.
    let other = b"\x39\0\0\0\x07\0\0\0\x01\0\0\0\xdd\x07\0\0\0\0\0\0\0\
        \x24\0\0\0\x02version\0\x06\0\0\x007.0.1\0\x01ok\0\0\0\0\0\0\0\xf0\x3f\0";
    unreachable(&place, &strange(other), "of version 7.0.1, and none of flagstone");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mongodb://{}/?connectTimeoutMS=200", silent.local_addr().unwrap());
    unreachable(&place, &url, "no answer in time");
    place.fails("count mongodb://h/?x=1 c", 2, "this option is not supported: x=1");
    place.fails("count mongodb+srv://h c", 2, "name the host");
}

#[test]
fn a_user_logs_in_and_may_do_what_its_role_says() {
    let place = Place::new();
    let add = |name: &str, rest: &str| {
        let ran = place.run_with(&format!("user add db {name} {rest}"), b"p@ss,=1\n");
        assert_eq!(ran.code, 0, "{ran:?}");
    };
    add("root", "--role root");
    add("ada", "--role read --on shop");
    let served = Served::new(&place, "");
    let url = |user: &str| format!("mongodb://{user}{}", served.address);
    place.ok(&format!("put {} shop.c k {{}}", url("root:p%40ss%2C%3D1@")));
    place.ok(&format!("put {} other.c k {{}}", url("root:p%40ss%2C%3D1@")));
    let ada = url("ada:p%40ss%2C%3D1@");
    assert_eq!(place.ok(&format!("count {ada} shop.c")), "1\n");
    assert_eq!(place.ok(&format!("collections {ada} --names")), "shop.c\n");
    assert!(!place.ok(&format!("stats {ada}")).contains("other.c"));
    unreachable(&place, &url("ada:secret@"), "the password is wrong");
    unreachable(&place, &url(""), "requires authentication");
    for args in
        ["put URL shop.c k {}", "count URL other.c", "drop URL shop.c", "rename URL shop.c x"]
    {
        let ran = place.run(&args.replace("URL", &ada));
        assert_eq!((ran.code, &*ran.stdout), (3, ""), "{args}: {ran:?}");
        assert!(ran.stderr.contains("not authorized"), "{args}: {ran:?}");
    }
    // The password is not in the URL: that of the environment, or a terminal.
    let mut command = place.command(&format!("count {} shop.c", url("ada@")));
    let with = ran(command.env("FLAGSTONE_PASSWORD", "p@ss,=1").output().unwrap());
    assert_eq!((with.code, &*with.stdout), (0, "1\n"), "{with:?}");
    let without = ran(command.env_remove("FLAGSTONE_PASSWORD").output().unwrap());
    assert_eq!(without.code, 2, "{without:?}");
}

#[test]
fn a_busy_directory_names_the_url_of_its_server() {
    let place = Place::new();
    let served = Served::new(&place, "");
    let url = format!("mongodb://{}", served.address);
    place.ok(&format!("put {url} c k {{}}"));
    for args in ["count db c", "put db c k {}", "verify db", "stats db"] {
        let ran = place.run(args);
        assert_eq!(ran.code, 3, "{args}: {ran:?}");
        assert!(ran.stderr.contains(&url), "{args}: {ran:?}");
    }
    let busy = place.run("count db c");
    assert!(busy.stderr.contains("use this URL instead of the directory"), "{busy:?}");
}

#[test]
fn a_server_that_goes_away_ends_a_load_and_says_how_far_it_came() {
    let place = Place::new();
    let served = Served::new(&place, "");
    let url = format!("mongodb://{}", served.address);
    place.ok(&format!("put {url} c k {{}}"));
    let mut load = place.command(&format!("load {url} c -"));
    let mut load = load.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = load.stdin.take().unwrap();
    let line = |n: usize| format!("{{\"id\":{n},\"text\":\"{}\"}}\n", "x".repeat(1000));
    // More than a chunk, so that some are sent.
    (0..20_000).try_for_each(|n| stdin.write_all(line(n).as_bytes())).unwrap();
    let count = || place.ok(&format!("count {url} c")).trim().parse::<u64>().unwrap();
    while count() < 2 {}
    served.signal("KILL");
    served.end();
    // The reader may have gone.
    let _closed = (20_000..60_000).try_for_each(|n| stdin.write_all(line(n).as_bytes()));
    drop(stdin);
    let ran = ran(load.wait_with_output().unwrap());
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stderr.contains("documents loaded into c of mongodb://"), "{ran:?}");
    assert!(ran.stderr.contains("whether it was done is not known"), "{ran:?}");
}

#[test]
fn a_server_that_encrypts_is_trusted_by_its_authority() {
    let place = Place::new();
    let certificates = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/tests/it/net/certificates");
    let files = format!("--tls-cert {certificates}/server.pem --tls-key {certificates}/server.key");
    let served = Served::new(&place, &files);
    let url = |host: &str, options: &str| {
        format!("mongodb://{host}:{}/?{options}", served.address.port())
    };
    let trusted = format!("tls=true&tlsCAFile={certificates}/ca.pem");
    place.ok(&format!("put {} c k {{}}", url("localhost", &trusted)));
    let https = url("localhost", &format!("tlsCAFile={certificates}/ca.pem"));
    assert_eq!(place.ok(&format!("count {} c", https.replace("mongodb://", "https://"))), "1\n");
    // The system does not know the authority.
    unreachable(&place, &url("localhost", "tls=true"), "TLS");
    unreachable(&place, &url("localhost", ""), "expected TLS");
    unreachable(&place, &url("localhost", "tls=true&tlsCAFile=none.pem"), "none.pem");
}
