//! Loading: every form of input, exact with any number of threads, bad lines with their places.

use crate::run::Place;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;

fn lines(count: usize) -> String {
    // Lengths differ, so that chunks and ranges end at any place.
    (0..count)
        .map(|n| format!("{{\"id\":\"{n:06}\",\"pad\":\"{}\"}}\n", "x".repeat(n * 7 % 400)))
        .collect()
}

#[test]
fn every_form_of_input_gives_the_same_documents() {
    let place = Place::new();
    let text = lines(5000);
    let array = format!("\u{feff} [\n{}\n]\n", text.trim_end().replace('\n', " ,\r\n"));
    place.file("plain.jsonl", &text);
    place.file("crlf.jsonl", format!("\u{feff}\n{}", text.replace('\n', "\r\n\r\n").trim_end()));
    place.file("array.json", &array);
    let pretty = text.replace("{\"id", "{\n  \"id").replace(",\"pad", ",\r\n  \"pad");
    place.file("pretty.json", pretty.replace("\"}", "\"\n}"));
    place.file("lines.zst", zstd::encode_all(text.as_bytes(), 1).unwrap());
    place.file("array.zst", zstd::encode_all(array.as_bytes(), 1).unwrap());
    let mut frames = zstd::encode_all(&text.as_bytes()[..1000], 1).unwrap();
    frames.extend(zstd::encode_all(&text.as_bytes()[1000..], 1).unwrap());
    place.file("frames.zst", frames);
    let gzip = |text: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let members = [gzip(&text.as_bytes()[..777]), gzip(&text.as_bytes()[777..])].concat();
    place.file("members.gz", members);
    for name in [
        "plain.jsonl",
        "crlf.jsonl",
        "array.json",
        "pretty.json",
        "lines.zst",
        "array.zst",
        "frames.zst",
        "members.gz",
    ] {
        place.ok(&format!("load {name}.db c {name}"));
        assert!(place.ok(&format!("scan {name}.db c")) == text, "{name}");
    }
    for name in ["plain.jsonl", "array.zst"] {
        let bytes = std::fs::read(place.path(name)).unwrap();
        let loaded = place.run_with(&format!("load stdin-{name} c -"), &bytes);
        assert_eq!(loaded.code, 0, "{loaded:?}");
        assert!(place.ok(&format!("scan stdin-{name} c")) == text, "{name} from stdin");
    }
}

/// A batch is a quarter of the memory at most: documents that fit alone are put into several
/// batches, and a document that does not fit is bad.
#[test]
fn documents_as_large_as_a_batch_are_loaded_and_larger_ones_are_bad_lines() {
    let place = Place::new();
    let large = |id: &str, len| format!("{{\"id\":\"{id}\",\"pad\":\"{}\"}}\n", "x".repeat(len));
    let text = [lines(300), large("a", 2_000_000), large("b", 3_000_000), large("c", 100)].concat();
    place.file("in.jsonl", &text);
    let stopped = place.run("load stopped.db c in.jsonl --memory 8MiB");
    assert!(stopped.code != 0 && stopped.stderr.contains("in.jsonl:302:1: "), "{stopped:?}");
    place.ok("load db c in.jsonl --memory 8MiB --bad-lines bad.txt");
    assert!(place.read("bad.txt").starts_with("# in.jsonl:302:1: a document of 3000"));
    assert_eq!(place.ok("scan db c").lines().count(), 302);
}

#[test]
fn no_line_is_lost_or_doubled_whatever_the_number_of_threads() {
    let place = Place::new();
    let text = lines(30_000);
    place.file("in.jsonl", &text);
    assert!(text.len() > 6 << 20);
    for (readers, parsers, writers) in [(1, 1, 1), (2, 3, 2), (5, 2, 3), (36, 4, 1)] {
        let threads = format!("--readers {readers} --parsers {parsers} --writers {writers}");
        let db = format!("db{readers}");
        let said = place.run(&format!("load {db} c in.jsonl {threads} --memory 8MiB"));
        assert!(said.stderr.starts_with("30,000 documents loaded"), "{said:?}");
        assert!(place.ok(&format!("scan {db} c")) == text, "{threads}");
    }
}

#[test]
fn several_files_are_one_load_and_later_loads_replace() {
    let place = Place::new();
    place.file("a.jsonl", "{\"k\":{\"id\":1},\"v\":1}\n");
    place.file("b.jsonl", "{\"k\":{\"id\":2},\"v\":2}");
    place.file("empty.jsonl", "");
    place.ok("load db c a.jsonl empty.jsonl b.jsonl --key k.id");
    assert_eq!(place.ok("count db c"), "2\n");
    place.file("a.jsonl", "{\"k\":{\"id\":1},\"v\":3}\n");
    place.ok("load db c a.jsonl --key k.id");
    assert_eq!(place.ok("get db c 1 --json-key"), "{\"k\":{\"id\":1},\"v\":3}\n");
    assert_eq!(place.ok("count db c"), "2\n");
}

#[test]
fn with_any_threads_the_last_document_of_a_key_wins() {
    let place = Place::new();
    let pad = "x".repeat(150);
    let text: String = (0..20_000)
        .map(|n| format!("{{\"id\":{},\"n\":{n},\"pad\":\"{pad}\"}}\n", n % 7))
        .collect();
    place.file("in.jsonl", text);
    let expected: Vec<usize> =
        (0..7).map(|id| (0..20_000).rfind(|n| n % 7 == id).unwrap()).collect();
    for threads in ["--readers 1 --parsers 1 --writers 1", "--readers 4 --parsers 5 --writers 6"] {
        place.ok(&format!("load db c in.jsonl --drop {threads}"));
        let found: Vec<usize> = place
            .ok("scan db c")
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["n"].as_u64().unwrap() as usize
            })
            .collect();
        assert_eq!(found, expected, "{threads}");
    }
}

#[test]
fn an_insert_leaves_documents_that_exist_and_counts_them() {
    let place = Place::new();
    place.ok("put db c 2 --json-key {\"old\":true}");
    place.file("in.jsonl", "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n{\"id\":1,\"again\":1}\n");
    let said = place.run("load db c in.jsonl --mode insert");
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stderr.starts_with("2 documents loaded"), "{said:?}");
    assert!(said.stderr.contains("2 documents not loaded: their keys exist"), "{said:?}");
    assert_eq!(place.ok("scan db c"), "{\"id\":1}\n{\"old\":true}\n{\"id\":3}\n");
    place.ok("load db c in.jsonl --mode insert --bad-lines bad.txt");
    let bad = place.read("bad.txt");
    assert!(bad.contains("# in.jsonl:2:1: a document with this key exists\n{\"id\":2}\n"), "{bad}");
    assert_eq!(bad.lines().count(), 8);
    let said = place.run("load db c in.jsonl --mode insert --bad-lines bad.txt");
    assert!(said.stderr.contains("\n4 documents copied to bad.txt\n"), "{said:?}");
    let stops = "load db c in.jsonl --mode insert --stop-on-error --writers 1";
    place.fails(stops, 1, "in.jsonl:1:1: a document with this key exists");
    let last = place.ok("load db c in.jsonl --mode insert --progress json");
    let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert_eq!((&last["documents"], &last["existing_documents"]), (&0.into(), &4.into()));
}

/// One document more after those that an index refuses, so that nothing is left out with them.
#[test]
fn a_document_that_an_index_refuses_is_reported_with_its_line() {
    let place = Place::new();
    place.ok("put db c 0 --json-key {\"id\":0,\"v\":2}");
    place.ok("index create db c by_v v --unique --sparse");
    place.ok("index create db c by_ab a b");
    let lines = [
        r#"{"id":1,"v":1}"#,
        r#"{"id":2,"v":2}"#,
        r#"{"id":3,"v":3}"#,
        r#"{"id":4,"a":[1],"b":[2]}"#,
        r#"{"id":5}"#,
    ];
    place.file("in.jsonl", lines.join("\n"));
    for mode in ["upsert", "insert", "merge"] {
        place.ok(&format!("checkpoint db {mode}"));
        let load = format!("load {mode} c in.jsonl --mode {mode} --writers 1");
        let text = "in.jsonl:2:1: unique index \"by_v\" has the value 2 of key 0 already";
        place.fails(&load, 1, text);
        assert_eq!(place.ok(&format!("keys {mode} c")), "0\n1\n", "{mode}");
        place.ok(&format!("{load} --bad-lines bad.txt"));
        assert_eq!(place.ok(&format!("keys {mode} c")), "0\n1\n3\n5\n", "{mode}");
        let bad = place.read("bad.txt");
        assert!(bad.contains(&format!("# {text}: key 2 cannot have it\n{}\n", lines[1])), "{bad}");
        assert!(bad.contains(&format!("\n{}\n", lines[3])) && bad.contains("in.jsonl:4:1: "));
        // Of those that are inserted, the first exists by now.
        assert_eq!(bad.lines().count(), if mode == "insert" { 6 } else { 4 }, "{bad}");
        place.ok(&format!("verify {mode}"));
    }
}

#[test]
fn merged_documents_change_fields_in_the_order_of_the_input() {
    let place = Place::new();
    place.ok("put db c 1 --json-key {\"id\":1,\"a\":{\"x\":1,\"y\":2},\"b\":[1],\"c\":3}");
    let lines = [
        r#"{"id":1,"a":{"y":null,"z":3},"b":[2]}"#,
        r#"{"id":2,"n":0}"#,
        r#"{"id":1,"c":null}"#,
        r#"{"id":2,"m":1}"#,
        r#"{"id":2,"n":7}"#,
    ];
    place.file("in.jsonl", lines.join("\n"));
    let said = place.run("load db c in.jsonl --mode merge --writers 3");
    assert!(said.code == 0 && said.stderr.starts_with("5 documents loaded"), "{said:?}");
    assert_eq!(
        place.ok("scan db c"),
        "{\"id\":1,\"a\":{\"x\":1,\"z\":3},\"b\":[2]}\n{\"id\":2,\"n\":7,\"m\":1}\n"
    );
    place.file("in.csv", "id,n,by.name\n2,8,ada\n");
    place.ok("load db c in.csv --mode merge");
    assert_eq!(
        place.ok("get db c 2 --json-key"),
        "{\"id\":2,\"n\":8,\"m\":1,\"by\":{\"name\":\"ada\"}}\n"
    );
}

#[test]
fn a_table_becomes_documents() {
    let place = Place::new();
    let csv = [
        "\u{feff}id,name,by.age,note",
        "1,\"x, \"\"y\"\"\",1.10,",
        "",
        "007,\"two\nlines\",-0,true",
        "2",
        "",
    ];
    let csv = csv.join("\r\n");
    let expected = [
        r#"{"id":1,"name":"x, \"y\"","by":{"age":1.10},"note":""}"#,
        r#"{"id":2}"#,
        r#"{"id":"007","name":"two\nlines","by":{"age":-0},"note":"true"}"#,
        "",
    ];
    let expected = expected.join("\n");
    place.file("in.csv", &csv);
    place.file("in.csv.zst", zstd::encode_all(csv.as_bytes(), 1).unwrap());
    place.file("in.txt", &csv);
    for args in ["in.csv", "in.csv.zst", "in.txt --type csv --headerline"] {
        place.ok(&format!("load db c {args} --drop"));
        assert_eq!(place.ok("scan db c"), expected, "{args}");
    }
    place.file("in.tsv", "1\ta \"b\t\n2\t3\t4\n");
    place.ok("load db t in.tsv --fields id,a,b --ignore-blanks");
    assert_eq!(place.ok("scan db t"), "{\"id\":1,\"a\":\"a \\\"b\"}\n{\"id\":2,\"a\":3,\"b\":4}\n");
    place.ok("load db text in.tsv --fields id,a,b --all-text");
    assert!(place.ok("scan db text").ends_with("{\"id\":\"2\",\"a\":\"3\",\"b\":\"4\"}\n"));
}

#[test]
fn a_bad_table_is_refused_with_its_place() {
    let place = Place::new();
    for (text, expected) in [
        ("id,a\n1,2\n2,\"x\ny\"\n3,4,5\n", "in.csv:5:1: expected at most 2 fields, found 3"),
        ("id,a,a\n1", "in.csv:1:1: the header: column 3: the name \"a\" is there twice"),
        (
            "key,a\n1,2\n",
            "the header: there is no column \"id\" to take the key from: found key, a",
        ),
        ("id;a\n1;2\n", "found id;a; if it should be several, the delimiter is another one"),
        ("id,a\n1,\"x\n2,y\n3,z\n", "in.csv:2:3: a quote is not closed"),
        ("id,a\n1,\"x\"y\n", "in.csv:2:6: text after a closing quote: expected the end"),
        ("id,\"a\n1,2\n", "in.csv:1:1: the header: a quote is not closed"),
    ] {
        place.file("in.csv", text);
        place.fails("load db c in.csv", 2, expected);
    }
    place.file("in.csv", b"id,a\n1,x\n2,\xFF\n");
    place.fails("load db c in.csv", 2, "in.csv:3:3: expected text in UTF-8");
    place.ok("load db c in.csv --bad-lines bad.txt --drop");
    assert_eq!(place.ok("scan db c"), "{\"id\":1,\"a\":\"x\"}\n");
    assert!(place.read("bad.txt").starts_with("# in.csv:3:3: expected text in UTF-8\n2,"));
    place.file("empty.csv", "");
    place.ok("load db c empty.csv");
}

#[test]
fn drop_and_expiry_and_the_spellings_of_mongoimport() {
    let place = Place::new();
    place.file("in.jsonl", "{\"k\":1}\n{\"k\":2}\n");
    place.ok("put db c other {}");
    place.ok("load db c in.jsonl --upsertFields k --numInsertionWorkers 3 --jsonArray");
    assert_eq!(place.ok("count db c"), "3\n");
    place.ok("index create db c by_k k");
    let dropped = "load db c in.jsonl --key k --drop --partitions 2 --maintainInsertionOrder";
    let dropped = place.run(dropped);
    assert!(
        dropped.stderr.starts_with("dropped c and its indexes: by_k\n2 documents"),
        "{dropped:?}"
    );
    assert_eq!(place.ok("count db c"), "2\n");
    assert_eq!(place.ok("index list db c"), "");
    place.ok("load db c in.jsonl --key k --stopOnError");
    place.fails("load db c in.jsonl --key k --mode insert --stopOnError", 1, "exists");
    place.ok("load db c in.jsonl --key k --expires 2100-01-01T00:00:00Z");
    assert_eq!(place.ok("get db c 1 --json-key --expires"), "2100-01-01T00:00:00Z\n");
    place.ok("load db gone in.jsonl --key k --expires 1ms");
    assert_eq!(place.ok("count db gone"), "0\n");
    place.fails("load db c missing --drop", 3, "missing");
    assert_eq!(place.ok("count db c"), "2\n", "nothing is dropped for a file that is missing");
}

#[test]
fn a_bad_line_stops_the_load_with_its_place_and_reason() {
    let place = Place::new();
    let refused = |text: &[u8], expected: &str| {
        place.file("in.jsonl", text);
        place.fails("load db c in.jsonl", 2, expected);
    };
    refused(b"{\"id\":1}\n\n{\"id\":2,}\n", "in.jsonl:3:9: expected a");
    refused(b"{\"id\":1}\r\n{\"no\":2}\r\n", "in.jsonl:2:1: there is no field \"id\"");
    refused("{\"id\":\"\u{e9}\u{e9}\" x}".as_bytes(), "in.jsonl:1:12: expected");
    refused(b"{\"id\":\"\xFF\"}", "in.jsonl:1:8: expected text in UTF-8");
    refused(b"\xFF\xFE{\0", "in.jsonl:1:1: expected");
    refused(b"{\"id\":1}\n  {\"id\":2", "in.jsonl:2:10: expected");
    let several = "in.jsonl:2:9: expected a name in quotes, found the end of the line: a document";
    refused(b"{\"id\":0}\n{\"id\":1,\n \"x\":2}\n", several);
    refused(b"{\n \"id\": 1\n}\n{\n \"no\": 2\n}", "in.jsonl:4:1: there is no field \"id\"");
    refused(b"{\n \"id\": 1\n}\n{\n \"id\": 2,\n}", "in.jsonl:6:1: expected a name in quotes");
    refused(b"{\n \"id\": 1\n}\n{\n \"id\": 2", "in.jsonl:5:9: expected the end of the document");
    refused(b"7\n", "in.jsonl:1:1: there is no field");
    refused(format!("{{\"id\":1,\"x\":{}", "[".repeat(1000)).as_bytes(), "in.jsonl:1:");
    refused(b"[{\"id\":1},\n {\"id\":2} {\"id\":3}]", "in.jsonl:2:11: expected");
    refused(b"[{\"id\":1},\n {\"no\":2}]", "in.jsonl:2:2: there is no field");
    refused(b"[{\"id\":1},\n", "in.jsonl:2:1: expected the end of the array");
    refused(b"[{\"id\":1}] x", "in.jsonl:1:12: expected nothing after the array");
    let key = "k".repeat(70_000);
    refused(
        format!("{{\"id\":1}}\n{{\"id\":\"{key}\"}}").as_bytes(),
        "in.jsonl:2:1: a primary key",
    );
}

#[test]
fn a_document_over_the_limit_is_refused_and_the_next_is_loaded() {
    let place = Place::new();
    let long = "x".repeat(18 << 20);
    place.file("in.jsonl", format!("{{\"id\":1}}\n{{\"id\":2,\"x\":\"{long}\"}}\n{{\"id\":3}}\n"));
    place.fails(
        "load db c in.jsonl",
        2,
        "in.jsonl:2:16777217: expected a document of at most 16 MiB",
    );
    place.ok("load db c in.jsonl --bad-lines bad.txt");
    assert_eq!(place.ok("keys db c"), "1\n3\n");
    let bad = place.read("bad.txt");
    let limit = "# in.jsonl:2:16777217: expected a document of at most 16 MiB";
    assert!(bad.starts_with(limit), "{}", &bad[..99]);
    assert!(bad.lines().next().unwrap().ends_with("(only its beginning follows)"));
}

#[test]
fn bad_lines_are_copied_with_exact_places_and_the_load_goes_on() {
    let place = Place::new();
    let (mut text, mut places) = (String::new(), Vec::new());
    for n in 0..40_000 {
        if n % 1000 == 17 {
            places.push((n + 1, text.len()));
            let _always = writeln!(text, "{{\"id\":{n}, \"oops\": }}");
        } else {
            let _always = writeln!(text, "{{\"id\":{n},\"pad\":\"{}\"}}", "y".repeat(n % 150));
        }
    }
    place.file("in.jsonl", &text);
    for readers in [1, 7] {
        let db = format!("db{readers}");
        place.ok(&format!("load {db} c in.jsonl --readers {readers} --bad-lines bad.txt"));
        assert_eq!(place.ok(&format!("count {db} c")), "39960\n");
        let bad = place.read("bad.txt");
        let mut found: Vec<(String, String)> = Vec::new();
        let mut bad = bad.lines();
        while let (Some(reason), Some(line)) = (bad.next(), bad.next()) {
            found.push((reason.to_owned(), line.to_owned()));
        }
        assert_eq!(found.len(), places.len());
        for (line, at) in &places {
            let bad = text[*at..].lines().next().unwrap();
            let column = bad.find(" }").unwrap() + 2;
            let reason = format!("# in.jsonl:{line}:{column}: expected a value, found '}}'");
            assert!(found.contains(&(reason.clone(), bad.to_owned())), "{reason}: {found:?}");
        }
    }
    let fixed = place.read("bad.txt").replace("\"oops\": ", "\"ok\":1");
    let fixed: String =
        fixed.lines().filter(|line| !line.starts_with('#')).map(|l| format!("{l}\n")).collect();
    place.file("fixed.jsonl", fixed);
    place.ok("load db1 c fixed.jsonl");
    assert_eq!(place.ok("count db1 c"), "40000\n");
    place.fails("load db1 c in.jsonl --bad-lines ./in.jsonl", 2, "bad lines would overwrite it");
    std::fs::hard_link(place.path("in.jsonl"), place.path("linked")).unwrap();
    place.fails("load db1 c in.jsonl --bad-lines linked", 2, "bad lines would overwrite it");
    assert!(place.read("in.jsonl") == text);
    std::fs::write(place.path("no-database"), "x").unwrap();
    place.fails("load no-database c in.jsonl --bad-lines bad.txt", 3, "no-database");
    assert!(place.read("bad.txt").starts_with("# in.jsonl:"), "kept when nothing was loaded");
    place.ok("load db1 c fixed.jsonl --bad-lines bad.txt");
    assert_eq!(place.read("bad.txt"), "");
}

#[test]
fn progress_as_json_ends_with_the_whole() {
    let place = Place::new();
    let text = lines(2000);
    place.file("in.jsonl", &text);
    let said = place.ok("load db c in.jsonl --progress json --durability group");
    let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(last["documents"], 2000);
    assert_eq!(last["json_bytes"], text.len());
    assert_eq!(last["input_bytes"], text.len());
    assert_eq!(last["input_bytes_total"], text.len());
    assert_eq!(last["done"], true);
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// A file of zstd that began with a skippable frame was taken for text, and zeros after gzip ended
/// a load. What a file is follows from its first bytes, whatever its name is.
#[test]
fn compressed_files_are_known_by_their_content() {
    let place = Place::new();
    let text = lines(3000);
    let (head, tail) = text.as_bytes().split_at(20_000);
    let pack = |part: &[u8]| zstd::encode_all(part, 1).unwrap();
    let skip = [&[0x5A, 0x2A, 0x4D, 0x18, 5, 0, 0, 0][..], b"skip!"].concat();
    place.file("first.zst", [&skip[..], &pack(text.as_bytes())].concat());
    place.file("between", [&pack(head)[..], &skip, &skip, &pack(tail), &skip].concat());
    place.file("padded.gz", [&gzip(head)[..], &gzip(tail), &[0; 3000]].concat());
    place.file("named.json", gzip(text.as_bytes()));
    place.file("csv.csv.gz", gzip(b"id,n\n1,2\n"));
    for name in ["first.zst", "between", "padded.gz", "named.json"] {
        place.ok(&format!("load {name}.db c {name}"));
        assert!(place.ok(&format!("scan {name}.db c")) == text, "{name}");
        let bytes = std::fs::read(place.path(name)).unwrap();
        assert_eq!(place.run_with(&format!("load stdin.db {name} -"), &bytes).code, 0, "{name}");
        assert!(place.ok(&format!("scan stdin.db {name}")) == text, "{name} from stdin");
    }
    place.ok("load table.db c csv.csv.gz");
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.long_distance_matching(true).unwrap();
    encoder.window_log(28).unwrap();
    encoder.write_all(text.as_bytes()).unwrap();
    place.file("long.zst", encoder.finish().unwrap());
    place.fails("load long.db c long.zst", 3, "load it with --long 31");
    place.fails("load long.db c long.zst", 3, "zstd -d --long=31");
    place.ok("load long.db c long.zst --long 28");
    assert!(place.ok("scan long.db c") == text);
    place.file("tail.gz", [&gzip(text.as_bytes())[..], b"tail"].concat());
    place.fails("load tail.db c tail.gz", 3, "cannot read tail.gz: gzip: expected another member");
    place.file("cut.zst", &pack(text.as_bytes())[..1000]);
    place.fails("load cut.db c cut.zst", 3, "cut.zst: zstd: the file ends inside");
}

#[test]
fn files_of_another_kind_are_named_with_what_to_do() {
    let place = Place::new();
    for (text, expected) in [
        (&b"BZh91AY&SY"[..], "found a file of bzip2: decompress it first: bzip2 -d"),
        (b"\xFD7zXZ\0\0", "found a file of xz"),
        (b"\x04\x22\x4D\x18@", "found a file of lz4"),
        (b"PK\x03\x04", "found a file of zip"),
        (b"\xFF\xFE{\0\"\0", "found UTF-16: convert it first: iconv -f UTF-16 -t UTF-8"),
        (b"\xFE\xFF\0{", "found UTF-16"),
    ] {
        place.file("in.jsonl", text);
        place.fails("load db c in.jsonl", 2, "in.jsonl:1:1: expected text");
        place.fails("load db c in.jsonl", 2, expected);
        assert!(!place.path("db").exists(), "refused before a database is made");
        let stdin = place.run_with("load stdin c -", text);
        assert!(stdin.code == 2 && stdin.stderr.contains(expected), "{stdin:?}");
    }
    place.file("twice.gz", gzip(&gzip(b"{\"id\":1}")));
    place.fails("load db c twice.gz", 2, "twice.gz:1:1: expected text, found gzip once more");
}

/// Numbers in quotes became numbers, semicolons needed another program, and the first column that
/// pandas writes was refused.
#[test]
fn a_table_may_have_other_delimiters_types_and_an_index() {
    let place = Place::new();
    place.file("in.csv", "id;zip;n;quoted\n1;01;007;\"12\"\n2;2,5;;x\n");
    place.ok("load db c in.csv --delimiter ; --types zip=text,n=int");
    let first = "{\"id\":1,\"zip\":\"01\",\"n\":7,\"quoted\":\"12\"}\n";
    assert_eq!(
        place.ok("scan db c"),
        format!("{first}{{\"id\":2,\"zip\":\"2,5\",\"quoted\":\"x\"}}\n")
    );
    place.file("in.txt", "id\tn\n1\t\"a\tb\"\n");
    place.ok("load db t in.txt --type csv --delimiter tab");
    assert_eq!(place.ok("scan db t"), "{\"id\":1,\"n\":\"a\\tb\"}\n");
    place.file("pandas.csv", ",name,score\n0,x,1.5\n1,y,\n");
    place.ok("load db p pandas.csv --key index");
    assert_eq!(place.ok("get db p 0 --json-key"), "{\"index\":0,\"name\":\"x\",\"score\":1.5}\n");
    place.file("bad.csv", "id,n\n1,2\n2,x\n");
    let text = "bad.csv:3:3: column \"n\": expected a whole number, found \"x\"";
    place.fails("load db b bad.csv --types n=int", 2, text);
    place.ok("load db b bad.csv --types n=int --bad-lines bad.txt");
    assert_eq!(place.read("bad.txt"), format!("# {text}\n2,x\n"));
    place.fails("load db b bad.csv --types m=int", 2, "there is no column \"m\" to have a type");
    place.fails("load db b bad.csv --types n=real", 2, "expected NAME=TYPE");
    place.fails("load db b bad.csv --delimiter ab", 2, "expected one ASCII character");
    place.file("in.jsonl", "{\"id\":1}");
    place.fails("load db b in.jsonl --delimiter ;", 2, "--delimiter is for tables");
    place.file("none.csv", "id,,n\n1,2,3\n");
    place.fails("load db b none.csv", 2, "none.csv:1:1: the header: column 2: it has no name");
}

/// Progress of a load was kept under the name of the collection, and outlived its documents.
#[test]
fn a_load_that_continues_begins_anew_when_its_documents_are_gone() {
    let place = Place::new();
    let (bad, good) = ("{\"id\":1}\n{\"id\":2}\nBAD\n", "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n");
    for (at, gone) in [
        "drop db c",
        "delete db c --where {}",
        "delete db c --where {\"id\":1}",
        "load db c empty.jsonl --drop",
    ]
    .iter()
    .enumerate()
    {
        place.file("empty.jsonl", "");
        place.file("in.jsonl", bad);
        place.fails("load db c in.jsonl --resume", 2, "in.jsonl:3:1");
        place.ok(gone);
        place.file("in.jsonl", good);
        place.ok("load db c in.jsonl --resume");
        assert_eq!(place.ok("count db c"), "3\n", "{at}");
        place.ok("drop db c");
    }
    place.file("in.jsonl", bad);
    place.fails("load db c in.jsonl --resume", 2, "in.jsonl:3:1");
    place.file("in.jsonl", "{\"id\":5}\n{\"id\":6}\n{\"id\":7}\n{\"id\":8}\n");
    place.fails("load db c in.jsonl --resume", 2, "in.jsonl has changed before byte 17");
    place.fails("load db c in.jsonl --resume", 2, "without --resume the load begins at the start");
    place.ok("load db c in.jsonl");
    assert_eq!(place.ok("count db c"), "6\n");
}

#[test]
fn a_load_that_fails_leaves_no_empty_collection() {
    let place = Place::new();
    place.ok("put db other 1 {}");
    place.file("bad.jsonl", "BAD\n");
    place.fails("load db c bad.jsonl", 2, "bad.jsonl:1:1");
    place.fails("load db c bad.jsonl --resume", 2, "bad.jsonl:1:1");
    place.fails("count db c", 1, "there is no collection \"c\"");
    place.file("good.jsonl", "{\"id\":1}\nBAD\n");
    place.fails("load db c good.jsonl", 2, "good.jsonl:2:1");
    assert_eq!(place.ok("count db c"), "1\n", "what was loaded stays");
    place.ok("delete db c 1 --json-key");
    place.fails("load db c bad.jsonl", 2, "bad.jsonl:1:1");
    assert_eq!(place.ok("count db c"), "0\n", "it was there before");
    place.file("empty.jsonl", "");
    place.ok("load db e empty.jsonl");
    assert_eq!(place.ok("count db e"), "0\n", "a load that does not fail makes one");
}

#[test]
fn a_command_that_fails_leaves_no_empty_database() {
    let place = Place::new();
    place.file("bad.jsonl", "BAD\n");
    place.file("good.jsonl", "{\"id\":1}\nBAD\n");
    let long = "x".repeat(300);
    for (args, why) in [
        ("put new flagstone.x k {}", "invalid collection name"),
        (&format!("put new {long} k {{}}"), "expected 1 to 255"),
        ("load new flagstone.x good.jsonl", "invalid collection name"),
        ("load new c good.jsonl --key a,,", "expected the paths of fields"),
        ("load new c bad.jsonl", "bad.jsonl:1:1"),
        ("load new c bad.jsonl --resume", "bad.jsonl:1:1"),
    ] {
        place.fails(args, 2, why);
        assert!(!place.path("new").exists(), "{args}");
    }
    // What has documents, or was there, stays.
    place.fails("load new c good.jsonl", 2, "good.jsonl:2:1");
    assert_eq!(place.ok("count new c"), "1\n");
    std::fs::create_dir(place.path("mine")).unwrap();
    place.fails("load mine c bad.jsonl", 2, "bad.jsonl:1:1");
    assert!(place.path("mine").exists());
}

#[test]
fn keys_may_be_of_several_fields_or_made() {
    let place = Place::new();
    place.file("in.jsonl", "{\"title\":\"a\",\"year\":1}\n{\"title\":\"a\",\"year\":2}\n");
    place.ok("load db c in.jsonl --key title,year");
    assert_eq!(place.ok("keys db c"), "[\"a\",1]\n[\"a\",2]\n");
    place.ok("load db c in.jsonl --key title,year");
    assert_eq!(place.ok("count db c"), "2\n");
    for again in ["--resume", "--resume", ""] {
        place.ok(&format!("load db auto in.jsonl --key auto {again}"));
    }
    let keys = place.ok("keys db auto");
    assert_eq!(keys.lines().count(), 4, "{keys}");
    assert!(keys.lines().all(|key| key.len() == 36 && &key[14..15] == "7"), "{keys}");
    let text = place.read("in.jsonl");
    assert_eq!(place.ok("scan db auto"), text.repeat(2), "in the order in which they came");
    let key = keys.lines().next().unwrap();
    assert_eq!(
        place.ok(&format!("get db auto {key}")),
        text.lines().next().unwrap().to_owned() + "\n"
    );
    place.fails("load db auto in.jsonl --key auto --mode merge", 2, "every document is new");
    place.fails("load db auto in.jsonl --key title,", 2, "expected the paths of fields");
}

#[cfg(unix)]
#[test]
fn what_cannot_be_read_is_said_with_its_name() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    std::fs::create_dir(place.path("dir")).unwrap();
    place.fails("load db c dir", 3, "cannot read dir: is a directory");
    place.fails("load db c missing.jsonl", 3, "cannot read missing.jsonl");
    place.file("secret.jsonl", "{\"id\":1}\n");
    std::fs::set_permissions(place.path("secret.jsonl"), PermissionsExt::from_mode(0o000)).unwrap();
    // Some users may read everything.
    if std::fs::File::open(place.path("secret.jsonl")).is_err() {
        place.fails("load db c secret.jsonl", 3, "cannot read secret.jsonl: Permission denied");
    }
    assert!(!place.path("db").exists());
    let fifo = place.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if made.is_ok_and(|made| made.success()) {
        let writer = std::thread::spawn(move || std::fs::write(fifo, "{\"id\":1}\n{\"id\":2}\n"));
        place.ok("load db c fifo");
        writer.join().unwrap().unwrap();
        assert_eq!(place.ok("count db c"), "2\n");
    }
    place.file("in.jsonl", "{\"id\":1}\nBAD\n");
    let full = "load db c in.jsonl --bad-lines /dev/full";
    place.fails(full, 3, "cannot write /dev/full");
    place.fails(&format!("{full} --resume"), 2, "/dev/full: expected a regular file");
    place.fails("load db c in.jsonl --bad-lines none/bad.txt", 3, "cannot create none/bad.txt");
}

/// The collection was dropped first: who forgot `--key email` had neither it nor its indexes.
#[test]
fn what_is_refused_drops_nothing() {
    let place = Place::new();
    place.ok("put db c k {\"id\":\"k\",\"a\":1}");
    place.ok("index create db c by_a a");
    place.file("p.csv", "email,a\nx@y,1\n");
    place.file("bad.csv", "email,a\nx@y,1,2\n");
    place.file("n.jsonl", "{\"email\":\"x\"}\n");
    place.file("half.json", "{\n\"id\":\n");
    place.file("ok.jsonl", "{\"id\":1}\n");
    place.file("twice.gz", {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&zstd::encode_all(&b"{}"[..], 1).unwrap()).unwrap();
        encoder.finish().unwrap()
    });
    for (args, expected) in [
        ("p.csv", "there is no column \"id\""),
        ("p.csv --key email --types nope=int", "there is no column \"nope\" to have a type"),
        ("p.csv --key email --types a=bool,a=int", "has two types"),
        ("p.csv --type json", "p.csv:1:1: "),
        ("p.csv --key ''", "expected the paths of fields, found an empty one"),
        ("p.csv --key auto --mode merge", "with keys auto every document is new"),
        ("bad.csv --key email", "bad.csv:2:1: expected at most 2 fields, found 3"),
        ("n.jsonl", "n.jsonl:1:1: there is no field \"id\""),
        ("ok.jsonl n.jsonl", "n.jsonl:1:1: there is no field \"id\""),
        ("half.json", "half.json:"),
        ("twice.gz", "found zstd once more inside of it"),
        ("ok.jsonl p.csv --bad-lines bad.txt", "there is no column \"id\""),
    ] {
        place.fails(&format!("load db c {args} --drop"), 2, expected);
        assert_eq!(place.ok("scan db c"), "{\"id\":\"k\",\"a\":1}\n", "{args}");
        assert!(place.ok("index list db c").starts_with("by_a"), "{args}");
    }
    let said = place.run("load db c ok.jsonl n.jsonl --drop --bad-lines bad.txt");
    assert_eq!((said.code, place.ok("scan db c")), (0, "{\"id\":1}\n".to_owned()), "{said:?}");
    assert!(said.stderr.contains("dropped c and its indexes: by_a"), "{said:?}");
}

/// The marks were removed before the database was closed: a kill then, and the same command again,
/// loaded 30,000 documents twice.
#[test]
fn a_load_that_is_killed_at_its_end_has_loaded_everything_once() {
    const LINES: usize = 6000;
    let place = Place::new();
    place.file("in.jsonl", "{\"n\":1}\n".repeat(LINES));
    let load = |db: usize| format!("load db{db} c in.jsonl --resume --key auto");
    let started = std::time::Instant::now();
    place.ok(&load(0));
    let took = started.elapsed();
    for round in 1..30 {
        let mut child = place.command(&load(round)).spawn().unwrap();
        std::thread::sleep(took * (70 + 2 * round as u32) / 100);
        child.kill().unwrap();
        child.wait().unwrap();
        place.ok(&load(round));
        let said = place.run(&load(round));
        assert!(said.stderr.starts_with("the same text was loaded before, to its end"), "{said:?}");
        assert_eq!(place.ok(&format!("count db{round} c")), format!("{LINES}\n"), "{round}");
    }
    // What the file has grown by comes behind it; other text is another file.
    place.file("in.jsonl", "{\"n\":1}\n".repeat(LINES + 1));
    let said = place.run(&load(0));
    let expected = "continued at byte 48,000 of in.jsonl\n1 document loaded";
    assert!(said.stderr.starts_with(expected), "{said:?}");
    assert_eq!(place.ok("count db0 c"), format!("{}\n", LINES + 1));
    place.file("in.jsonl", "{\"n\":2}\n".repeat(LINES));
    let said = place.run(&load(0));
    assert!(said.stderr.starts_with("6,000 documents loaded"), "{said:?}");
}

/// The first 4,096 bytes decided: an array behind more white space was one document.
#[test]
fn white_space_before_an_array_may_be_long() {
    let place = Place::new();
    for (n, blanks) in [0, 4090, 4094, 4095, 4096, 4097, 5000, 70_000].into_iter().enumerate() {
        for blank in [" ", "\n", "\r\n\t"] {
            let blanks = blank.repeat(blanks);
            for text in [
                "[{\"id\":1},\n{\"id\":2}]",
                "{\n\"id\":1}\n{\n\"id\":2}",
                "{\"id\":1}\n{\"id\":2}",
            ] {
                let text = format!("{blanks}{text}");
                place.file("plain", &text);
                place.file("packed", zstd::encode_all(text.as_bytes(), 1).unwrap());
                place.ok(&format!("load db c{n} plain --drop"));
                assert_eq!(
                    place.ok(&format!("scan db c{n} --limit 9")),
                    "{\"id\":1}\n{\"id\":2}\n"
                );
                place.ok(&format!("load db c{n} packed --drop"));
                assert_eq!(place.ok(&format!("count db c{n}")), "2\n");
                let stdin = place.run_with(&format!("load db c{n} - --drop"), text.as_bytes());
                assert_eq!(
                    (stdin.code, place.ok(&format!("count db c{n}"))),
                    (0, "2\n".to_owned())
                );
            }
        }
    }
    place.file("blank", " ".repeat(33 << 20));
    place.fails("load db x blank", 2, "blank:1:1: expected a document in the first 16 MiB");
}
