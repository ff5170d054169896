//! Conditions of batches, and what is expected of them.

use super::changes::Handles;
use super::life::{Handle, Life};
use super::model::{Key, key_bytes};
use super::oracle::Oracle;
use super::step::{Condition, Which, place_of};
use flagstone::{Batch, Expect, VersionToken};

/// Values of at least this length are never drawn twice.
pub(super) const VALUES_DIFFER_FROM: usize = 12;

/// The version of a key at some time.
pub(super) struct Token {
    pub(super) slot: usize,
    pub(super) key: Key,
    pub(super) version: VersionToken,
    /// The event that wrote the key.
    pub(super) event: u64,
    /// The life and the generation of the slot in which it was taken.
    pub(super) taken: (u64, u32),
    pub(super) value: Vec<u8>,
}

/// The expected result of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    Conflict,
    Unknown,
}

/// The state that decides whether a condition holds.
pub(super) struct Judge<'a> {
    pub(super) oracle: &'a Oracle,
    pub(super) life: &'a Life,
    /// The number of this life.
    pub(super) lives: u64,
    pub(super) tokens: &'a [Token],
}

impl Judge<'_> {
    /// Adds a condition to the batch. Returns the expected verdict.
    pub(super) fn expect(
        &self,
        batch: &mut Batch,
        handles: &Handles,
        expect: Condition,
    ) -> Verdict {
        let (added, verdict) = match expect {
            Condition::Absent(slot, key) => {
                let added = match &handles[slot] {
                    Some(Handle::Bytes(keyspace)) => {
                        batch.expect(keyspace, key_bytes(key), Expect::Absent)
                    }
                    Some(Handle::Documents(collection)) => {
                        batch.expect(collection, i64::from(key), Expect::Absent)
                    }
                    None => return Verdict::Unknown,
                };
                let verdict = match self.oracle.get(slot, key) {
                    None => Verdict::Holds,
                    Some(_) => Verdict::Conflict,
                };
                (added, verdict)
            }
            Condition::Token(which) => {
                let Some(token) = self.token(which) else { return Verdict::Unknown };
                let handle = handles[token.slot].as_ref();
                let Some(keyspace) = handle.and_then(Handle::keyspace) else {
                    return Verdict::Unknown;
                };
                let added =
                    batch.expect(keyspace, key_bytes(token.key), Expect::Version(token.version));
                (added, self.verdict_of(token))
            }
            Condition::Unchanged(which, slot, key) => {
                return self.expect_unchanged(batch, handles, (which, slot, key));
            }
        };
        added.map_or(Verdict::Unknown, |()| verdict)
    }

    /// Adds the condition that a key was not written since a snapshot, if there is one. An absent
    /// key may be a conflict without a write of it. An expiry is no write.
    fn expect_unchanged(
        &self,
        batch: &mut Batch,
        handles: &Handles,
        (which, slot, key): (Which, usize, Key),
    ) -> Verdict {
        let life = self.life;
        let Some(at) = place_of(life.snapshots.len(), which) else { return Verdict::Holds };
        let taken = &life.snapshots[at];
        let since = taken.snapshot.version();
        let added = match &handles[slot] {
            Some(Handle::Bytes(keyspace)) => {
                batch.expect(keyspace, key_bytes(key), Expect::UnchangedSince(since))
            }
            Some(Handle::Documents(collection)) => {
                batch.expect(collection, i64::from(key), Expect::UnchangedSince(since))
            }
            None => return Verdict::Unknown,
        };
        let is_other = taken.generations[slot] != life.generations[slot];
        if added.is_err() || is_other || self.oracle.has_doubt() {
            return Verdict::Unknown;
        }
        let written = life.written[slot][usize::from(key)];
        if written <= taken.last_id {
            let is_there = self.oracle.get(slot, key).is_some();
            return if is_there { Verdict::Holds } else { Verdict::Unknown };
        }
        let is_unchanged = life.unchanged.get(&(slot, key)) == Some(&written);
        if is_unchanged { Verdict::Unknown } else { Verdict::Conflict }
    }

    fn token(&self, which: Which) -> Option<&Token> {
        place_of(self.tokens.len(), which).map(|at| &self.tokens[at])
    }

    /// Returns whether a token is still valid. After a crash, two writes of the same value cannot
    /// be told apart.
    fn verdict_of(&self, token: &Token) -> Verdict {
        let Some(entry) = self.oracle.get(token.slot, token.key) else {
            return Verdict::Conflict;
        };
        let here = (self.lives, self.life.generations[token.slot]);
        let is_same = entry.event == token.event;
        if token.taken == here {
            return if is_same { Verdict::Holds } else { Verdict::Conflict };
        }
        match (is_same, token.value.len() >= VALUES_DIFFER_FROM) {
            (_, false) => Verdict::Unknown,
            (true, true) => Verdict::Holds,
            (false, true) if *entry.bytes == *token.value => Verdict::Unknown,
            (false, true) => Verdict::Conflict,
        }
    }
}
