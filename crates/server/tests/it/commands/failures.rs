//! A disk that fails: the error of a write names it, and reads go on.

use super::{Fixture, parse};
use flagstone::admin::Environment;
use flagstone::internal::env::names::FileKind;
use flagstone::internal::env::{Effect, Failure, Fault, FaultDisk, MemDisk, Op};
use flagstone::{Database, Document, Options};
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
    (disk, Fixture { _dir: tempfile::tempdir().unwrap(), service, client })
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
