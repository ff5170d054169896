//! A kill in the middle of a load: acknowledged documents are there afterwards.

use crate::run::{Place, ran, wait_until_locked};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// Loads an endless stream of comments. Returns the load and the thread that feeds it.
fn endless_load(place: &Place, options: &str) -> (Child, JoinHandle<()>) {
    let mut command = place.command(&format!("load db c - --progress json {options}"));
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        let comments = flagstone_comments::Comments::new(1);
        let mut lines = Vec::new();
        for start in (0..).step_by(500) {
            lines.clear();
            comments.write_lines(start..start + 500, &mut lines);
            if stdin.write_all(&lines).is_err() {
                return;
            }
        }
    });
    (child, feeder)
}

/// Waits until this many documents were acknowledged. Returns their last number.
fn wait_for(child: &mut Child, documents: u64) -> u64 {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    loop {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let acknowledged = line["documents"].as_u64().unwrap();
        if acknowledged >= documents {
            return acknowledged;
        }
    }
}

/// Checks that every document is the generator's, and with `is_prefix` that there are no gaps.
fn check(place: &Place, acknowledged: u64, is_prefix: bool) {
    let comments = flagstone_comments::Comments::new(1);
    assert!(place.ok("verify db").contains("hold"));
    let scanned = place.ok("scan db c");
    let mut generated = Vec::new();
    let mut found = 0;
    for line in scanned.lines() {
        let document: Value = serde_json::from_str(line).unwrap();
        let number = comments.number(document["id"].as_str().unwrap().as_bytes()).unwrap();
        assert!(!is_prefix || number == found, "{number} at place {found}");
        generated.clear();
        comments.write(number, &mut generated);
        assert_eq!(document, serde_json::from_slice::<Value>(&generated).unwrap());
        found += 1;
    }
    assert!(found >= acknowledged, "{found} of {acknowledged} acknowledged documents");
    println!("{acknowledged} acknowledged, {found} found");
}

#[test]
fn what_a_killed_load_has_acknowledged_is_there() {
    for (options, is_prefix) in [
        ("--memory 16MiB --readers 1 --parsers 1 --writers 1", true),
        ("--memory 16MiB --durability group --writers 3", false),
    ] {
        let place = Place::new();
        let (mut child, feeder) = endless_load(&place, options);
        let acknowledged = wait_for(&mut child, 3000);
        child.kill().unwrap();
        child.wait().unwrap();
        feeder.join().unwrap();
        for log in place.files("db", ".wal") {
            place.ok(&format!("inspect {log}"));
        }
        check(&place, acknowledged, is_prefix);
        // The database takes documents again.
        place.file("in.jsonl", "{\"id\":\"~\"}");
        place.ok("load db c in.jsonl");
        place.ok("delete db c ~");
        check(&place, acknowledged, is_prefix);
    }
}

#[test]
fn ctrl_c_leaves_a_database_that_opens_and_says_how_far_it_came() {
    let place = Place::new();
    let (mut child, feeder) = endless_load(&place, "--memory 16MiB --parsers 1 --writers 1");
    let acknowledged = wait_for(&mut child, 1000);
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signal.success());
    let ended = ran(child.wait_with_output().unwrap());
    feeder.join().unwrap();
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(ended.stderr.contains("documents loaded into c of db"), "{ended:?}");
    assert!(ended.stderr.contains("stopped before the end; the database is closed"), "{ended:?}");
    let last: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    let told = last["documents"].as_u64().unwrap();
    assert!(told >= acknowledged);
    assert_eq!(place.ok("count db c"), format!("{told}\n"));
    check(&place, told, true);
}

#[test]
fn ctrl_c_ends_a_load_that_waits_for_its_input() {
    let place = Place::new();
    let mut command = place.command("load db c -");
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    // It listens for the signal as soon as the database is open.
    wait_until_locked(&place, child.id());
    std::thread::sleep(std::time::Duration::from_millis(300));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ended = ran(child.wait_with_output().unwrap());
    drop(stdin);
    assert_eq!(ended.code, 130, "{ended:?}");
    // As one that failed, it leaves no empty collection and no empty database.
    assert!(!place.path("db").exists());
}

#[test]
fn a_killed_load_continues_where_it_was_and_loads_each_document_once() {
    let place = Place::new();
    let options = "--mode insert --resume --memory 16MiB --writers 3";
    let (mut child, feeder) = endless_load(&place, options);
    let acknowledged = wait_for(&mut child, 3000);
    child.kill().unwrap();
    child.wait().unwrap();
    feeder.join().unwrap();
    let before: u64 = place.ok("count db c").trim().parse().unwrap();
    assert!(before >= acknowledged);
    // The writers may be 32 MiB of input apart, but not 30,000 comments.
    let all = before + 30_000;
    let mut lines = Vec::new();
    flagstone_comments::Comments::new(1).write_lines(0..all, &mut lines);
    let load = format!("load db c - --progress json {options}");
    let ended = place.run_with(&load, &lines);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.contains("continued at byte"), "{ended:?}");
    let last: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["documents"], &last["existing_documents"]), (&30_000.into(), &0.into()));
    check(&place, all, true);
    // It is complete: the next one begins at the start.
    let again = place.run_with(&load, &lines);
    let last: Value = serde_json::from_str(again.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["documents"], &last["existing_documents"]), (&0.into(), &all.into()));
}

/// Kills lost copies of bad lines, whose documents behind them were marked as loaded, and wrote
/// others twice: 93 of 20,000 lines were in neither place.
#[test]
fn a_load_that_is_killed_often_has_every_line_once() {
    const LINES: usize = 12_000;
    let place = Place::new();
    let line = |n: usize| match n % 20 {
        19 => format!("{{bad {n}\n"),
        _ => format!("{{\"id\":{n},\"text\":\"{}\"}}\n", "x".repeat(n * 7 % 300)),
    };
    let text = |range: std::ops::Range<usize>| range.map(line).collect::<String>();
    place.file("a.jsonl", text(0..LINES / 2));
    place.file("b.zst", zstd::encode_all(text(LINES / 2..LINES).as_bytes(), 1).unwrap());
    for (db, options) in
        [("one", "--writers 1"), ("three", "--writers 3 --readers 2 --memory 8MiB")]
    {
        let load = format!("load {db} c a.jsonl b.zst --resume --bad-lines {db}.txt {options}");
        let mut rng = flagstone_testkit::Rng::new(flagstone_testkit::seed("kills", 1));
        let mut kills = 0;
        for round in 0..200 {
            let mut child = place.command(&load).stderr(Stdio::null()).spawn().unwrap();
            let patience = std::time::Duration::from_millis(20 + rng.below(60 + 4 * round));
            std::thread::sleep(patience);
            let is_done = child.try_wait().unwrap().is_some();
            child.kill().unwrap();
            child.wait().unwrap();
            if is_done {
                break;
            }
            kills += 1;
        }
        place.ok(&load);
        let bad = place.read(&format!("{db}.txt"));
        let mut bad: Vec<&str> = bad.lines().skip(1).step_by(2).collect();
        let copied = bad.len();
        bad.sort_unstable();
        bad.dedup();
        assert_eq!((copied, bad.len()), (LINES / 20, LINES / 20), "{db} after {kills} kills");
        assert_eq!(place.ok(&format!("count {db} c")), format!("{}\n", LINES / 20 * 19), "{db}");
        place.ok(&format!("verify {db}"));
    }
}
