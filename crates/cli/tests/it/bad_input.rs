//! Missing, locked or damaged databases and values out of range: a clear error, the right
//! exit code, nothing lost.

use crate::run::{Place, wait_until_locked};
use std::process::Stdio;

#[test]
fn what_is_missing_is_said() {
    let place = Place::new();
    place.fails("get db c k", 3, "there is no database here");
    for command in ["count db c", "scan db c", "keys db c", "compact db", "stats db", "verify db"] {
        place.fails(command, 3, "there is no database here");
        assert!(!place.path("db").exists(), "{command} made a database");
    }
    place.fails("delete db c k", 3, "there is no database here");
    place.fails("update db c k a=1", 3, "there is no database here");
    place.fails("load db c missing.jsonl", 3, "cannot read missing.jsonl");
    place.fails("inspect missing.sst", 3, "missing.sst");
    assert!(!place.path("db").exists());
    place.ok("put db c k {}");
    place.fails("count db other", 1, "there is no collection \"other\"");
    std::fs::create_dir(place.path("dir")).unwrap();
    place.fails("load db c dir", 3, "cannot read dir");
}

#[test]
fn what_is_no_database_is_left_alone() {
    let place = Place::new();
    std::fs::create_dir(place.path("photos")).unwrap();
    place.file("photos/cat.jpg", "meow");
    place.fails("get photos c k", 3, "there is no database here");
    place.file("file", "text");
    let refused = place.run("get file c k");
    assert_eq!(refused.code, 3, "{refused:?}");
    let refused = place.run("put file c k {}");
    assert_eq!(refused.code, 3, "{refused:?}");
    assert_eq!(place.read("file"), "text");
    assert_eq!(place.read("photos/cat.jpg"), "meow");
    place.fails("inspect photos/cat.jpg", 2, "expected a file of a database");
}

#[test]
fn a_locked_database_is_busy() {
    let place = Place::new();
    place.ok("put db c k {}");
    let mut holder = place.command("load db c -").stdin(Stdio::piped()).spawn().unwrap();
    // The load waits for its stdin and keeps the database locked. Another command before that would
    // lock it first.
    wait_until_locked(&place, holder.id());
    let ran = place.run("put db c k {}");
    let named = format!("is locked by process {} (flagstone)", holder.id());
    assert!(ran.code == 3 && ran.stderr.contains("busy") && ran.stderr.contains(&named), "{ran:?}");
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    place.ok("get db c k");
}

#[test]
fn bad_json_and_bad_arguments_make_no_database() {
    let place = Place::new();
    place.fails("put db c k {\"a\":}", 2, "line 1, column 6");
    place.fails("put db c [1 --json-key {}", 2, "the key: JSON, line 1, column 3");
    place.fails("update db c k a", 2, "expected PATH=JSON");
    for args in ["put db c --json-kei {}", "get db c --pth", "update db c --unst a=1"] {
        place.fails(args, 2, "there is no option --");
    }
    place.fails("update db c --where {} --set a=1", 2, "there is no option --set");
    place.fails("update db c k a=x", 2, "text needs its quotes");
    for (when, text) in [
        ("soon", "expected a duration such as 90s, 15m, 2h or 7d, or a moment"),
        ("2026-13-01T00:00:00Z", "expected a duration"),
        ("0s", "more than 0"),
        ("999999999999d", "the duration is too long: expected 213503982334d or less"),
        ("2001-01-01T00:00:00Z", "--expires 2001-01-01T00:00:00Z: this moment has passed"),
    ] {
        place.fails(&format!("put db c k {{}} --expires {when}"), 2, text);
    }
    let not_utf8 = place.run_with("put db c k", b"\"\xFF\"");
    assert_eq!(not_utf8.code, 2);
    assert!(not_utf8.stderr.contains("expected text in UTF-8"), "{not_utf8:?}");
    place.file("in.jsonl", "");
    for (option, text) in [
        ("--partitions 0", "1..=256"),
        ("--partitions 257", "1..=256"),
        ("--readers 0", "1..=64"),
        ("--parsers 65", "1..=64"),
        ("--writers x", "invalid"),
        ("--memory 1XB", "is no unit"),
        ("--memory 1", "memory budget"),
        ("--durability often", "expected none, buffered"),
        ("--durability interval:0ms", "at least 1 ms"),
        ("--progress loud", "invalid value"),
        ("--mode replace", "invalid value"),
        ("--type xml", "invalid value"),
        ("--expires yesterday", "expected a duration"),
        ("--expires 2001-01-01T00:00:00Z", "this moment has passed"),
        ("--no-such-option", "unexpected argument"),
    ] {
        place.fails(&format!("load db c in.jsonl {option}"), 2, text);
    }
    place.fails("", 2, "Usage");
    place.fails("keys db c --sample 0", 2, "expected a number of at least 1");
    // The tip was to write '-- -1'.
    for args in ["scan db c --limit -1", "find db c --skip -1", "watch db --limit -1"] {
        place.fails(args, 2, "'-1' for '--");
        place.fails(args, 2, "expected a number of at least 0");
    }
    for database in ["http:x", "mongodb:h", "FILE:x", "file:///tmp/x", "s3:/bucket"] {
        place.fails(&format!("put {database} c k {{}}"), 2, "expected a directory, or a URL");
    }
    place.fails("generate comments", 2, "--count");
    assert!(!place.path("db").exists());
}

/// `delete DB c a --where FILTER` removed all that matched and kept `a`.
#[test]
fn a_key_and_a_filter_are_refused_together() {
    let place = Place::new();
    for (key, v) in [("a", 1), ("b", 2), ("c", 3)] {
        place.ok(&format!("put db c {key} {{\"v\":{v}}}"));
    }
    let filter = "--where {\"v\":{\"$gte\":2}}";
    for args in ["delete db c a", "delete db c a --yes", "delete db c -- a"] {
        place.fails(&args.replacen("c ", &format!("c {filter} "), 1), 2, "the key a and --where");
    }
    place.fails(&format!("delete db c a {filter}"), 2, "drop the key for all documents that match");
    place.fails("delete db c a --where {}", 2, "the key a and --where are given");
    for args in ["update db c a v=9", "update db c v=9 a", "update db c a --inc v=1"] {
        place.fails(&format!("{args} {filter}"), 2, "\"a\": expected PATH=JSON");
        place.fails(&format!("{args} --where {{}}"), 2, "if it is a key, drop it");
    }
    // The others have no --where, and no key beside a filter.
    for args in ["get db c a", "export db c a", "count db c", "find db c", "scan db c", "keys db c"]
    {
        place.fails(&format!("{args} --where {{}}"), 2, "--where");
    }
    for args in ["export db c a {}", "count db c a {}", "find db c a {}", "get db c a {}"] {
        place.fails(args, 2, "unexpected argument '{}'");
    }
    assert_eq!(place.ok("scan db c"), "{\"v\":1}\n{\"v\":2}\n{\"v\":3}\n");
    // In a shell as well.
    let ran = place.run_with("shell db", b"delete c a --where {}\n");
    assert!(ran.code == 2 && ran.stderr.contains("the key a and --where"), "{ran:?}");
    // A script is not asked.
    assert_eq!(place.run("delete db c --where {}").stderr, "3 documents removed\n");
}

/// A put that fails left the collection that it had created.
#[test]
fn a_put_that_fails_creates_no_collection() {
    let place = Place::new();
    place.ok("put db c k {}");
    let key = "k".repeat(70_000);
    place.fails(&format!("put db d {key} {{}}"), 2, "");
    assert_eq!(place.ok("collections db --names"), "c\n");
    for args in ["get db d k", "find db d", "update db d k a=1", "update db d k a=1 --upsert"] {
        place.fails(args, 1, "there is no collection \"d\" in db, which has c\n");
    }
    let script = b"find c\ncount d\n";
    assert_eq!(place.run_with("shell db", script).code, 1);
    assert_eq!(place.ok("collections db --names"), "c\n");
}

/// A collection of the name under which loads keep their marks was in the way of these.
#[test]
fn a_new_collection_has_no_name_of_the_tool() {
    let place = Place::new();
    place.file("in.jsonl", "{\"id\":1}\n");
    place.ok("put db c k {}");
    for args in [
        "put db flagstone.loads k {}",
        "rename db c flagstone.x",
        "load db flagstone.x in.jsonl",
        "load db flagstone.loads in.jsonl --partitions 2",
    ] {
        place.fails(args, 2, "names that begin with flagstone. are the tool's");
    }
    assert_eq!(place.ok("collections db --names"), "c\n");
    place.ok("put db flagstones k {}");
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let place = Place::new();
    for (args, text) in [
        ("scan db c --json-key", "--json-key is for the keys of --from and --to"),
        ("scan db c --prefix x --json-key", "--json-key is for the keys of --from and --to"),
        ("backup dir --list --rate 1MiB", "--rate is for a new generation"),
        ("backup dir --keep 1 --rate 1MiB", "--rate is for a new generation"),
        ("keys db c --seed 2", "--sample"),
        ("load db c in.jsonl --stop-on-error", "--stop-on-error is for --mode insert"),
        ("load db c in.jsonl --mode merge --expires 2h", "--expires is for new documents"),
        ("load db c in.jsonl --fields id", "--fields is for tables: --type csv or tsv"),
        ("load db c in.jsonl --all-text", "--all-text is for tables"),
        ("load db c in.jsonl --ignore-blanks", "--ignore-blanks is for tables"),
        ("load db c in.jsonl --drop --resume", "cannot be used with"),
        ("delete db c k --yes", "--where"),
        ("update db c k a=1 --yes", "--where"),
        ("update db c k --upsert --default {}", "cannot be used with"),
        ("update db c k a=1 --keep-going", "--keep-going is for --where"),
        ("find db c --explain --keys", "cannot be used with"),
        ("find db c --analyze --page 3", "cannot be used with"),
        ("find db c --explain --format csv", "a plan is printed as --format json or table"),
        ("find db c --sort --scan", "--sort --scan: expected paths, found an option"),
        ("find db c --project --scan", "--project --scan: expected paths, found an option"),
        ("export db c --sort --limit", "--sort --limit: expected paths, found an option"),
        ("export db c --project --limit", "--project --limit: expected paths, found an option"),
        ("get db c k --expires --pretty", "cannot be used with"),
        ("backup dir --list --memory 1GiB", "--memory is for a new generation"),
    ] {
        place.fails(args, 2, text);
    }
}

#[test]
fn options_of_columns_are_refused_for_json() {
    let place = Place::new();
    place.file("in.jsonl", "{\"id\":\"a\"}\n");
    place.fails("load db c in.jsonl --naive-utc", 2, "--naive-utc is for timestamps of Parquet");
    place.ok("load db c in.jsonl");
    place.fails("export db c --sample 9", 2, "--key and --sample are for Parquet and Arrow");
    place.fails("export db c --key id -o x.csv --fields id", 2, "--key and --sample are for");
}

/// `cargo xtask python` tests a build that has the feature.
#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_says_how_to_get_it() {
    let place = Place::new();
    place.file("in.parquet", "PAR1");
    for command in ["load db c in.parquet", "load db c - --type arrow", "load db c in.feather"] {
        place.fails(command, 2, "cargo install --path crates/cli --features parquet");
        assert!(!place.path("db").exists(), "{command} made a database");
    }
    place.ok("put db c k {}");
    for command in ["export db c -o x.parquet", "export db c --format arrow"] {
        place.fails(command, 2, "cargo install --path crates/cli --features parquet");
    }
}

#[test]
fn other_partitions_than_the_stored_are_refused() {
    let place = Place::new();
    place.file("in.jsonl", "{\"id\":1}");
    place.ok("load db c in.jsonl --partitions 2");
    place.fails("load db c in.jsonl --partitions 3", 2, "partitions");
    place.ok("load db c in.jsonl");
    place.ok("load db c in.jsonl --partitions 2");
    assert_eq!(place.ok("count db c"), "1\n");
}

#[test]
fn a_damaged_input_is_an_input_error() {
    let place = Place::new();
    let text = "{\"id\":1}\n".repeat(10_000);
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    place.file("cut.zst", &packed[..packed.len() - 5]);
    place.fails("load db c cut.zst", 3, "cannot read cut.zst");
}

#[test]
fn a_damaged_database_is_corruption() {
    let place = Place::new();
    place.ok("generate comments --count 2000 --output in.jsonl");
    place.ok("load db c in.jsonl --partitions 1");
    place.ok("compact db");
    let table = place.files("db", ".sst").pop().unwrap();
    let whole = std::fs::read(place.path(&table)).unwrap();

    let mut flipped = whole.clone();
    flipped[whole.len() / 3] ^= 0x10;
    place.file(&table, &flipped);
    place.fails("verify db", 4, "corruption");
    let scanned = place.run("scan db c");
    assert_eq!(scanned.code, 4, "{}", scanned.stderr);
    assert!(scanned.stderr.contains(".sst"), "{}", scanned.stderr);

    place.file(&table, &whole[..whole.len() - 100]);
    place.fails("verify db", 4, "corruption");

    std::fs::remove_file(place.path(&table)).unwrap();
    place.fails("verify db", 4, ".sst");

    place.file(&table, &whole);
    place.ok("verify db");
    assert_eq!(place.ok("count db c"), "2000\n");

    let manifest = place.files("db", ".manifest").pop().unwrap();
    let mut bytes = std::fs::read(place.path(&manifest)).unwrap();
    bytes[100] ^= 1;
    place.file(&manifest, &bytes);
    place.fails("count db c", 4, "manifest");
}
