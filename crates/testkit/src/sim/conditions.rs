//! Conditions of batches, and what is expected of them.

use super::changes::SlotHandles;
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

/// A condition of a key, and the expected result.
pub(super) struct Judged {
    pub(super) slot: usize,
    pub(super) key: Key,
    pub(super) expected: Expect,
    pub(super) verdict: Verdict,
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
        handles: &SlotHandles,
        expect: Condition,
    ) -> Verdict {
        let Some(Judged { slot, key, expected, verdict }) = self.judge(expect) else {
            return Verdict::Holds;
        };
        let added = match &handles[slot] {
            Some(Handle::Bytes(keyspace)) => batch.expect(keyspace, key_bytes(key), expected),
            Some(Handle::Documents(collection)) => {
                batch.expect(collection, i64::from(key), expected)
            }
            None => return Verdict::Unknown,
        };
        added.map_or(Verdict::Unknown, |()| verdict)
    }

    /// Returns what a condition is, and what is expected of it now; `None` if the token or the
    /// snapshot that it names is not there.
    pub(super) fn judge(&self, expect: Condition) -> Option<Judged> {
        let (slot, key, expected, verdict) = match expect {
            Condition::Absent(slot, key) => {
                let verdict = match self.oracle.get(slot, key) {
                    None => Verdict::Holds,
                    Some(_) => Verdict::Conflict,
                };
                (slot, key, Expect::Absent, verdict)
            }
            Condition::Token(which) => self.judge_token(self.token(which)?),
            Condition::Version(slot, key) => {
                let is_of = |token: &&Token| (token.slot, token.key) == (slot, key);
                self.judge_token(self.tokens.iter().rfind(is_of)?)
            }
            Condition::Unchanged(which, slot, key) => {
                let at = place_of(self.life.snapshots.len(), which)?;
                let since = self.life.snapshots[at].snapshot.version();
                let verdict = self.verdict_of_unchanged(at, slot, key);
                (slot, key, Expect::UnchangedSince(since), verdict)
            }
        };
        Some(Judged { slot, key, expected, verdict })
    }

    fn judge_token(&self, token: &Token) -> (usize, Key, Expect, Verdict) {
        (token.slot, token.key, Expect::Version(token.version), self.verdict_of(token))
    }

    /// Returns whether a key was not written since a snapshot. An absent key may be a conflict
    /// without a write of it. An expiry is no write.
    fn verdict_of_unchanged(&self, at: usize, slot: usize, key: Key) -> Verdict {
        let life = self.life;
        let taken = &life.snapshots[at];
        let is_other = taken.generations[slot] != life.generations[slot];
        if is_other || self.oracle.has_doubt() {
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
