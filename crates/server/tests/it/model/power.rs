//! Power cuts between commands: a write, and what a retry of it is told, are in one commit. So a
//! write that is sent again after the cut happens once, whether it was lost or not.

use super::client::{Client, code, is_ok};
use bson::{Document, doc};
use flagstone::{Durability, Options};
use flagstone_server::command::{Service, ServiceOptions};
use flagstone_testkit::{Rng, World};
use std::sync::Arc;

const SESSIONS: usize = 3;
const CUTS: usize = 4;

/// A session that increments a document of its own, once with each write.
#[derive(Default)]
struct Session {
    number: i64,
    /// How many writes there are for sure.
    sure: i64,
    last: Option<Document>,
    /// A transaction that was committed, by its number, and whether that is sure.
    committed: Option<(i64, bool)>,
}

pub(super) fn run(seed: u64) {
    let mut random = Rng::new(seed);
    let durabilities = [Durability::None, Durability::Buffered, Durability::Group];
    let options = Options::new().durability(*random.pick(&durabilities));
    let mut world = World::new(seed);
    let mut sessions: Vec<Session> = (0..SESSIONS).map(|_| Session::default()).collect();
    for cut in 0..=CUTS {
        let opened = world.open(&options).unwrap();
        let service = Service::new(opened.db.clone(), ServiceOptions::default()).unwrap();
        for (n, session) in sessions.iter_mut().enumerate() {
            check(&mut Client::new(&service, n as u8), session);
        }
        let cuts = random.index(40);
        for _ in 0..cuts {
            let n = random.index(SESSIONS);
            let session = &mut sessions[n];
            let mut client = Client::new(&service, n as u8);
            let is_sure = random.percent(30);
            if random.percent(20) {
                transact(&mut client, session, is_sure || options_are_sure(&service));
            } else {
                write(&mut random, &mut client, session, is_sure);
            }
            if is_sure || options_are_sure(&service) {
                session.sure = session.number;
            }
            if random.percent(10) {
                opened.settle();
            }
        }
        if cut == CUTS {
            break;
        }
        world = world.after_power_cut(random.number());
        service.close();
        drop((service, opened));
    }
}

fn options_are_sure(service: &Arc<Service>) -> bool {
    flagstone::internal::durability(service.database()) == Durability::Group
}

fn increment(client: &Client, number: i64) -> Document {
    let inc = doc! { "$inc": { "n": 1 }, "$set": { "last": number } };
    let id = i32::from(client.session);
    doc! { "update": "counters", "updates": [{ "q": { "_id": id }, "u": inc, "upsert": true }] }
}

fn write(random: &mut Rng, client: &mut Client, session: &mut Session, is_sure: bool) {
    session.number += 1;
    let mut command = if random.percent(30) {
        let inc = doc! { "$inc": { "n": 1 }, "$set": { "last": session.number } };
        doc! { "findAndModify": "counters", "query": { "_id": i32::from(client.session) },
        "update": inc, "upsert": true }
    } else {
        increment(client, session.number)
    };
    command.extend(client.numbered(session.number));
    if is_sure {
        command.insert("writeConcern", doc! { "w": "majority" });
    }
    client.ok(command.clone());
    if random.percent(30) {
        client.ok(command.clone());
    }
    session.last = Some(command);
    session.committed = None;
}

/// Increments in a transaction.
fn transact(client: &mut Client, session: &mut Session, is_sure: bool) {
    session.number += 1;
    let part = |client: &Client, mut command: Document| {
        command.extend(client.numbered(session.number));
        command.insert("autocommit", false);
        command
    };
    let mut first = part(client, increment(client, session.number));
    first.insert("startTransaction", true);
    client.ok(first);
    let mut commit = part(client, doc! { "commitTransaction": 1 });
    if is_sure {
        commit.insert("writeConcern", doc! { "w": "majority" });
    }
    client.ok(commit);
    session.last = None;
    session.committed = Some((session.number, is_sure));
}

/// Compares what there is with what the session was told, and sends its last write again.
fn check(client: &mut Client, session: &mut Session) {
    let id = i32::from(client.session);
    let read = |client: &mut Client| {
        let found = client.all(doc! { "find": "counters", "filter": { "_id": id } });
        let of = |name: &str| {
            found.first().map_or(0.0, |one| super::plain::number(one.get(name).unwrap()).unwrap())
        };
        (of("n") as i64, of("last") as i64)
    };
    let (n, last) = read(client);
    assert!(last <= session.number && last >= session.sure, "{last} of {}", session.number);
    let mut expected = n;
    if let Some(command) = &session.last {
        expected += i64::from(last < session.number);
        for _again in 0..2 {
            let reply = client.ok(command.clone());
            assert!(reply.get("writeErrors").is_none(), "{reply}");
        }
    }
    if let Some((number, is_sure)) = session.committed {
        let mut commit = doc! { "commitTransaction": 1, "autocommit": false };
        commit.extend(client.numbered(number));
        let reply = client.call(commit);
        assert_eq!(is_ok(&reply), last == number, "{reply}");
        assert!(is_ok(&reply) || code(&reply) == 251 && !is_sure, "{reply}");
    }
    assert_eq!(read(client).0, expected, "each write happened once");
    // What has survived does so again; what was sent again may be lost.
    session.sure = last;
    (session.last, session.committed) = (None, None);
}
