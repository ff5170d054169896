//! What is in a database: collections with counts and sizes, fields, names; whether it is whole.

use crate::run::Place;
use serde_json::Value;

fn json(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn collections_are_listed_with_counts_and_sizes() {
    let place = Place::new();
    let lines: String = (0..30_000).map(|n| format!("{{\"id\":{n},\"v\":{n}}}\n")).collect();
    place.file("in.jsonl", &lines);
    place.ok("load db many in.jsonl");
    place.ok("index create db many by_v v");
    place.ok("put db few k {}");
    assert_eq!(place.ok("collections db --names"), "few\nmany\n");
    let listed = json(&place.ok("collections db --json"));
    assert_eq!(listed[0]["name"], "few");
    assert_eq!((&listed[0]["documents"], &listed[0]["documents_exact"]), (&1.into(), &true.into()));
    assert_eq!((&listed[1]["name"], &listed[1]["indexes"]), (&"many".into(), &1.into()));
    assert!(listed[1]["bytes"].as_u64().unwrap() > 10_000, "{listed:?}");
    assert!(listed[1]["index_bytes"].as_u64().unwrap() > 10_000, "{listed:?}");
    let count = listed[1]["documents"].as_u64().unwrap();
    assert!((30_000..31_000).contains(&count), "{listed:?}");
    // Loaded again, many are there twice until they are compacted: an estimate, and marked so.
    place.ok("load db many in.jsonl");
    let again = &json(&place.ok("collections db --json"))[1];
    assert_eq!(again["documents_exact"], false);
    let table = place.ok("collections db");
    assert!(table.starts_with("collection  documents"), "{table}");
    assert!(table.lines().nth(2).unwrap().contains(" ~"), "{table}");
    place.ok("compact db");
    let again = &json(&place.ok("collections db --json"))[1];
    assert_eq!((&again["documents"], &again["documents_exact"]), (&30_000.into(), &true.into()));
    let table = place.ok("collections db");
    assert!(table.lines().nth(2).unwrap().contains("  30,000  "), "{table}");
    place.fails("collections db --names --json", 2, "cannot be used with");
}

#[test]
fn fields_are_described_from_a_sample_whose_size_is_said() {
    let place = Place::new();
    let lines: String = (0..1000)
        .map(|n| match n {
            0..500 => format!("{{\"id\":{n},\"by\":{{\"name\":\"p{n}\"}},\"tags\":[1,\"x\"]}}\n"),
            500 => format!("{{\"id\":{n},\"rare\":true,\"n\":null,\"late\":null}}\n"),
            _ => format!("{{\"id\":{n},\"late\":1.5,\"a.b\":0}}\n"),
        })
        .collect();
    place.file("in.jsonl", lines);
    place.ok("load db c in.jsonl");
    let all = place.run("describe db c --all --json");
    assert_eq!(all.stderr, "c: all 1,000 documents\n");
    let fields = json(&all.stdout);
    let of = |name: &str| {
        let found = fields.iter().find(|field| field["field"] == name);
        found.unwrap_or_else(|| panic!("{name}: {fields:?}"))
    };
    assert_eq!((&of("id")["documents"], &of("id")["share"]), (&1000.into(), &1.0.into()));
    assert_eq!(of("by.name")["documents"], 500);
    assert_eq!(of("by.name")["examples"], Value::from(vec!["\"p0\"", "\"p1\"", "\"p2\""]));
    assert_eq!(of("tags")["types"], serde_json::json!({"array": 500}));
    assert_eq!(of("tags[]")["types"], serde_json::json!({"number": 500, "text": 500}));
    assert_eq!(of("tags[]")["documents"], 500);
    assert_eq!((&of("rare")["documents"], &of("n")["types"]["null"]), (&1.into(), &1.into()));
    // A null was an example beside the values.
    assert_eq!(of("late")["examples"], Value::from(vec!["1.5"]));
    assert_eq!(of("n")["examples"], Value::from(Vec::<String>::new()));
    assert_eq!(of("$['a.b']")["documents"], 499);
    let sample = place.run("describe db c --sample 10");
    assert_eq!(
        sample.stderr,
        "c: a sample of 10 documents, half the first and half the last of about 1,000\n"
    );
    // A field that only late documents have is seen.
    assert!(sample.stdout.contains("late") && !sample.stdout.contains("rare"), "{sample:?}");
    assert!(sample.stdout.contains("50.0 %"), "{sample:?}");
    let text = place.ok("describe db c");
    assert!(text.contains("tags[]") && text.contains("number 50.0 %, text 50.0 %"), "{text}");
    place.fails("describe db c --all --sample 3", 2, "cannot be used with");
    place.fails("describe db d", 1, "there is no collection \"d\" in db, which has c\n");
    place.ok("put db t k \"text\"");
    assert!(place.ok("describe db t").contains("(the document)"));
    assert_eq!(place.ok("collections db --names"), "c\nt\n", "reading creates nothing");
}

#[test]
fn a_collection_is_renamed_with_its_indexes() {
    let place = Place::new();
    place.ok("put db old k {\"v\":1}");
    place.ok("index create db old by_v v --unique");
    place.ok("put db taken k {}");
    place.fails("rename db old taken", 2, "taken");
    place.fails("rename db older new", 1, "which has old, taken; did you mean old?");
    place.fails("rename db old ''", 2, "name");
    assert_eq!(place.ok("rename db old new"), "");
    assert_eq!(place.ok("collections db --names"), "new\ntaken\n");
    assert_eq!(place.ok("find db new {\"v\":1} --index by_v"), "{\"v\":1}\n");
    place.fails("put db new k2 {\"v\":1}", 1, "by_v");
    place.fails("count db old", 1, "there is no collection \"old\"");
}

/// `verify` ended with the exit code of a missing file.
#[test]
fn damage_has_an_exit_code_of_its_own() {
    let place = Place::new();
    place.fails("verify missing", 3, "there is no database here");
    place.fails("scrub missing", 3, "there is no database here");
    place.fails("verify", 2, "<DB>");
    place.ok("generate comments --count 4000 --output in.jsonl");
    place.ok("load db c in.jsonl --partitions 3");
    place.ok("compact db");
    let whole = place.ok("scrub db");
    assert!(whole.contains("3 tables whole, 0 damaged"), "{whole}");
    place.ok("backup db backups");
    let tables = place.files("db", ".sst");
    for table in &tables[..2] {
        let mut bytes = std::fs::read(place.path(table)).unwrap();
        let middle = bytes.len() / 3;
        bytes[middle] ^= 1;
        place.file(table, bytes);
    }
    place.fails("verify db", 4, "corruption: ");
    let scrubbed = place.run("scrub db --rate 1GiB");
    assert_eq!(scrubbed.code, 4, "{scrubbed:?}");
    for table in &tables[..2] {
        assert!(scrubbed.stdout.contains(table.trim_start_matches("db/")), "{scrubbed:?}");
    }
    assert!(scrubbed.stdout.contains("1 table whole, 2 damaged"), "{scrubbed:?}");
    let scanned = place.run("scan db c");
    assert_eq!(scanned.code, 4, "{}", scanned.stderr);
    let repaired = place.run("repair db --to new");
    assert_eq!(repaired.code, 4, "{repaired:?}");
    let table = place.files("backups", ".sst").remove(0);
    let mut bytes = std::fs::read(place.path(&table)).unwrap();
    bytes[200] ^= 1;
    place.file(&table, bytes);
    assert_eq!(place.run("backup --verify backups").code, 4);
    place.ok("put empty c k {}");
    place.ok("drop empty c");
    assert!(place.ok("scrub empty").contains("0 tables whole, 0 damaged"));
}

#[test]
fn every_command_says_its_exit_codes_and_takes_a_memory_budget() {
    let place = Place::new();
    place.ok("put db c k {\"a\":1}");
    let help = place.ok("--help");
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let names = commands.lines().take_while(|line| !line.is_empty());
    let mut count = 0;
    for line in names {
        let name = line.split_whitespace().next().unwrap();
        let names = match name {
            "help" => continue,
            "index" => vec!["index create", "index list", "index drop"],
            "generate" => vec!["generate comments"],
            "user" => vec!["user add", "user list", "user password", "user remove"],
            name => vec![name],
        };
        for name in names {
            count += 1;
            for flag in ["--help", "-h"] {
                let help = place.ok(&format!("{name} {flag}"));
                assert!(help.contains("Exit codes: 0 done, "), "{name}: {help}");
                assert!(help.contains("4 damaged data, 130 interrupted"), "{name}: {help}");
                let opens = help.contains("<DB>") && name != "rebalance"
                    || matches!(name, "backup" | "copy");
                let has_memory = help.contains("--memory <BYTES>");
                // Repair reads files, and builds a database of them without opening it.
                assert_eq!(has_memory, opens && name != "repair", "{name}: {help}");
            }
        }
    }
    assert!(count > 30, "{count}");
    for args in [
        "get db c k",
        "put db c k {\"a\":1}",
        "update db c k a=1",
        "scan db c",
        "find db c",
        "count db c",
        "distinct db c a",
        "keys db c",
        "export db c",
        "collections db",
        "describe db c",
        "alter db c --filter-bits 9",
        "stats db",
        "verify db",
        "scrub db",
        "compact db",
        "index list db c",
        "checkpoint db copy",
        "copy db copied",
        "backup db backups",
        "rename db c d",
        "delete db d k",
        "drop db d",
    ] {
        place.ok(&format!("{args} --memory 16MiB"));
        place.fails(&format!("{args} --memory 1XB"), 2, "is no unit");
    }
    // A shell has opened the database, so the option would do nothing.
    let refused = place.run_with("shell db", b"stats --memory 16MiB\n");
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("give --memory to flagstone shell"), "{refused:?}");
}
