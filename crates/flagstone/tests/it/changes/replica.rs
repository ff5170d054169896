//! A replica that follows the feed is equal to the database.

use super::keeping;
use flagstone::changes::{ChangeKind, ChangeToken, ChangesFrom, Happened};
use flagstone::{Database, Durability, Keyspace, Space};
use flagstone_testkit::{Rng, World, rounds, seed};
use std::collections::BTreeMap;

/// The keyspaces: bytes, and texts that merges append to.
pub(super) const NAMES: [&str; 2] = ["kv", "texts"];

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A copy of the keyspaces that follows the feed.
#[derive(Clone, Default)]
pub(super) struct Replica {
    maps: [Map; 2],
    pub(super) token: Option<ChangeToken>,
    /// Writes are missing that were not logged.
    pub(super) has_gap: bool,
    pub(super) commits: u64,
}

impl Replica {
    /// Applies everything that is delivered now.
    pub(super) fn follow(&mut self, db: &Database) {
        let from = self.token.map_or(ChangesFrom::Start, ChangesFrom::After);
        for delivery in db.changes(from).unwrap() {
            let delivery = delivery.unwrap();
            assert!(self.token.map(|t| t.seqno()) < Some(delivery.token.seqno()), "{delivery:?}");
            self.token = Some(delivery.token);
            match delivery.happened {
                Happened::Commit(batch) => {
                    self.commits += 1;
                    batch.changes().for_each(|change| self.apply(&change));
                }
                Happened::Gap => self.has_gap = true,
                other => panic!("{other:?}"),
            }
        }
    }

    fn apply(&mut self, change: &flagstone::changes::Change<'_>) {
        let at = NAMES.iter().position(|name| *name == change.keyspace()).unwrap();
        let (map, key) = (&mut self.maps[at], change.key_bytes().to_vec());
        let value = change.value_bytes();
        match change.kind() {
            ChangeKind::Put => drop(map.insert(key, value.to_vec())),
            ChangeKind::Merge => map.entry(key).or_default().extend_from_slice(value),
            ChangeKind::Delete => drop(map.remove(&key)),
            ChangeKind::DeleteRange => {
                let end = change.end_bytes().unwrap();
                map.retain(|found, _| !(key.as_slice()..end).contains(&found.as_slice()));
            }
            other => panic!("{other:?}"),
        }
    }

    /// Compares the replica with the database, of which it has seen everything.
    pub(super) fn check(&mut self, db: &Database, story: &str) {
        for (name, map) in NAMES.iter().zip(&mut self.maps) {
            let Some(keyspace) = keyspace(db, name) else { continue };
            let found: Map = keyspace
                .scan(..)
                .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
                .collect();
            if std::mem::take(&mut self.has_gap) {
                // What a reader does: it reads everything again.
                *map = found;
                self.has_gap = *name != "texts";
                continue;
            }
            assert_eq!(*map, found, "{story}: {name}");
        }
        self.has_gap = false;
    }
}

fn keyspace(db: &Database, name: &str) -> Option<Keyspace> {
    db.keyspaces().iter().any(|info| info.name == name).then(|| db.keyspace(name).unwrap())
}

/// Opens both keyspaces.
pub(super) fn keyspaces(db: &Database) -> flagstone::Result<[Keyspace; 2]> {
    let options = crate::support::folding(2, "append/1");
    Ok([db.keyspace(NAMES[0])?, db.space(NAMES[1]).options(options).keyspace()?])
}

/// Makes one random commit.
pub(super) fn write(
    db: &Database,
    of: &[Keyspace; 2],
    rng: &mut Rng,
    durability: Durability,
) -> flagstone::Result<()> {
    let mut batch = db.batch();
    for _ in 0..rng.between(1, 4) {
        let at = rng.below(2) as usize;
        let (key, len) = (format!("k{:02}", rng.below(40)), rng.between(0, 30) as usize);
        let long = if rng.percent(3) { 40_000 } else { 0 };
        let value = vec![b'a' + rng.below(26) as u8; len + long];
        match rng.below(10) {
            0 => batch.delete_range(&of[at], key.as_str().."k99")?,
            1 | 2 => batch.delete(&of[at], &key)?,
            3..6 if at == 1 && long == 0 => batch.merge(&of[at], &key, &value)?,
            _ => batch.put(&of[at], &key, &value)?,
        }
    }
    db.commit(batch.durability(durability))
}

#[test]
fn a_replica_that_follows_the_feed_is_equal_to_the_database() {
    let seed = seed("a_replica_that_follows_the_feed_is_equal_to_the_database", 7);
    for round in 0..rounds(6, 100) {
        let mut rng = Rng::new(seed + round);
        let (world, mut replica) = (World::new(seed + round), Replica::default());
        let may_skip_the_log = round % 2 == 1;
        for session in 0..4 {
            let opened = world.open(&keeping()).unwrap();
            let of = keyspaces(&opened.db).unwrap();
            for step in 0..120 {
                let unlogged = may_skip_the_log && rng.percent(10);
                let durability = if unlogged { Durability::None } else { Durability::Buffered };
                write(&opened.db, &of, &mut rng, durability).unwrap();
                if rng.percent(5) {
                    opened.db.flush().unwrap();
                }
                if rng.percent(10) {
                    opened.db.sync().unwrap();
                    replica.follow(&opened.db);
                    let story = format!("round {round}, session {session}, step {step}");
                    replica.check(&opened.db, &story);
                }
            }
            drop(of);
            opened.db.close().unwrap();
        }
        let opened = world.open(&keeping()).unwrap();
        replica.follow(&opened.db);
        replica.check(&opened.db, &format!("round {round}, at the end"));
        // One that begins at the start sees the same.
        let mut other = Replica::default();
        other.follow(&opened.db);
        if !other.has_gap {
            assert_eq!(other.commits, 480);
        }
        other.check(&opened.db, &format!("round {round}, from the start"));
    }
}
