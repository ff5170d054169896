//! What every command does.

use crate::run::Place;
use flagstone::Database;
use serde_json::Value;
use std::io::Read;

#[test]
fn a_document_is_put_got_updated_and_deleted() {
    let place = Place::new();
    place.ok(r#"put db c k1 {"a":1.10,"big":18446744073709551617,"z":[1e400,-0]}"#);
    assert_eq!(
        place.ok("get db c k1"),
        "{\"a\":1.10,\"big\":18446744073709551617,\"z\":[1e400,-0]}\n"
    );
    place.ok(r#"update db c k1 a=2 x.y="text" z.0=null"#);
    assert_eq!(
        place.ok("get db c k1"),
        "{\"a\":2,\"big\":18446744073709551617,\"z\":[null,-0],\"x\":{\"y\":\"text\"}}\n"
    );
    let put = place.run_with("put db c k2", b" {\"from\": \"stdin\"}\n");
    assert_eq!((put.code, &put.stdout[..]), (0, ""));
    assert_eq!(place.ok("get db c k2"), "{\"from\":\"stdin\"}\n");
    assert_eq!(place.ok("count db c"), "2\n");
    place.ok("delete db c k1");
    place.fails("delete db c k1", 1, "there is no document k1");
    place.fails("get db c k1", 1, "there is no document k1");
    place.fails("update db c k1 a=1", 1, "there is no document k1");
    assert_eq!(place.ok("count db c"), "1\n");
}

#[test]
fn the_commands_of_the_readme_work_in_their_order() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (_, block) = readme.split_once("The command-line tool\n\n```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let place = Place::new();
    let mut said = Vec::new();
    for line in block.lines().filter_map(|line| line.strip_prefix("flagstone ")) {
        // As many would take too long here.
        let line = line.replace("--count 1000000", "--count 1000");
        let (args, file) = line.split_once(" > ").unwrap_or((&line, ""));
        let stdout = place.ok(args);
        match file {
            "" => said.push((args.to_owned(), stdout)),
            file => place.file(file, stdout),
        }
    }
    let of = |words: &str| {
        let found = said.iter().find(|(args, _)| args.starts_with(words));
        found.unwrap_or_else(|| panic!("{words}: {said:?}")).1.lines().collect::<Vec<_>>()
    };
    assert_eq!(of("count"), ["1000"]);
    assert_eq!(of("scan").len(), 3);
    assert!(of("get data comments ewbzg5c")[0].contains("\"id\":\"ewbzg5c\""));
}

#[test]
fn a_failed_update_changes_nothing() {
    let place = Place::new();
    place.ok(r#"put db c k {"a":1}"#);
    place.fails("update db c k b=2 a.x=3", 2, "a.x");
    assert_eq!(place.ok("get db c k"), "{\"a\":1}\n");
}

/// The tokens of printed changes, and the lines without them.
fn watched(stdout: &str) -> (Vec<String>, Vec<Value>) {
    let mut tokens = Vec::new();
    let mut lines = Vec::new();
    for line in stdout.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let fields = line.as_object_mut().unwrap();
        tokens.push(fields.remove("token").unwrap().as_str().unwrap_or_default().to_owned());
        fields.remove("seqno");
        lines.push(line);
    }
    (tokens, lines)
}

#[test]
fn watch_prints_what_was_committed_from_a_token_on() {
    let place = Place::new();
    place.ok(r#"put db c k1 {"a":1.10}"#);
    place.fails("watch db", 2, "flagstone watch db --keep 1GiB makes it keep those");
    assert!(place.run("watch db --keep 1MiB").stderr.contains("1048576 bytes"));
    place.ok(r#"put db c k1 {"a":2}"#);
    place.ok("update db c k1 --blind --inc a=1");
    place.ok("delete db c k1");
    place.ok(r#"put db other k {"b":true}"#);
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let expected = [
        json(r#"{"kind":"put","keyspace":"c","key":"k1","document":{"a":2}}"#),
        json(r#"{"kind":"patch","keyspace":"c","key":"k1","patch":"inc a 1"}"#),
        json(r#"{"kind":"delete","keyspace":"c","key":"k1"}"#),
        json(r#"{"kind":"put","keyspace":"other","key":"k","document":{"b":true}}"#),
    ];
    let (tokens, lines) = watched(&place.ok("watch db"));
    assert_eq!(lines, expected);
    assert_eq!(watched(&place.ok("watch db c")).1, expected[..3]);
    let rest = place.ok(&format!("watch db --from {} --limit 1", tokens[1]));
    assert_eq!(watched(&rest).1, expected[2..3]);
    assert_eq!(place.ok("watch db --from now"), "");
    assert_eq!(watched(&place.ok("watch db --follow --timeout 1ms")).1, expected);
    place.fails("watch db --from 12", 2, "change token");
    place.fails("watch db nosuch", 1, "there is no keyspace \"nosuch\" in db, which has");
    place.fails("watch db --timeout 1s", 2, "--follow");
    place.ok("watch db --keep 0");
    place.fails("watch db", 2, "flagstone watch db --keep 1GiB makes it keep those");
}

#[test]
fn an_update_changes_more_than_fields() {
    let place = Place::new();
    place.ok(r#"put db c k {"n":1.10,"tags":["a"],"old":1,"low":5,"high":5}"#);
    place.ok("update db c k --inc n=1 --push tags=2 --rename old=new --min low=3 --max high=4");
    place.ok("update db c k --mul low=-2 --unset high x.y=7");
    assert_eq!(
        place.ok("get db c k"),
        "{\"n\":2.10,\"tags\":[\"a\",2],\"new\":1,\"low\":-6,\"x\":{\"y\":7}}\n"
    );
    place.fails("update db c k new=2 --inc tags=1", 2, "does not apply");
    for (args, said) in [
        ("update db c k told=1", "1 document changed\n"),
        ("update db c k told=1", "1 document stays as it is\n"),
        ("update db c k --unset told", "1 document changed\n"),
        ("update db c k --unset told --blind", "the patch is written, without a look"),
    ] {
        let done = place.run(args);
        assert!(done.code == 0 && done.stderr.starts_with(said), "{args}: {done:?}");
    }
    place.fails("update db c k", 2, "required");
    place.ok("update db c k2 --upsert --inc n=1");
    place.ok("update db c k2 --blind --inc n=1");
    place.ok("update db c missing --blind --inc n=1");
    assert_eq!(place.ok("get db c k2"), "{\"n\":2}\n");
    place.fails("get db c missing", 1, "there is no document missing");
}

#[test]
fn an_update_changes_arrays_under_conditions() {
    let place = Place::new();
    place.ok(r#"put db c k {"n":5,"tags":["a","b"]}"#);
    place.ok(r#"update db c k --add-to-set tags="a" --add-to-set tags="c" --if-gte n=5"#);
    place.ok("update db c k --push-at tags=-1:7");
    assert_eq!(place.ok("get db c k --path tags"), "[\"a\",\"b\",7,\"c\"]\n");
    place.ok(r#"update db c k --pull tags="b" --pop-first tags --pop-last tags --if-missing x"#);
    assert_eq!(place.ok("get db c k"), "{\"n\":5,\"tags\":[7]}\n");
    place.fails("update db c k n=1 --if-lt n=5", 1, "does not meet the condition if_lt n 5");
    place.fails("update db c k --push-at tags=x", 2, "expected PATH=POSITION:JSON");
    place.ok(r#"update db c new --default {"n":1} --inc n=1"#);
    place.ok(r#"update db c new --default {"n":1} --inc n=1"#);
    assert_eq!(place.ok("get db c new"), "{\"n\":3}\n");
}

#[test]
fn an_update_takes_a_json_patch_or_a_merge_patch() {
    let place = Place::new();
    place.ok(r#"put db c k {"a":1,"b":{"c":2}}"#);
    place.ok(r#"update db c k --json-patch [{"op":"move","from":"/b/c","path":"/d"}]"#);
    assert_eq!(place.ok("get db c k"), "{\"a\":1,\"b\":{},\"d\":2}\n");
    place.ok(r#"update db c k --merge-patch {"b":null,"a":{"x":1}}"#);
    assert_eq!(place.ok("get db c k"), "{\"a\":{\"x\":1},\"d\":2}\n");
    let failing = r#"update db c k --json-patch [{"op":"test","path":"/d","value":3}]"#;
    place.fails(failing, 1, "test \"/d\": the value differs");
    place.fails(r#"update db c k --json-patch [{"op":"go"}]"#, 2, "/0/op: expected add");
    place.fails(r#"update db c k --merge-patch {} --inc a=1"#, 2, "without other changes");
    place.fails(r#"update db c new --merge-patch {"a":1}"#, 1, "there is no document new");
    place.ok(r#"update db c new --upsert --merge-patch {"a":1,"b":null}"#);
    assert_eq!(place.ok("get db c new"), "{\"a\":1}\n");
}

#[test]
fn the_shell_takes_update_documents_without_quotes() {
    let place = Place::new();
    place.ok(r#"put db c k {"tags":["b"]}"#);
    let script = r#"update c k --update {"$push": {"tags": {"$each": ["a"], "$position": 0}}}
update c --where {"tags": "b"} --update {"$set": {"tags.$": "new b"}}
"#;
    let ran = place.run_with("shell db", script.as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(place.ok("get db c k"), "{\"tags\":[\"a\",\"new b\"]}\n");
}

#[test]
fn a_part_of_a_document_is_got() {
    let place = Place::new();
    place.ok(r#"put db c k {"a":{"b":[1,1.10,{"c":"x"}]}}"#);
    assert_eq!(place.ok("get db c k --path a.b.1"), "1.10\n");
    assert_eq!(place.ok("get db c k --path a.b.2"), "{\"c\":\"x\"}\n");
    assert_eq!(place.ok("get db c k --path a.b.2.c"), "\"x\"\n");
    place.fails("get db c k --path a.x", 1, "there is nothing at a.x");
    assert_eq!(place.ok("get db c k --path /a/b/2/c"), "\"x\"\n");
    assert_eq!(place.ok("get db c k --path $..b[?@>1]"), "1.10\n");
    assert_eq!(place.ok("get db c k --path $.a.b[:2] --path /a/b/0"), "1\n1.10\n1\n");
    let partly = place.run("get db c k --path a.b.0 --path $.x");
    assert_eq!((partly.code, &partly.stdout[..]), (1, "1\n"), "{partly:?}");
    assert!(partly.stderr.contains("there is nothing at $.x in document k"), "{partly:?}");
    place.fails("get db c k --path $.a[", 2, "--path $.a[: ");
    place.fails("get db c k --path /a~2", 2, "--path /a~2: ");
    place.fails("get db c k2 --path a.x", 1, "there is no document k2");
}

#[test]
fn a_document_expires_when_its_put_says_so() {
    let place = Place::new();
    place.ok("put db c stays {}");
    place.ok("put db c late {} --expires 2100-01-01T00:00:00+00:00");
    place.ok("put db c soon {} --expires 1h30m");
    place.ok("put db c gone {} --expires 1ms");
    assert_eq!(place.ok("keys db c"), "late\nsoon\nstays\n");
    place.fails("get db c gone", 1, "there is no document gone");
    place.fails("get db c gone --expires", 1, "there is no document gone");
    assert_eq!(place.ok("get db c stays --expires"), "never\n");
    assert_eq!(place.ok("get db c late --expires"), "2100-01-01T00:00:00Z\n");
    assert!(place.ok("get db c soon --expires").starts_with("20"));
    // An update keeps the expiry, a put does not.
    place.ok("update db c late a=1");
    place.ok("put db c soon {}");
    assert_eq!(place.ok("get db c late --expires"), "2100-01-01T00:00:00Z\n");
    assert_eq!(place.ok("get db c soon --expires"), "never\n");
    place.ok("compact db");
    let stats: Value = serde_json::from_str(&place.ok("stats db --json")).unwrap();
    let keyspace = &stats["keyspaces"][0];
    let levels = keyspace["levels"].as_array().unwrap();
    let expiring: u64 = levels.iter().map(|level| level["expiring"].as_u64().unwrap()).sum();
    assert_eq!((&keyspace["expires"], expiring), (&true.into(), 1));
    assert!(place.ok("stats db").contains("tombstones     expiring"));
}

#[test]
fn a_key_is_any_json_value_when_it_is_said() {
    let place = Place::new();
    for key in ["42", "\"42\"", "[1,\"a\"]", "4.5"] {
        place.ok(&format!("put db c {key} --json-key {{\"k\":{key}}}"));
    }
    assert_eq!(place.ok("get db c 42"), "{\"k\":\"42\"}\n");
    assert_eq!(place.ok("get db c 42 --json-key"), "{\"k\":42}\n");
    assert_eq!(place.ok("get db c 42.0 --json-key"), "{\"k\":42}\n");
    assert_eq!(place.ok("keys db c"), "4.5\n42\n42\n[1,\"a\"]\n");
    assert_eq!(place.ok("keys db c --json-key"), "4.5\n42\n\"42\"\n[1,\"a\"]\n");
    assert_eq!(
        place.ok("scan db c --json-key --from 5 --to [] --keys"),
        "{\"key\":42,\"document\":{\"k\":42}}\n{\"key\":\"42\",\"document\":{\"k\":\"42\"}}\n"
    );
}

#[test]
fn a_scan_keeps_to_its_range_its_direction_and_its_limit() {
    let place = Place::new();
    let lines: String = (0..100).map(|n| format!("{{\"id\":\"k{n:02}\"}}\n")).collect();
    place.file("in.jsonl", &lines);
    place.ok("load db c in.jsonl");
    let scanned = |args: &str| -> Vec<String> {
        let lines = place.ok(&format!("scan db c {args}"));
        lines.lines().map(|line| line[7..10].to_owned()).collect()
    };
    assert_eq!(place.ok("scan db c"), lines);
    assert_eq!(scanned("--from k10 --to k13"), ["k10", "k11", "k12"]);
    assert_eq!(scanned("--from k98"), ["k98", "k99"]);
    assert_eq!(scanned("--to k02 --reverse"), ["k01", "k00"]);
    assert_eq!(scanned("--prefix k5 --limit 2"), ["k50", "k51"]);
    assert_eq!(scanned("--prefix k5 --limit 1 --reverse"), ["k59"]);
    assert_eq!(scanned("--limit 0").len(), 0);
    assert_eq!(scanned("--prefix x").len(), 0);
    place.fails("scan db c --prefix k --from k", 2, "cannot be used with");
}

#[test]
fn a_sample_of_keys_is_reproducible_and_without_repetition() {
    let place = Place::new();
    let lines: String = (0..500).map(|n| format!("{{\"id\":{n}}}\n")).collect();
    place.file("in.jsonl", lines);
    place.ok("load db c in.jsonl");
    let first = place.ok("keys db c --sample 50 --seed 3");
    assert_eq!(place.ok("keys db c --sample 50 --seed 3"), first);
    assert_ne!(place.ok("keys db c --sample 50 --seed 4"), first);
    let mut keys: Vec<u32> = first.lines().map(|key| key.parse().unwrap()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 50);
    assert_eq!(place.ok("keys db c --sample 1000").lines().count(), 500);
}

#[test]
fn upkeep_reports_on_the_database_and_its_files() {
    let place = Place::new();
    place.ok("generate comments --count 3000 --seed 5 --output in.jsonl");
    place.ok("load db c in.jsonl --partitions 2");
    assert_eq!(place.ok("compact db"), "");
    assert!(place.ok("verify db").contains("all checksums, orders and bounds hold"));
    let table = place.ok("stats db");
    assert!(table.contains("scrub          0 rounds, 0 tables whole, 0 damaged"), "{table}");
    assert!(table.contains("c (documents, 2 hash partitions)"), "{table}");
    let stats: Value = serde_json::from_str(&place.ok("stats db --json")).unwrap();
    let keyspace = &stats["keyspaces"][0];
    assert_eq!((&keyspace["name"], &keyspace["partitions"]), (&"c".into(), &2.into()));
    let levels = keyspace["levels"].as_array().unwrap();
    let entries: u64 = levels.iter().map(|level| level["entries"].as_u64().unwrap()).sum();
    assert_eq!(entries, 3000);
    for end in [".sst", ".manifest", "CURRENT"] {
        let files = place.files("db", end);
        let file = files.first().unwrap_or_else(|| panic!("no file {end}"));
        place.ok(&format!("inspect {file}"));
    }
    assert!(place.ok(&format!("inspect {}", place.files("db", ".sst")[0])).contains("entries"));
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let place = Place::new();
    place.ok(r#"put db c k1 {"a":1}"#);
    assert_eq!(place.ok("checkpoint db copies/first"), "");
    place.ok("update db c k1 a=2");
    place.ok("update copies/first c k1 a=3");
    place.ok("compact db");
    assert_eq!(place.ok("get db c k1"), "{\"a\":2}\n");
    assert_eq!(place.ok("get copies/first c k1"), "{\"a\":3}\n");
    place.ok("verify db");
    place.ok("verify copies/first");
    place.fails("checkpoint db copies/first", 2, "new or empty directory");
    place.fails("checkpoint missing copies/second", 3, "there is no database here");
    assert!(!place.path("copies/second").exists());
}

#[test]
fn backups_are_made_listed_checked_dropped_and_restored() {
    let place = Place::new();
    place.ok(r#"put db c k1 {"a":1}"#);
    for value in 2..5 {
        assert_eq!(place.ok("backup db backups"), "");
        place.ok(&format!("update db c k1 a={value}"));
    }
    let listed = place.ok("backup --list backups");
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 4, "{listed}");
    assert!(lines[1].trim_start().starts_with("1  20") && lines[1].contains("Z "), "{listed}");
    assert!(place.ok("backup backups --verify").contains("3 generations"));
    place.ok("restore backups --generation 2 old");
    assert_eq!(place.ok("get old c k1"), "{\"a\":2}\n");
    place.ok("backup db backups --keep 2");
    assert_eq!(place.ok("backup backups --list").lines().count(), 3);
    place.ok("restore backups newest");
    assert_eq!(place.ok("get newest c k1"), "{\"a\":4}\n");
    place.ok("verify newest");
    place.fails("restore backups newest", 2, "new or empty directory");
    place.fails("restore backups other --generation 1", 2, "no generation 1");
    place.fails("backup backups", 2, "expected DB and DIR");
    place.fails("backup missing backups", 3, "there is no database here");
    place.fails("backup db db", 2, "a directory of their own");
    let table = place.files("backups", ".sst").remove(0);
    let mut bytes = std::fs::read(place.path(&table)).unwrap();
    bytes[70] ^= 1;
    place.file(&table, bytes);
    let ran = place.run("backup --verify backups");
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stdout.contains(table.trim_start_matches("backups/")), "{ran:?}");
}

#[test]
fn a_damaged_database_is_repaired_and_the_loss_is_told() {
    let place = Place::new();
    for key in ["k1", "k2"] {
        place.ok(&format!(r#"put db c {key} {{"a":1}}"#));
    }
    assert!(place.ok("repair db").contains("2 tables of"));
    assert_eq!(place.ok("count db.repaired c"), "2\n");
    let table = place.files("db", ".sst").remove(0);
    let mut bytes = std::fs::read(place.path(&table)).unwrap();
    bytes[70] ^= 1;
    place.file(&table, bytes);
    let ran = place.run("repair db --to new");
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stdout.contains("lost: 0") && ran.stdout.contains("keyspace \"c\""), "{ran:?}");
    assert_eq!(place.ok("count new c"), "1\n");
    place.ok("verify new");
    assert!(place.ok("verify --quick new").contains("no block was read"));
    std::fs::remove_file(place.path("new/CURRENT")).unwrap();
    place.fails("count new c", 4, "CURRENT");
    let ran = place.run("repair new --in-place");
    assert!(ran.stdout.contains("set aside: "), "{ran:?}");
    assert_eq!(place.ok("count new c"), "1\n");
    place.fails("repair db --to new", 2, "new or empty directory");
    place.fails("repair db --to other --fold x", 2, "as in 3=add-i64/1");
    place.fails("repair missing", 3, "missing");
}

#[test]
fn generated_comments_depend_on_seed_and_number_alone() {
    let place = Place::new();
    let two = place.ok("generate comments --count 2500 --seed 9 --threads 2");
    let one = place.ok("generate comments --count 2000 --seed 9 --threads 1");
    assert_eq!(two.lines().count(), 2500);
    assert!(two.starts_with(&one));
    assert_ne!(place.ok("generate comments --count 2000 --seed 8"), one);
    place.ok("generate comments --count 2000 --seed 9 --output out.jsonl");
    assert_eq!(place.read("out.jsonl"), one);
}

#[test]
fn a_key_that_is_there_in_another_form_is_hinted_at() {
    let place = Place::new();
    place.ok("put db c 7 --json-key {\"n\":1}");
    place.ok("put db c 8 {}");
    for command in ["get db c 7", "get db c 7 --path n", "delete db c 7", "update db c 7 n=2"] {
        place.fails(command, 1, "there is no document 7 in c; with --json-key there is one\n");
    }
    place.fails("get db c 8 --json-key", 1, "; without --json-key there is one\n");
    place.fails("get db c 9", 1, "there is no document 9 in c\n");
    // A key may look like an option if it is given as JSON.
    place.ok("put db c --json-key '\"--x\"' {}");
    assert!(place.ok("keys db c").contains("--x\n"));
}

#[test]
fn a_reader_that_goes_away_ends_a_command_quietly() {
    let place = Place::new();
    place.ok("generate comments --count 3000 --output in.jsonl");
    place.ok("load db c in.jsonl");
    for args in ["scan db c", "keys db c", "generate comments --count 100000"] {
        let mut child = place.command(args).spawn().unwrap();
        let mut start = [0; 10];
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut start).unwrap();
        drop(stdout);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(ended.stderr).unwrap(), "", "{args}");
        assert_eq!(ended.status.code(), Some(0), "{args}");
    }
}

#[test]
fn the_demo_finds_every_answer_right() {
    let place = Place::new();
    let said = place.ok("demo --count 2000 --dir demo --keep");
    assert!(said.contains("all answers were right"), "{said}");
    assert!(!said.contains("WRONG"), "{said}");
    assert_eq!(place.ok("count demo comments"), "2000\n");
    place.fails("demo --count 2000 --dir demo", 2, "demo is not empty");
    place.ok("demo --count 10 --keep");
    place.ok("put flagstone-demo comments k {\"n\":1}");
    place.fails("demo --count 10", 2, "flagstone-demo was kept: name another directory");
    assert_eq!(place.ok("get flagstone-demo comments k"), "{\"n\":1}\n");
    // As a killed demo leaves it.
    let left = Database::open(place.path("flagstone-demo")).unwrap();
    drop(left.keyspace("flagstone.demo").unwrap());
    left.close().unwrap();
    // What others have put there is not the demo's to remove.
    place.ok("put flagstone-demo mine k {\"n\":1}");
    place.fails("demo --count 10", 2, "has more than an earlier demo's documents (\"mine\")");
    assert_eq!(place.ok("get flagstone-demo mine k"), "{\"n\":1}\n");
    place.ok("drop flagstone-demo mine");
    place.ok("demo --count 10");
    assert!(!place.path("flagstone-demo").exists());
}

#[test]
fn help_is_data() {
    let place = Place::new();
    for command in ["", "load ", "demo ", "generate comments "] {
        assert!(place.ok(&format!("{command}--help")).contains("Usage: flagstone"));
    }
    assert!(place.ok("--version").starts_with("flagstone "));
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.ok(&format!("completions {shell}"));
        for word in ["checkpoint", "bad-lines", "durability"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert!(!script.contains("numInsertionWorkers"), "spellings of others stay hidden");
    }
    place.fails("completions csh", 2, "invalid value");
    let page = place.ok("man");
    assert!(page.contains(".TH flagstone 1") && page.contains("flagstone\\-load(1)"), "{page}");
    assert_eq!(place.ok("man --dir pages/man1"), "");
    let pages = place.files("pages/man1", ".1");
    assert!(pages.contains(&"pages/man1/flagstone-generate-comments.1".to_owned()), "{pages:?}");
    assert!(place.read("pages/man1/flagstone-load.1").contains("\\-\\-bad\\-lines"));
    place.file("file", "");
    place.fails("man --dir file", 3, "cannot create file");
}

#[test]
fn a_shell_runs_commands_on_one_open_database() {
    let place = Place::new();
    place.ok("put db c k1 {\"a\":1}");
    place.ok("put db other k {}");
    let text = "put c k2 {\"a b\":\n  [1, 2]}   # a comment\n\nput c 'k 3' {}\n\
                scan c \\\n --keys\ncollections --names\nupdate c k1 a=2\nget c k1\n\
                compact\nstats\n";
    let ran = place.run_with("shell db", text.as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    let expected = "{\"key\":\"k 3\",\"document\":{}}\n{\"key\":\"k1\",\"document\":{\"a\":1}}\n\
                    {\"key\":\"k2\",\"document\":{\"a b\":[1,2]}}\nc\nother\n{\"a\":2}\n";
    let rest = ran.stdout.strip_prefix(expected);
    assert!(rest.is_some_and(|stats| stats.contains("c (documents, ")), "{ran:?}");
    // It was closed, and what it wrote is there.
    assert_eq!(place.ok("count db c"), "3\n");
    let script = b"help\nhelp scan\nfind --help\ncount c ;\nget c k1;\nexit\ncount nothing\n";
    let help = place.run_with("shell db --read-only", script);
    assert_eq!(help.code, 0, "{help:?}");
    assert!(help.stdout.contains("without the name of the database"), "{help:?}");
    assert!(help.stdout.contains("--reverse") && help.stdout.contains("\n  distinct "), "{help:?}");
    assert!(help.stdout.contains("Usage: find [OPTIONS] <COLLECTION> [FILTER]\n"), "{help:?}");
    assert!(!help.stdout.contains("<DB>") && !help.stdout.contains("directory of the database"));
    assert!(help.stdout.ends_with("\n3\n{\"a\":2}\n"), "{help:?}");
}

/// `put c k hello` was an error of the JSON, and `"42"` the number.
#[test]
fn text_needs_no_quotes_in_a_shell() {
    let place = Place::new();
    place.ok("put db c k {}");
    let script = "put c a hello\nput c b \"hello world\"\nput c c \"42\"\nput c d 42\n\
                  put c \"k 5\" 'it is \"so\"'\nput c f {\"a\": [1]}\n\
                  update c f town=London zip=\"01234\" n=7 b=true --push a=x --rename n=m\n\
                  update c --where {\"town\":\"London\"} town=\"New York\" --add-to-set=a=y\n\
                  get c f\nput c --json-key 7 no\n";
    let ran = place.run_with("shell db", script.as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(
        ran.stdout,
        "{\"a\":[1,\"x\",\"y\"],\"town\":\"New York\",\"zip\":\"01234\",\"m\":7,\"b\":true}\n"
    );
    let expected = [
        ("a", "\"hello\""),
        ("b", "\"hello world\""),
        ("c", "\"42\""),
        ("d", "42"),
        ("'k 5'", "\"it is \\\"so\\\"\""),
        ("7 --json-key", "\"no\""),
    ];
    for (key, value) in expected {
        assert_eq!(place.ok(&format!("get db c {key}")), format!("{value}\n"));
    }
    for (line, text) in [
        ("put c k {\"a\":}", "line 1, column 6"),
        ("update c a x=[1", "a bracket is open"),
        ("update c a x=[1 1]", "the value: JSON, line 1, column 4"),
        ("update c f x='[1'", "x=[1"),
        ("put c k", "a shell reads commands from stdin"),
        ("update c f --merge-patch -", "a shell reads commands from stdin"),
        ("load c -\n{\"id\":1}", "expected a file: a shell reads commands from stdin"),
        ("load new /dev/stdin\n{\"id\":1}", "expected a file: a shell reads commands from stdin"),
        ("load new /dev/fd/0 --type csv", "expected a file: a shell reads commands from stdin"),
        ("watch --keep 1MiB", "--keep works outside of the shell"),
    ] {
        let ran = place.run_with("shell db", format!("{line}\n").as_bytes());
        assert!(ran.code == 2 && ran.stderr.contains(text), "{line}: {ran:?}");
    }
}

#[test]
fn a_misspelled_name_is_told_the_right_one() {
    let place = Place::new();
    for name in ["comments", "users"] {
        place.ok(&format!("put db {name} k {{\"a\":1}}"));
    }
    place.ok("index create db users by_age a");
    place.ok("watch db --keep 1MiB");
    place.fails("count db commnets", 1, "which has comments, users; did you mean comments?");
    place.fails("find db user", 1, "did you mean users?");
    place.fails("drop db Users", 1, "did you mean users?");
    place.fails("watch db usres", 1, "did you mean users?");
    place.fails("index drop db users by_aeg", 1, "which has by_age; did you mean by_age?");
    place.fails("find db users --index by_ag", 2, "did you mean by_age?");
    place.fails("cuont db users", 2, "'count'");
    place.fails("find db users --sotr a", 2, "'--sort'");
    let ran = place.run_with("shell db", b"exprot users\n");
    assert!(ran.code == 2 && ran.stderr.contains("'export'"), "{ran:?}");
    let ran = place.run_with("shell db", b"count usres\n");
    assert!(ran.code == 1 && ran.stderr.contains("did you mean users?"), "{ran:?}");
}

#[test]
fn a_script_of_a_shell_ends_at_the_first_command_that_fails() {
    let place = Place::new();
    place.fails("shell db", 3, "there is no database here");
    place.ok("put db c k {}");
    for (script, code, text) in [
        ("get c missing\n", 1, "there is no document missing"),
        ("frobnicate c\n", 2, "unrecognized subcommand 'frobnicate'"),
        ("scan c --limit x\n", 2, "invalid value 'x' for '--limit <N>'"),
        ("backup dir\n", 2, "backup works outside of the shell"),
        ("shell db\n", 2, "shell works outside of the shell"),
        ("help nothing\n", 2, "there is no command nothing"),
        ("index\n", 2, "expected one of these after index: create, list, drop"),
        ("index creat c x a\n", 2, "unrecognized subcommand 'creat'"),
        ("put c k {\"a\":\n", 2, "a quote or a bracket is open"),
    ] {
        let ran = place.run_with("shell db", format!("count c\n{script}count c\n").as_bytes());
        assert_eq!((ran.code, &ran.stdout[..]), (code, "1\n"), "{script}: {ran:?}");
        assert!(ran.stderr.contains(text) && !ran.stderr.contains("Usage"), "{script}: {ran:?}");
    }
    let refused = place.run_with("shell db --read-only", b"put c k2 {}\n");
    assert_eq!(refused.code, 2, "{refused:?}");
}

/// `update DB c KEY --where FILTER` with a `=` in the key took it for a change of all that match.
#[test]
fn a_key_that_looks_like_a_change_is_not_one_beside_a_filter() {
    let place = Place::new();
    place.ok("put db c a=1 {\"v\":1}");
    place.ok("put db c b {\"v\":1}");
    let refused = "is the key of a document, and beside --where a change";
    place.fails("update db c a=1 --where {\"v\":1} v=2", 2, refused);
    place.ok("update db c --where {\"v\":1} v=2 a=1");
    assert_eq!(place.ok("get db c b"), "{\"v\":2,\"a\":1}\n");
}

/// `--bad-lines db/CURRENT` emptied that file, and so did the name of a table of a backup, also if
/// no line was bad. Files of other names were left in the directories.
#[test]
fn output_does_not_go_to_the_directory_of_a_database_or_of_backups() {
    let place = Place::new();
    place.ok("put db c k {}");
    place.ok("backup db backups");
    place.file("in.jsonl", "{}\n");
    let table = place.files("backups", ".sst").remove(0);
    for (file, what) in [
        ("db/CURRENT", "a database"),
        ("db/new", "a database"),
        ("backups/LOCK", "backups"),
        ("backups/000001.backup", "backups"),
        ("backups/new", "backups"),
        (table.as_str(), "backups"),
    ] {
        let refused = format!("{file} is in the directory of {what}: expected a file elsewhere");
        place.fails(&format!("load db c in.jsonl --bad-lines {file}"), 2, &refused);
        place.fails(&format!("export db c -o {file}"), 2, &refused);
    }
    place.fails(
        "checkpoint db backups/copy",
        2,
        "backups: expected another place for a checkpoint",
    );
    place.ok("verify db");
    place.ok("backup backups --verify");
}

/// A restore from a backup that lacks a table was an error of reading, unlike its `verify`, and
/// left a lock file.
#[test]
fn a_restore_that_fails_leaves_an_empty_directory() {
    let place = Place::new();
    place.ok("put db c k {}");
    place.ok("backup db backups");
    let table = place.files("backups", ".sst").remove(0);
    std::fs::remove_file(place.path(&table)).unwrap();
    assert_eq!(place.run("backup backups --verify").code, 4);
    place.fails("restore backups new", 4, "the generation needs this table, and it is missing");
    assert!(place.files("new", "").is_empty());
}

/// Directories of the names `mongodb:` and `file:` were made.
#[test]
fn a_directory_is_not_made_for_what_begins_as_a_url() {
    let place = Place::new();
    for database in ["mongodb:/x", "file:///x", "localhost:/x"] {
        place.fails(&format!("put {database} c k {{}}"), 2, "expected a directory, or a URL");
    }
    assert!(place.files(".", "").is_empty());
    place.ok("put ./file:/x c k {}");
    assert_eq!(place.ok("count file:/x c"), "1\n");
    place.ok("put file:/x c l {}");
    place.fails("delete file:/x c '' --where {}", 2, "the key \"\" and --where are given");
}

/// The head of the table was printed before the error.
#[test]
fn backups_that_cannot_be_listed_print_nothing() {
    Place::new().fails("backup none --list", 3, "none");
}

/// Tables of level 0 with versions of the same key were said to take no more space than its newest.
#[test]
fn stats_claim_no_bound_of_space_for_tables_that_may_overlap() {
    let place = Place::new();
    place.ok("put db c a {\"v\":1}");
    assert!(place.ok("stats db").contains("space at most 1.00x"));
    place.ok("put db c a {\"v\":2}");
    assert!(place.ok("stats db").contains("space at most -"));
    place.ok("compact db");
    assert!(place.ok("stats db").contains("space at most 1.00x"));
}

/// A JSONPath was taken for the name of a field, and the change reported as done.
#[test]
fn changes_take_dotted_paths_alone() {
    let place = Place::new();
    let start = "{\"id\":\"a\",\"z\":5,\"s\":[1],\"$ref\":1}";
    for (changes, plain) in [
        ("'$.z=1'", "z=1"),
        ("--inc '$.z=1'", "--inc z=1"),
        ("--mul $.z=2", "--mul z=2"),
        ("--unset '$.z'", "--unset z"),
        ("--rename $.z=$.y", "--rename z=y"),
        ("--push '$.s=2'", "--push s=2"),
        ("--push-at '$.s=0:2'", "--push-at s=0:2"),
        ("--pop-first $.s", "--pop-first s"),
        ("--min $.z=1 --max $.z=3", "--min z=1 --max z=3"),
        ("--if-eq '$.z=5' $.z=6", "--if-eq z=5 z=6"),
        ("--if-exists $.z z=7", "--if-exists z z=7"),
        ("$ref=2", "$ref=2"),
    ] {
        for db in ["one", "two"] {
            place.ok(&format!("put {db} c a {start}"));
        }
        place.ok(&format!("update one c a {changes}"));
        place.ok(&format!("update two c a {plain}"));
        assert_eq!(place.ok("get one c a"), place.ok("get two c a"), "{changes}");
        assert_ne!(place.ok("get one c a"), format!("{start}\n"), "{changes}");
    }
    place.ok("update one c --where {} --yes $.w=1");
    assert!(place.ok("get one c a").ends_with(",\"w\":1}\n"));
    place.ok(&format!("put one c a {start}"));
    for change in [
        "$[\"a.b\"]=1",
        "$.tags[0]=1",
        "$..tags=1",
        "$.*=1",
        "$.$[0]=1",
        "$=1",
        "/z=1",
        "--unset $[0]",
        "--rename z=$[0]",
        "--if-eq /z=5 z=1",
        "--inc /z=1",
        "--where {} /z=1",
    ] {
        let key = if change.starts_with("--where") { "" } else { "a " };
        place.fails(&format!("update one c {key}{change}"), 2, "expected a dotted path");
        assert_eq!(place.ok("get one c a"), format!("{start}\n"), "{change}");
    }
}

/// An index on a field named `v,s` was created, and no query used it; a path with a comma in a name
/// was cut there.
#[test]
fn a_comma_is_between_fields_or_in_brackets() {
    let place = Place::new();
    place.ok("put db c k {\"v\":1,\"s\":2,\"a,c\":3}");
    let text = "\"v,s\": expected one field, found a comma: give several as arguments of their own";
    place.fails("index create db c i v,s", 2, text);
    place.fails("index create db c i -- -v,s", 2, "expected one field");
    assert_eq!(place.ok("index list db c"), "");
    let name = "$[\"a,c\"]";
    place.ok(&format!("index create db c i v -{name} lower({name})"));
    assert!(place.ok("index list db c").starts_with("i"));
    let csv = place.ok(&format!("export db c --type csv --fields v,{name} --fields s"));
    assert_eq!(csv, "v,\"$[\"\"a,c\"\"]\",s\n1,3,2\n");
}

/// Where the repaired database went depended on how the path was written: `repair db/` put it into
/// the damaged one.
#[test]
fn a_repaired_database_is_beside_the_damaged_one() {
    let place = Place::new();
    place.ok("put db c k {\"a\":1}");
    let mut ways = vec![("db", "."), ("db/", "."), ("./db//", "."), (".", "db"), ("../db/.", "db")];
    #[cfg(unix)]
    {
        std::fs::create_dir(place.path("sub")).unwrap();
        std::os::unix::fs::symlink("../db", place.path("sub/link")).unwrap();
        ways.push(("link", "sub"));
    }
    let before = place.files("db", "");
    for (path, folder) in ways {
        let mut command = place.command(&format!("repair {path}"));
        let ended = command.current_dir(place.path(folder)).output().unwrap();
        assert!(ended.status.success(), "{path}: {ended:?}");
        assert_eq!(place.ok("get db.repaired c k"), "{\"a\":1}\n", "{path}");
        std::fs::remove_dir_all(place.path("db.repaired")).unwrap();
    }
    assert_eq!(place.files("db", ""), before);
    place.ok("backup db all");
    for args in [
        "repair db --to db/r",
        "repair db --to ./db/x/../y/r",
        "checkpoint db db/cp",
        "checkpoint db db//./cp/deep",
        "backup db db/sub",
        "restore all all/db",
    ] {
        place.fails(args, 2, " is inside of ");
    }
    // The commands that open the database for writing have written a manifest.
    for inside in ["db/r", "db/x", "db/y", "db/cp", "db/sub", "all/db"] {
        assert!(!place.path(inside).exists(), "{inside}");
    }
}

#[test]
fn a_script_may_begin_with_a_byte_order_mark_and_exit_takes_no_code() {
    let place = Place::new();
    let put = place.run_with("put db c k", "\u{feff}{\"a\":1}".as_bytes());
    assert_eq!(put.code, 0, "{put:?}");
    let script = "\u{feff}count c\nput c p \"C:\\\\new\"\nget c p\n";
    let ended = place.run_with("shell db", script.as_bytes());
    assert_eq!((ended.code, &*ended.stdout), (0, "1\n\"C:\\\\new\"\n"), "{ended:?}");
    let ended = place.run_with("shell db", b"count c\nexit 5\n");
    assert!(ended.code == 2 && ended.stderr.contains("exit has no arguments"), "{ended:?}");
    // Text with a wrong escape was stored as it was, and text with a right one as it meant.
    let ended = place.run_with("shell db", b"put c u \"C:\\users\"\n");
    assert!(ended.code == 2 && ended.stderr.contains("the document: "), "{ended:?}");
}

/// The parser of arguments does not look whether its help was written.
#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_is_a_failure() {
    let place = Place::new();
    for args in ["--help", "help load", "--version", "load --help"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = place.command(args).stdout(full).output().unwrap();
        let ended = crate::run::ran(ended);
        assert!(ended.code == 3 && ended.stderr.contains("cannot write to stdout"), "{ended:?}");
    }
    assert_eq!(place.run("no-such-command").code, 2);
}
