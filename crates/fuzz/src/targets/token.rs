//! Page tokens and change tokens: one that is accepted has no other text, and whatever position
//! it holds, a query and a feed return results or an error.

use super::note;
use flagstone::changes::{ChangeRetention, ChangeToken, ChangesFrom, Happened};
use flagstone::query::PageToken;
use flagstone::{Collection, Error, ErrorKind, Find, Index, Options, Space, doc};
use flagstone_testkit::world::{Session, World};
use std::sync::OnceLock;

const SORTS: [&str; 4] = ["", "n", "-n", "n,s"];

fn place() -> (World, Session) {
    let world = World::new(9);
    let options = Options::new().memory_budget(1 << 20).compaction_workers(1);
    let options = options.change_retention(ChangeRetention::bytes(1 << 20));
    let session = world.open(&options).unwrap();
    let collection = session.db.collection("documents").unwrap();
    for key in 0..40_i64 {
        collection.put(key, doc!({ "n": (key % 7), "s": (format!("s{key}")) })).unwrap();
    }
    collection.create_index("n_s", Index::on("n").then("s")).unwrap();
    (world, session)
}

fn find(collection: &Collection, sort: u8) -> Find<'static> {
    match SORTS[usize::from(sort) % SORTS.len()] {
        "" => collection.find("{}"),
        sort => collection.find("{}").sort(sort),
    }
}

fn with<R>(run: impl FnOnce(&Session, &Collection) -> R) -> R {
    static PLACE: OnceLock<(World, Session)> = OnceLock::new();
    let (_, session) = PLACE.get_or_init(place);
    run(session, &session.db.collection("documents").unwrap())
}

/// Reads a byte that chooses a query, and the text of a token.
pub(super) fn body(bytes: &[u8]) {
    let Some((sort, text)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    let refused = |error: &Error| {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        note(error.to_string().split(['"', '0']).next().unwrap_or_default());
    };
    match text.parse::<PageToken>() {
        Ok(token) => {
            // The checksum is in the last six letters, and may have been believed.
            let printed = token.to_string();
            assert_eq!(printed.parse::<PageToken>().unwrap(), token);
            assert_eq!(printed.len(), text.len());
            let covered = text.len() - 6;
            assert_eq!(printed[..covered], text[..covered], "a token has one text");
            with(|_, collection| match find(collection, *sort).after(&token).page(3) {
                Ok(page) => note(format_args!("page {sort} {}", page.next.is_some())),
                Err(error) => refused(&error),
            });
        }
        Err(error) => refused(&error),
    }
    match text.parse::<ChangeToken>() {
        Ok(token) => {
            assert_eq!(token.to_string(), text, "a token has one text");
            assert_eq!(ChangeToken::from_bytes(token.to_bytes()), Some(token));
            with(|session, _| feed(session, token));
        }
        Err(error) => refused(&error),
    }
}

/// Reads a feed from a token.
fn feed(session: &Session, token: ChangeToken) {
    let read = session.db.changes(ChangesFrom::After(token)).and_then(|mut changes| changes.poll());
    match read {
        Ok(Some(delivery)) => {
            let happened = matches!(delivery.happened, Happened::Commit(_));
            note(format_args!("a delivery {happened}"));
        }
        Ok(None) => note("no delivery"),
        Err(error) => note(format_args!("{:?}", error.kind())),
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    with(|session, collection| {
        let mut seeds = Vec::new();
        for sort in 0..SORTS.len() as u8 {
            for length in [1, 12] {
                let next = find(collection, sort).page(length).unwrap().next.unwrap();
                seeds.push([&[sort], next.to_string().as_bytes()].concat());
            }
        }
        let changes = session.db.changes(ChangesFrom::Start).unwrap();
        seeds.push([b"0", changes.token().to_string().as_bytes()].concat());
        seeds
    })
}
