//! Questions: find, count, distinct, groups, pages, tables, exports, changes by filter.

use crate::run::Place;
use serde_json::Value;

/// Six posts of three people.
fn posts() -> Place {
    let place = Place::new();
    let lines: String = [
        r#"{"id":1,"by":{"name":"ada"},"sub":"rust","score":10,"tags":["new","hot"]}"#,
        r#"{"id":2,"by":{"name":"bob"},"sub":"rust","score":-1.50,"tags":["hot"]}"#,
        r#"{"id":3,"by":{"name":"cyd"},"sub":"go","score":7,"text":"a, \"b\"\nc"}"#,
        r#"{"id":4,"by":{"name":"ada"},"sub":"go","score":null,"tags":[]}"#,
        r#"{"id":5,"by":{"name":"bob"},"sub":"rust","score":25,"text":"plain"}"#,
        r#"{"id":6,"by":{"name":"ada"},"sub":"zig"}"#,
    ]
    .join("\n");
    place.file("in.jsonl", lines);
    place.ok("load db c in.jsonl --partitions 3");
    place
}

/// The ids of the documents that a command prints, a line each.
fn ids(place: &Place, args: &str) -> Vec<i64> {
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_i64().unwrap();
    place.ok(args).lines().map(id).collect()
}

#[test]
fn documents_are_found_sorted_skipped_limited_and_projected() {
    let place = posts();
    let find = |args: &str| ids(&place, &format!("find db c {args}"));
    assert_eq!(find(r#"{"sub":"rust"} --sort score"#), [2, 1, 5]);
    assert_eq!(find(r#"{"sub":"rust","score":{"$gte":10}} --sort -score"#), [5, 1]);
    assert_eq!(find("--sort -score --skip 1 --limit 2"), [1, 3]);
    assert_eq!(find(r#"{"by.name":{"$in":["bob","cyd"]}} --sort id"#), [2, 3, 5]);
    assert_eq!(find(r#"{"tags":"hot"} --sort $.id --scan"#), [1, 2]);
    assert_eq!(
        place.ok("find db c {\"id\":2} --project by.name,score"),
        "{\"by\":{\"name\":\"bob\"},\"score\":-1.50}\n"
    );
    assert_eq!(
        place.ok("find db c {\"id\":6} --project -by --keys"),
        "{\"key\":6,\"document\":{\"id\":6,\"sub\":\"zig\"}}\n"
    );
    assert_eq!(place.ok("find db c {\"id\":7}"), "");
}

/// A comma in a name ended the path in sorts, projections, tables and keys of loads.
#[test]
fn a_comma_in_brackets_is_part_of_a_path_in_every_option() {
    let place = Place::new();
    place.file("in.jsonl", "{\"a,b\":2,\"c\":{\"x,y\":1}}\n{\"a,b\":10,\"c\":{\"x,y\":0}}\n");
    place.ok(r#"load db c in.jsonl --key $["a,b"]"#);
    assert_eq!(place.ok("keys db c"), "2\n10\n");
    place.ok(r#"load db d in.jsonl --key $.c["x,y"],$["a,b"] --resume"#);
    assert_eq!(place.ok("keys db d"), "[0,10]\n[1,2]\n");
    let said = place.run(r#"load db d in.jsonl --key $.c["x,y"],$["a,b"] --resume"#);
    assert!(said.stderr.starts_with("the same text was loaded before"), "{said:?}");
    place.fails(r#"load db e in.jsonl --key $["a.b"]"#, 2, "names without points");
    place.file("in.csv", "\"a,b\",n\n7,1\n");
    place.ok(r#"load db t in.csv --key $["a,b"]"#);
    assert_eq!(place.ok("scan db t"), "{\"a,b\":7,\"n\":1}\n");
    let find = |args: &str| place.ok(&format!("find db c {args}"));
    let (two, ten) = ("{\"a,b\":2}\n", "{\"a,b\":10}\n");
    assert_eq!(find(r#"--sort -$["a,b"] --project $["a,b"]"#), format!("{ten}{two}"));
    assert_eq!(find(r#"--sort c["x,y"],$["a,b"] --project -c"#), format!("{two}{ten}"));
    assert_eq!(find(r#"--sort $.c["x,y"] --project $["a,b"]"#), format!("{ten}{two}"));
    let columns = r#"--project $.c["x,y"],$["a,b"] --sort $["a,b"]"#;
    assert_eq!(
        find(&format!("{columns} --limit 1 --format table")),
        "c          a,b\n---------  ---\n{\"x,y\":1}    2\n"
    );
    assert_eq!(
        find(&format!("{columns} --limit 1 --format csv")),
        "\"$.c[\"\"x,y\"\"]\",\"$[\"\"a,b\"\"]\"\n1,2\n"
    );
    assert_eq!(
        find(r#"--group '$["a,b"]: count as n, max($.c["x,y"]) as m' --sort $["a,b"]"#),
        "{\"a,b\":2,\"n\":1,\"m\":1}\n{\"a,b\":10,\"n\":1,\"m\":0}\n"
    );
    place.ok(r#"index create db c by_ab $["a,b"]"#);
    place.fails("index create db c by_two a,b", 2, "expected one field, found a comma");
    let csv = place.ok(r#"export db c --type csv --fields $["a,b"] --sort $["a,b"]"#);
    assert_eq!(csv, "\"$[\"\"a,b\"\"]\"\n2\n10\n");
}

#[test]
fn pipelines_give_rows_in_every_form() {
    let place = posts();
    let grouped = concat!(
        r#"[{"$match":{"score":{"$gt":0}}},{"$group":{"_id":"$by.name","n":{"$sum":1},"#,
        r#""total":{"$sum":"$score"}}},{"$sort":{"_id":1}}]"#
    );
    let rows = place.ok(&format!("aggregate db c {grouped}"));
    assert_eq!(
        rows,
        "{\"_id\":\"ada\",\"n\":1,\"total\":10}\n{\"_id\":\"bob\",\"n\":1,\"total\":25}\n\
         {\"_id\":\"cyd\",\"n\":1,\"total\":7}\n"
    );
    let csv = place.ok(&format!("aggregate db c {grouped} --format csv"));
    assert_eq!(csv, "_id,n,total\nada,1,10\nbob,1,25\ncyd,1,7\n");
    let refused = place.run(r#"aggregate db c [{"$group":{"n":1}}]"#);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("pipeline[0].$group"), "{refused:?}");
    assert_eq!(place.run("aggregate db none []").code, 1);
}

#[test]
fn pages_continue_where_the_one_before_ended() {
    let place = posts();
    let mut after = String::new();
    let mut found = Vec::new();
    for _ in 0..3 {
        let page = place.run(&format!("find db c --sort -id --page 2{after}"));
        assert_eq!(page.code, 0, "{page:?}");
        let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_i64().unwrap();
        found.push(page.stdout.lines().map(id).collect::<Vec<_>>());
        let next = page.stderr.trim().strip_prefix("next page: --page 2");
        after = next.unwrap_or_default().to_owned();
    }
    assert_eq!(found, [[6, 5], [4, 3], [2, 1]]);
    assert_eq!(after, "", "there is no fourth page");
    place.fails("find db c --page 2 --after nonsense", 2, "token");
}

#[test]
fn counts_distinct_values_and_groups_are_computed() {
    let place = posts();
    assert_eq!(place.ok("count db c"), "6\n");
    assert_eq!(place.ok(r#"count db c {"by.name":"ada"}"#), "3\n");
    assert_eq!(place.ok("distinct db c by.name"), "\"ada\"\n\"bob\"\n\"cyd\"\n");
    assert_eq!(place.ok(r#"distinct db c tags {"sub":"rust"} --limit 1"#), "\"hot\"\n");
    assert_eq!(
        place.ok("find db c --group 'sub: count as n, sum(score) as sum' --sort -n,sub --limit 2"),
        "{\"sub\":\"rust\",\"n\":3,\"sum\":33.50}\n{\"sub\":\"go\",\"n\":2,\"sum\":7}\n"
    );
    assert_eq!(place.ok("find db c {\"sub\":\"go\"} --group ': count as n'"), "{\"n\":2}\n");
}

#[test]
fn a_table_shows_fields_as_columns() {
    let place = posts();
    let table =
        place.ok("find db c --sort id --limit 3 --project id,sub,score,text --format table");
    let expected = [
        "id  sub   score  text",
        "--  ----  -----  --------",
        " 1  rust     10",
        " 2  rust  -1.50",
        " 3  go        7  a, \"b\" c",
        "",
    ];
    assert_eq!(table, expected.join("\n"));
    let table = place.ok("find db c {\"id\":3} --project sub,id --format table --keys");
    assert_eq!(table, "(key)  sub  id\n-----  ---  --\n    3  go    3\n");
    let groups = place.ok("find db c --group 'sub: count as n' --format table --sort -n --limit 1");
    assert_eq!(groups, "sub   n\n----  -\nrust  3\n");
}

#[test]
fn documents_are_printed_as_csv() {
    let place = posts();
    assert_eq!(
        place.ok("find db c --sort id --format csv"),
        "id,by,sub,score,tags,text\n\
         1,\"{\"\"name\"\":\"\"ada\"\"}\",rust,10,\"[\"\"new\"\",\"\"hot\"\"]\",\n\
         2,\"{\"\"name\"\":\"\"bob\"\"}\",rust,-1.50,\"[\"\"hot\"\"]\",\n\
         3,\"{\"\"name\"\":\"\"cyd\"\"}\",go,7,,\"a, \"\"b\"\"\nc\"\n\
         4,\"{\"\"name\"\":\"\"ada\"\"}\",go,,[],\n\
         5,\"{\"\"name\"\":\"\"bob\"\"}\",rust,25,,plain\n\
         6,\"{\"\"name\"\":\"\"ada\"\"}\",zig,,,\n"
    );
    let chosen =
        place.ok("find db c {\"sub\":\"rust\"} --sort id --project 'id, by.name' --format csv");
    assert_eq!(chosen, "id,by.name\n1,ada\n2,bob\n5,bob\n");
    let keyed = place.ok("find db c --sort id --limit 1 --project -tags,-by --keys --format csv");
    assert_eq!(keyed, "(key),id,sub,score\n1,1,rust,10\n");
    // A line without a value is not empty, for readers leave out empty lines.
    let text = place.ok("find db c --sort id --skip 3 --project text --format csv");
    assert_eq!(text, "text\n\"\"\nplain\n\"\"\n");
    let groups =
        place.ok("find db c --group 'sub: count as n, min(text) as first' --sort sub --format csv");
    assert_eq!(groups, "sub,n,first\ngo,2,\"a, \"\"b\"\"\nc\"\nrust,3,plain\nzig,1,\n");
    let page = place.run("find db c --sort id --page 2 --project id,sub --format csv");
    assert_eq!(page.stdout, "id,sub\n1,rust\n2,rust\n");
    assert!(page.stderr.starts_with("next page: --page 2 --after "), "{page:?}");
    assert_eq!(place.ok("find db c {\"id\":99} --project id --format csv"), "id\n");
    place.ok("put db t a '\"plain, text\"'");
    place.ok("put db t b {\"x\":1}");
    assert_eq!(place.ok("find db t --format csv"), "value,x\n\"plain, text\",\n,1\n");
    // A load reads what was printed.
    place.file("c.csv", place.ok("find db c --format csv --project id,text"));
    place.ok("load copy c c.csv");
    assert_eq!(place.ok("get copy c 3 --json-key --path text"), "\"a, \\\"b\\\"\\nc\"\n");
}

#[test]
fn a_plan_is_explained() {
    let place = posts();
    let plan = place.ok("find db c {\"sub\":\"go\"} --explain");
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert!(plan["plan"]["access"].as_str().unwrap().contains("scan"), "{plan}");
    let text = place.ok("find db c {\"sub\":\"go\"} --analyze --format table");
    assert!(text.contains("plan: ") && text.contains("matched 2"), "{text}");
    let plan = place.ok("find db c --sort -$key --explain");
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["order"], "primary key, descending", "{plan}");
}

#[test]
fn what_cannot_be_asked_is_refused_with_its_place() {
    let place = posts();
    for (args, text) in [
        ("find db c {\"a\":}", "the filter, byte 5: "),
        ("find db c {\"a\":{\"$foo\":1}}", "$foo"),
        ("find db c --sort $.a[", "sort, byte 0: expected a path"),
        ("find db c --group 'sub: median(score)'", "median"),
        ("find db c --group 'count as n'", "as in 'subreddit: count as n'"),
        ("find db c --sort 'score desc'", "with a minus for descending order"),
        ("find db c --sort '$key desc'", "sort, byte 0: expected a path or $key"),
        ("find db c --sort $key --group sub:count", "groups have no primary key"),
        ("export db c --sort id,score:-1", "with a minus for descending order"),
        ("find db c {} --sort score:desc", "with a minus for descending order"),
        ("find db c --index missing", "there is no index missing of c, which has none"),
        ("find db c --index a --scan", "cannot be used with"),
        ("find db c --page 2 --limit 1", "cannot be used with"),
        ("count db c {\"a\":", "the filter, byte"),
        ("distinct db c $.a[", ""),
        ("export db c --fields id", "--fields is for tables"),
        ("export db c --type csv", "a table needs its columns"),
        ("export db c --output x.tsv --fields $.a[", "--fields $.a["),
    ] {
        place.fails(args, 2, text);
    }
    place.fails("find db other {}", 1, "there is no collection \"other\" in db, which has c\n");
    assert!(place.files("db", ".part").is_empty());
}

#[test]
fn documents_are_exported_as_json_and_as_tables() {
    let place = posts();
    assert_eq!(ids(&place, "export db c --sort id"), [1, 2, 3, 4, 5, 6]);
    place.ok("export db c {\"sub\":\"go\"} --output go.jsonl --project id,score --sort -id");
    assert_eq!(place.read("go.jsonl"), "{\"id\":4,\"score\":null}\n{\"id\":3,\"score\":7}\n");
    place
        .ok("export db c --output all.csv --fields id,by.name,score,tags,text --sort id --limit 3");
    assert_eq!(
        place.read("all.csv"),
        "id,by.name,score,tags,text\n1,ada,10,\"[\"\"new\"\",\"\"hot\"\"]\",\n\
         2,bob,-1.50,\"[\"\"hot\"\"]\",\n3,cyd,7,,\"a, \"\"b\"\"\nc\"\n"
    );
    let tsv = place.ok("export db c --sort id --type tsv --fields id,by.name --limit 2");
    assert_eq!(tsv, "id\tby.name\n1\tada\n2\tbob\n");
    // What is exported can be loaded.
    place.ok("export db c --output all.jsonl.zst");
    place.ok("load copy c all.jsonl.zst");
    assert_eq!(place.ok("scan copy c"), place.ok("scan db c"));
    place.ok("export db c --output t.csv.zst --fields id,by.name,sub");
    place.ok("load copy t t.csv.zst");
    assert_eq!(
        place.ok("get copy t 5 --json-key"),
        "{\"id\":5,\"by\":{\"name\":\"bob\"},\"sub\":\"rust\"}\n"
    );
    place.fails(
        "export db c --output missing/x.jsonl",
        3,
        "cannot create missing/x.jsonl: No such",
    );
}

#[test]
fn an_export_goes_into_what_is_there_and_replaces_only_files() {
    let place = posts();
    let expected = place.ok("export db c --sort id");
    assert_eq!(place.ok("export db c --sort id --output -"), expected);
    place.file("old.jsonl", "old");
    std::os::unix::fs::symlink("old.jsonl", place.path("link")).unwrap();
    std::os::unix::fs::symlink("new.jsonl", place.path("ahead")).unwrap();
    for (link, file) in [("link", "old.jsonl"), ("ahead", "new.jsonl")] {
        place.ok(&format!("export db c --sort id --output {link}"));
        assert!(place.path(link).is_symlink() && place.read(file) == expected, "{link}");
    }
    // Not into a database either, whose directory only a link to nothing names.
    std::os::unix::fs::symlink("db/000099.sst", place.path("inside")).unwrap();
    place.fails("export db c --output inside", 2, "is in the directory of a database");
    place.file("bad.jsonl", "{\"id\":1}\n{");
    place.fails("load copy c bad.jsonl --bad-lines inside", 2, "is in the directory of a database");
    assert!(!place.path("db/000099.sst").exists());
    let made = std::process::Command::new("mkfifo").arg(place.path("pipe")).status().unwrap();
    assert!(made.success());
    let pipe = place.path("pipe");
    let reader = std::thread::spawn(move || std::fs::read_to_string(pipe).unwrap());
    place.ok("export db c --sort id --output pipe");
    assert_eq!(reader.join().unwrap(), expected);
    place.ok("export db c --output all.jsonl.gz --sort id");
    let packed = std::fs::read(place.path("all.jsonl.gz")).unwrap();
    assert_eq!(packed[..2], [0x1f, 0x8b]);
    place.ok("load copy c all.jsonl.gz");
    assert_eq!(place.ok("export copy c --sort id"), expected);
    std::fs::create_dir(place.path("dir")).unwrap();
    place.fails("export db c --output dir", 3, "cannot write dir: Is a directory");
    assert!(place.files(".", ".part").is_empty());
    assert_eq!(place.ok("export db c {\"id\":6} --type csv --fields 'id, sub'"), "id,sub\n6,zig\n");
    assert_eq!(place.ok("generate comments --count 2 --output -").lines().count(), 2);
}

#[test]
fn indexes_are_created_listed_kept_and_dropped() {
    let place = posts();
    let made = place.run("index create db c by_sub $.sub '-$.score'");
    assert!(made.code == 0, "{made:?}");
    assert!(made.stderr.starts_with("index by_sub: 6 entries of 6 documents"), "{made:?}");
    place.ok("index create db c names by.name --sparse --where {\"score\":{\"$gt\":0}}");
    let stats: Value = serde_json::from_str(&place.ok("stats db --json")).unwrap();
    let known: Vec<String> = stats["indexes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|index| format!("{} {} {}", index["collection"], index["name"], index["entries"]))
        .collect();
    assert_eq!(known[0], r#""c" "by_sub" 6"#);
    assert!(known[1].starts_with(r#""c" "names" "#) && stats["indexes"][0]["distinct"].is_array());
    let listed = place.ok("index list db c --json");
    let listed: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let fields = |n: usize| listed[n]["fields"].to_string();
    assert_eq!((listed.len(), &listed[0]["name"]), (2, &"by_sub".into()));
    assert_eq!((fields(0), &listed[0]["ready"]), (r#"["sub","-score"]"#.into(), &true.into()));
    assert_eq!((&listed[1]["sparse"], &listed[1]["entries"]), (&true.into(), &3.into()));
    let text = place.ok("index list db c");
    assert!(text.starts_with("by_sub on sub, -score"), "{text}");
    assert!(text.contains(" distinct values, counted"), "{text}");
    assert_eq!(listed[0]["distinct"].as_array().map(Vec::len), Some(2));
    assert_eq!(listed[0]["distinct_error"].to_string(), "[0.0,0.0]");
    assert_eq!(listed[0]["first"].as_array().map(Vec::len), Some(2));
    assert!(place.ok("stats db").contains("index c.by_sub"));
    // Later writes maintain them, and the results stay the same.
    place.ok("put db c 7 --json-key {\"id\":7,\"sub\":\"rust\",\"score\":11}");
    place.ok("delete db c 1 --json-key");
    assert_eq!(ids(&place, "find db c {\"sub\":\"rust\"} --sort -score"), [5, 7, 2]);
    assert!(place.ok("verify db").contains("hold"));
    place.ok("index create db c by_end end --expire-after 7d");
    let listed = place.ok("index list db c --json");
    assert!(listed.contains(r#""expires_after_seconds":604800.0"#), "{listed}");
    place.ok("index drop db c by_end");
    place.ok("index create db c ids id --unique");
    let again = place.run("index create db c ids id --unique");
    assert_eq!((again.code, &again.stderr[..]), (0, "index ids is there already\n"));
    place.fails("put db c 8 --json-key {\"id\":7}", 1, "ids");
    place.ok("index drop db c by_sub");
    place.fails(
        "index drop db c by_sub",
        1,
        "there is no index by_sub of c, which has names, ids\n",
    );
    for (args, code, text) in [
        ("index create db c ids id", 2, "ids"),
        ("index create db c x $.a[", 2, "expected"),
        ("index create db c x", 2, "FIELD"),
        ("index create db c x a --where {", 2, "--where: "),
        ("index create db c x a --uniqe", 2, "--uniqe"),
        ("index create db c x sub --unique", 1, "x"),
        ("index create db other x a", 1, "there is no collection"),
        ("index list none c", 3, "there is no database here"),
    ] {
        place.fails(args, code, text);
    }
    assert_eq!(place.ok("index list db c --json").lines().count(), 2);
}

#[test]
fn collections_are_listed_and_dropped_with_their_indexes() {
    let place = posts();
    place.ok("index create db c by_sub sub");
    place.ok("put db other k {}");
    assert_eq!(place.ok("collections db --names"), "c\nother\n");
    place.fails("drop db by_sub", 1, "there is no collection");
    assert_eq!(place.ok("drop db c"), "");
    place.fails("drop db c", 1, "there is no collection \"c\" in db, which has other\n");
    assert_eq!(place.ok("collections db --names"), "other\n");
    assert!(!place.ok("stats db").contains("by_sub"));
}

#[test]
fn a_collection_is_altered_and_compacted_to_its_new_compression() {
    let place = posts();
    let lines: String = (0..20_000).map(|n| format!("{{\"id\":{n},\"t\":\"t{n}\"}}\n")).collect();
    place.file("many.jsonl", lines);
    place.ok("load db many many.jsonl");
    place.ok("compact db");
    let bytes = || {
        let stats: serde_json::Value = serde_json::from_str(&place.ok("stats db --json")).unwrap();
        let keyspaces = stats["keyspaces"].as_array().unwrap().clone();
        let many = keyspaces.into_iter().find(|keyspace| keyspace["name"] == "many").unwrap();
        let levels = many["levels"].as_array().unwrap();
        let bytes: u64 = levels.iter().map(|level| level["bytes"].as_u64().unwrap()).sum();
        (bytes, many["options"].clone())
    };
    let (before, options) = bytes();
    assert_eq!(
        (&options["bottom_compression"], &options["block_bytes"]),
        (&"zstd 1".into(), &16384.into())
    );
    place
        .ok("alter db many --bottom-compression none --block-bytes 4KiB --bottom-dictionary false");
    assert_eq!(bytes().0, before, "only tables that are written from now on");
    place.ok("compact db");
    let (after, options) = bytes();
    assert!(after > 2 * before, "{before} {after}");
    assert_eq!(
        (&options["bottom_compression"], &options["block_bytes"]),
        (&"none".into(), &4096.into())
    );
    assert!(
        place
            .ok("stats db")
            .contains("options: lz4, none at the deepest level; blocks of 4,096 bytes")
    );
    assert_eq!(place.ok("count db many"), "20000\n");
    place.ok("alter db many --bottom-compression lz4 --bottom-dictionary true --filter-bits 0");
    assert!(place.ok("stats db").contains("options: lz4, lz4 at the deepest level;"));
    let options = bytes().1;
    assert_eq!((&options["compression"], &options["filter_bits"]), (&"lz4".into(), &0.into()));
    assert_eq!(options["bottom_dictionary"], true);
    place.ok("alter db many --bottom-compression 'zstd 1'");
    place.ok("index create db many by_n $.n");
    let stats = place.ok("stats db");
    let (_, of_index) = stats.split_once("by_n (index of many").unwrap();
    assert!(of_index.contains("options: lz4, lz4 at the deepest level;"), "{stats}");
    let level = place.run("alter db many --bottom-compression 'zstd 19'");
    assert_eq!((level.code, &bytes().1["bottom_compression"]), (0, &"zstd 19".into()));
    place.fails("alter db many", 2, "required");
    place.fails(
        "alter db many --compression snappy",
        2,
        "expected none, lz4, or zstd and a level of 1",
    );
    place.fails("alter db many --filter-bits 21", 2, "filter_bits is 21: expected 0 to 20");
    place.fails("alter db other --filter-bits 3", 1, "there is no collection \"other\"");
}

#[test]
fn all_documents_that_match_are_removed() {
    let place = posts();
    let removed = place.run("delete db c --where {\"sub\":\"rust\"}");
    assert_eq!((removed.code, &removed.stderr[..]), (0, "3 documents removed\n"));
    assert_eq!(ids(&place, "find db c --sort id"), [3, 4, 6]);
    let none = place.run("delete db c --where {\"sub\":\"rust\"}");
    assert_eq!((none.code, &none.stderr[..]), (0, "0 documents removed\n"));
    place.fails("delete db c", 2, "required");
    place.fails("delete db c --where {\"a\":", 2, "the filter, byte");
    place.fails("delete db c --where {} --json-key", 2, "cannot be used with");
    let lines: String = (0..25_000).map(|n| format!("{{\"id\":{n}}}\n")).collect();
    place.file("many.jsonl", lines);
    place.ok("load db many many.jsonl");
    let removed = place.run("delete db many --where {\"id\":{\"$gte\":10}}");
    assert_eq!(removed.stderr, "24,990 documents removed\n");
    assert_eq!(place.ok("count db many"), "10\n");
}

#[test]
fn all_documents_that_match_are_changed() {
    let place = posts();
    let changed = place.run("update db c --where {\"sub\":\"rust\"} seen=true --inc score=1");
    assert_eq!((changed.code, &changed.stderr[..]), (0, "3 documents changed\n"), "{changed:?}");
    assert_eq!(ids(&place, "find db c {\"seen\":true} --sort score"), [2, 1, 5]);
    assert_eq!(place.ok("get db c 2 --json-key --path score"), "-0.50\n");
    let same = place.run("update db c --where {\"sub\":\"rust\"} seen=true");
    assert_eq!(same.stderr, "0 documents changed, 3 more match and stay as they are\n");
    place.ok("update db c --where {\"sub\":\"zig\"} --unset sub");
    assert_eq!(place.ok("count db c {\"sub\":\"zig\"}"), "0\n");
    // A document that the change does not apply to stops the rest.
    place.fails("update db c --where {} --inc sub=1", 2, "does not apply");
    let gone_on = place.run("update db c --where {} --inc score=1 --keep-going");
    let said = "5 documents changed, to 1 document the change does not apply; first: document ";
    assert!(gone_on.code == 0 && gone_on.stderr.starts_with(said), "{gone_on:?}");
    assert!(gone_on.stderr.contains("inc score 1 does not apply"), "{gone_on:?}");
    place.fails("update db c 2 --json-key --inc score=1 --keep-going", 2, "--where");
    let empty = place.run("update db c --where {}");
    assert_eq!(empty.stderr, "flagstone: a patch without changes\n");
    place.fails("update db c --where {} --upsert a=1", 2, "--where changes documents");
    place.fails("update db c --where {} a", 2, "expected PATH=JSON");
    place.fails("update db c --where {\"a\": a=1", 2, "the filter, byte");
    place.fails("update db c", 2, "required");
}

/// The temporary files of a query that was killed used to stay, with its documents.
#[test]
fn the_next_command_removes_the_temporary_files_of_a_killed_one() {
    let place = posts();
    // No process has this number.
    let left = format!("tmp/flagstone-{}-00c0ffee00c0ffee", i32::MAX);
    for command in ["find db c --sort id", "get db c 1 --json-key"] {
        std::fs::create_dir_all(place.path(&left)).unwrap();
        for name in ["LOCK", "00000000000000ff.spill", "../letter.txt"] {
            place.file(&format!("{left}/{name}"), "left");
        }
        let output = place.command(command).env("TMPDIR", place.path("tmp")).output().unwrap();
        assert!(output.status.success());
        assert_eq!(place.files("tmp", ""), ["tmp/letter.txt"], "{command}");
    }
}

/// Text that is a number, or empty, was a number or nothing when it was loaded again.
#[test]
fn documents_as_csv_are_the_same_when_they_are_loaded_again() {
    let place = Place::new();
    let lines = [
        r#"{"id":"1","a":"5"}"#,
        r#"{"id":1,"a":5}"#,
        r#"{"id":"-0","a":"1e400"}"#,
        r#"{"id":-1,"a":1e400}"#,
        r#"{"id":"007","a":"007"}"#,
        r#"{"id":"x","a":""}"#,
        r#"{"id":"y"}"#,
        r#"{"id":"z","a":"say \"1,2\"\r\n"}"#,
        r#"{"id":"","a":"true"}"#,
    ];
    place.file("in.jsonl", lines.join("\n"));
    place.ok("load db c in.jsonl");
    let found = place.ok("find db c --project id,a --format csv");
    place.ok("export db c -o exported.csv --fields id,a");
    place.file("found.csv", &found);
    let sorted = |text: String| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(place.read("exported.csv")), sorted(found));
    for name in ["exported", "found"] {
        place.ok(&format!("load db {name} {name}.csv --ignore-blanks"));
        assert_eq!(place.ok(&format!("scan db {name}")), place.ok("scan db c"), "{name}");
    }
    let group = place.ok("find db c --group 'id, a: count' --sort id --limit 2 --format csv");
    assert_eq!(group, "id,a,count\n-1,1e400,1\n1,5,1\n");
    assert_eq!(place.ok("find db c {\"id\":\"none\"} --format csv"), "");
}

/// TSV has no quotes: a tab or a line end became a space, and nobody was told.
#[test]
fn tsv_refuses_text_that_it_cannot_hold() {
    let place = Place::new();
    for (name, text) in [("tab", "a\\tb"), ("lf", "a\\nb"), ("cr", "a\\rb")] {
        place.ok(&format!("put db {name} k {{\"t\":\"{text}\",\"n\":1}}"));
        let export = format!("export db {name} --fields t");
        place.fails(
            &format!("{export} -o x.tsv"),
            2,
            "document \"k\": TSV cannot represent tabs or line ends (column \"t\")",
        );
        assert!(!place.path("x.tsv").exists());
        assert_eq!(place.ok(&format!("export db {name} --fields n --type tsv")), "n\n1\n");
        place.ok(&format!("{export} -o x.csv"));
        // A map is JSON, which has escapes.
        place.ok(&format!("put db {name} k {{\"t\":{{\"x\":\"{text}\"}}}}"));
        let tsv = place.ok(&format!("{export} --type tsv"));
        assert_eq!(tsv, format!("t\n{{\"x\":\"{text}\"}}\n"));
    }
}

/// One document of 20,000 fields took 23 seconds as CSV and 100 as a table.
#[test]
fn many_fields_are_columns_up_to_a_limit() {
    let place = Place::new();
    let document = |fields: std::ops::Range<usize>| {
        let fields: Vec<String> = fields.map(|n| format!("\"f{n}\":{n}")).collect();
        format!("{{\"id\":1,{}}}\n", fields.join(","))
    };
    place.file("in.jsonl", document(0..9000));
    place.ok("load db c in.jsonl");
    let csv = place.ok("find db c --format csv");
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns, [9001, 9001]);
    assert!(csv.ends_with(",8999\n"));
    let table = place.ok("find db c --format table");
    assert_eq!(table.lines().count(), 3);
    assert!(table.lines().all(|line| line.split_whitespace().count() == 9001));
    place.file("more.jsonl", document(9000..20_000).replace("\"id\":1", "\"id\":2"));
    place.ok("load db c more.jsonl");
    place.fails("find db c --format csv", 2, "at most 10,000 fields of all documents");
    assert_eq!(
        place.ok("find db c --sort id --project id,f1,f9999 --format csv"),
        "id,f1,f9999\n1,1,\n2,,9999\n"
    );
    assert_eq!(place.ok("find db c --format table").lines().count(), 4);
}
