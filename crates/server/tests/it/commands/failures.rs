//! A disk that fails: the error of a write names it, and reads go on.

use super::{Fixture, parse};
use flagstone::admin::Environment;
use flagstone::internal::env::names::FileKind;
use flagstone::internal::env::{Effect, Failure, Fault, FaultDisk, MemDisk, Op};
use flagstone::{Database, Document, Options, Space, doc};
use flagstone_server::command::{Service, ServiceOptions};
use std::sync::Arc;

fn on_faulty_disk() -> (FaultDisk, Fixture) {
    let disk = FaultDisk::new(Arc::new(MemDisk::default()));
    let environment = Environment { disk: Arc::new(disk.clone()), ..Environment::default() };
    let mut options = Options::new();
    options.memory_budget = 8 << 20;
    let db = Database::builder("db").options(options).environment(environment).open().unwrap();
    let service = Service::new(db, ServiceOptions::default()).unwrap();
    let client = service.client("here".to_owned(), "here".to_owned(), true);
    (disk, Fixture { _dir: None, service, client })
}

fn run(fixture: &mut Fixture, command: &str) -> Document {
    fixture.service.run(&mut fixture.client, "test", &parse(command)).unwrap()
}

#[track_caller]
fn reads_go_on(fixture: &mut Fixture) {
    let found = run(fixture, r#"{"find":"c","filter":{"_id":1}}"#);
    assert_eq!(found.int("cursor.firstBatch.0._id"), Some(1), "{found}");
}

#[test]
fn a_full_disk_is_named_and_writes_go_on_when_it_is_not_full() {
    let (disk, mut fixture) = on_faulty_disk();
    run(&mut fixture, r#"{"insert":"c","documents":[{"_id":1}]}"#);
    let full = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Append]);
    disk.inject(full.of(FileKind::Wal).forever());
    let refused = run(&mut fixture, r#"{"insert":"c","documents":[{"_id":2}]}"#);
    assert_eq!((refused.float("ok"), refused.int("code")), (Some(0.0), Some(14031)), "{refused}");
    assert_eq!(refused.str("codeName"), Some("OutOfDiskSpace"));
    reads_go_on(&mut fixture);
    disk.heal();
    let inserted = run(&mut fixture, r#"{"insert":"c","documents":[{"_id":2}]}"#);
    assert_eq!(inserted.int("n"), Some(1), "{inserted}");
}

#[test]
fn a_sync_that_fails_is_named_by_all_writes_after_it() {
    let (disk, mut fixture) = on_faulty_disk();
    run(&mut fixture, r#"{"insert":"c","documents":[{"_id":1}]}"#);
    let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Sync]);
    disk.inject(fault.of(FileKind::Wal).forever());
    for id in 2..4 {
        let refused = run(
            &mut fixture,
            &format!(
                r#"{{"insert":"c","documents":[{{"_id":{id}}}],"writeConcern":{{"w":"majority"}}}}"#
            ),
        );
        let text = refused.str("errmsg").unwrap_or_default();
        assert_eq!(refused.float("ok"), Some(0.0), "{refused}");
        assert!(text.contains("sync") || text.contains("poisoned"), "{refused}");
    }
    reads_go_on(&mut fixture);
}

#[test]
fn writers_that_would_wait_for_ever_are_told_for_what() {
    let (disk, mut fixture) = on_faulty_disk();
    run(&mut fixture, r#"{"insert":"c","documents":[{"_id":1}]}"#);
    let full = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Create]);
    disk.inject(full.of(FileKind::Table).forever());
    let text = "x".repeat(100_000);
    let refused = (2..1000).find_map(|id| {
        let insert = format!(r#"{{"insert":"c","documents":[{{"_id":{id},"t":"{text}"}}]}}"#);
        let reply = run(&mut fixture, &insert);
        (reply.float("ok") == Some(0.0)).then_some(reply)
    });
    let refused = refused.unwrap();
    assert_eq!(refused.int("code"), Some(14031), "{refused}");
    assert!(refused.str("errmsg").unwrap().contains("wait for a flush that fails"), "{refused}");
    reads_go_on(&mut fixture);
}

/// `$out` takes a collection from its place before another one takes it. A server that ended in
/// between had lost both, and one that began took `a.system.out.b` for what `$out` had left.
#[test]
fn a_start_puts_back_what_was_not_replaced_and_drops_only_what_is_hidden() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    for name in
        ["system.old.01.orders", "a.system.out.b", "system.out.02", "system.old.03.kept", "kept"]
    {
        db.collection(&format!("shop.{name}")).unwrap();
    }
    let _service = Service::new(db.clone(), ServiceOptions::default()).unwrap();
    let names = db.keyspaces().into_iter().map(|keyspace| keyspace.name);
    let mut names: Vec<_> = names.filter(|name| name.starts_with("shop.")).collect();
    names.sort();
    assert_eq!(names, ["shop.a.system.out.b", "shop.kept", "shop.orders"]);
}

/// A collection of the database `main` came back as the keyspace `main.orders`, in which drivers
/// look for nothing.
#[test]
fn a_start_puts_back_what_was_not_replaced_in_the_database_main() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    // The server ended before the new one came, and after that.
    for (name, text) in [
        ("main.system.old.01.orders", "old"),
        ("main.system.out.02", "new"),
        ("main.system.old.03.items", "old"),
        ("items", "new"),
    ] {
        db.collection(name).unwrap().put(1, doc!({ "t": text })).unwrap();
    }
    let service = Service::new(db.clone(), ServiceOptions::default()).unwrap();
    let mut client = service.client("here".to_owned(), "here".to_owned(), true);
    let mut run = |command: &str| service.run(&mut client, "main", &parse(command)).unwrap();
    for (name, text) in [("orders", "old"), ("items", "new")] {
        let found = run(&format!(r#"{{"find":"{name}"}}"#));
        assert_eq!(found.str("cursor.firstBatch.0.t"), Some(text), "{name}: {found}");
    }
    let listed = run(r#"{"listCollections":1,"nameOnly":true}"#).to_json().unwrap();
    assert_eq!(listed.matches(r#""name""#).count(), 2, "{listed}");
    assert!(db.keyspaces().iter().all(|keyspace| !keyspace.name.starts_with("main.")));
}

/// A write that created the collection between its removal and the new one's arrival left the new
/// one hidden, and the old one gone.
#[test]
fn out_replaces_a_collection_that_others_create_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let service = Service::new(db, ServiceOptions::default()).unwrap();
    let client = || service.client("here".to_owned(), "here".to_owned(), true);
    let mut own = client();
    let mut run = |command: &str| service.run(&mut own, "test", &parse(command)).unwrap();
    run(r#"{"insert":"from","documents":[{"_id":"new"}]}"#);
    let has_ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut other = client();
            while !has_ended.load(std::sync::atomic::Ordering::Relaxed) {
                // It fails when its collection is replaced.
                let insert = parse(r#"{"insert":"to","documents":[{}]}"#);
                let _told = service.run(&mut other, "test", &insert);
            }
        });
        for round in 0..30 {
            let reply = run(r#"{"aggregate":"from","pipeline":[{"$out":"to"}],"cursor":{}}"#);
            if reply.float("ok") != Some(1.0) {
                has_ended.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            assert_eq!(reply.float("ok"), Some(1.0), "{round}: {reply}");
            let found = run(r#"{"find":"to","filter":{"_id":"new"}}"#);
            assert_eq!(found.str("cursor.firstBatch.0._id"), Some("new"), "{round}: {found}");
        }
        has_ended.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Each expression of a projection had a copy of all variables, in memory that nothing bounded.
#[test]
fn the_copies_of_variables_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let service = Service::new(db, ServiceOptions::default()).unwrap();
    let mut client = service.client("here".to_owned(), "here".to_owned(), true);
    let fields = (0..100).map(|n| format!(r#""f{n}":"$$x""#)).collect::<Vec<_>>().join(",");
    let text = "x".repeat(1 << 20);
    let find =
        format!(r#"{{"find":"c","filter":{{}},"let":{{"x":"{text}"}},"projection":{{{fields}}}}}"#);
    let reply = service.run(&mut client, "test", &parse(&find)).unwrap();
    assert_eq!(reply.int("code"), Some(146), "{reply}");
}

/// The rows of a window are in memory. The error did not say what the limit comes from.
#[test]
fn the_limit_of_a_window_is_named_with_its_flag() {
    let mut options = Options::new();
    options.memory_budget = 16 << 20;
    let mut fixture = Fixture::with(options);
    let text = "x".repeat(1 << 18);
    for n in 0..6 {
        let insert = format!(r#"{{"insert":"c","documents":[{{"_id":{n},"t":"{text}"}}]}}"#);
        run(&mut fixture, &insert);
    }
    for last in ["", r#",{"$out":"d"}"#] {
        let window = format!(
            r#"{{"aggregate":"c","cursor":{{}},"pipeline":[{{"$setWindowFields":
                {{"sortBy":{{"_id":1}},"output":{{"n":{{"$sum":1}}}}}}}}{last}]}}"#
        );
        let reply = run(&mut fixture, &window);
        assert_eq!(reply.int("code"), Some(146), "{reply}");
        let said = reply.str("errmsg").unwrap();
        assert!(said.contains("at most the 1048576 bytes of memory"), "{said}");
        assert!(said.contains("(a 16th of --memory, from 1 to 64 MiB)"), "{said}");
    }
}

/// The text of a key made the server run the command again, and fail as a whole.
#[test]
fn a_key_is_not_taken_for_the_error_of_a_dropped_collection() {
    for key in ["was dropped from the cluster", "\\\" was dropped from the cluster"] {
        let insert = format!(r#"{{"insert":"c","documents":[{{"_id":"{key}"}}]}}"#);
        for mut fixture in [Fixture::new(), super::cluster::there(&Arc::default())] {
            assert_eq!(fixture.run("shop", &insert).int("n"), Some(1));
            let again = fixture.run("shop", &insert);
            assert_eq!(again.float("ok"), Some(1.0), "{again}");
            assert_eq!(again.int("writeErrors.0.code"), Some(11000), "{again}");
        }
    }
}
