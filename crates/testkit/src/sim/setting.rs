//! Draws the start of a history from a seed: its emphasis, its options, its keyspaces.

use super::model::{KINDS, Kind, SLOTS};
use super::plan_documents::Documents;
use super::times::Times;
use crate::options::random_keyspace;
use crate::rng::Rng;
use flagstone::changes::ChangeRetention;
use flagstone::{Durability, KeyspaceOptions, Options, Routing};
use flagstone_base::hash::remix;
use std::time::Duration;

/// The emphasis of a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profile {
    /// The percentage of commits that are not logged.
    pub(super) unlogged_percent: u64,
    /// The percentage of logged commits that are synced.
    pub(super) synced_percent: u64,
    pub(super) value_bytes_max: u64,
    /// The percentage of large values.
    pub(super) large_percent: u64,
    pub(super) ills: Ills,
    /// The percentage of the puts into each slot that have an expiry.
    pub(super) expiring: [u64; SLOTS],
    /// How many bytes of changes are kept.
    pub(super) changes_bytes: u64,
}

/// The troubles of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ills {
    None,
    Faults,
    Failures,
    Full,
}

/// The start of a history.
#[derive(Clone, Debug)]
pub(super) struct SimSetting {
    pub(super) profile: Profile,
    pub(super) options: Options,
    pub(super) keyspaces: Vec<KeyspaceOptions>,
    /// Whether the database keeps changes for readers.
    pub(super) keeps_changes: bool,
}

impl SimSetting {
    pub(super) fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(remix(seed ^ 1));
        let keeps_changes = Documents::draw_keeps_changes(seed);
        let profile = Profile {
            unlogged_percent: *rng.pick(&[0, 0, 10, 30, 100]),
            synced_percent: *rng.pick(&[10, 50, 80]),
            value_bytes_max: *rng.pick(&[30, 30, 200, 1000, 8000]),
            large_percent: *Rng::new(remix(seed ^ 4)).pick(&[0, 0, 2, 10]),
            ills: *rng.pick(&[Ills::None, Ills::None, Ills::Faults, Ills::Failures, Ills::Full]),
            expiring: Times::draw_expiring(seed),
            changes_bytes: if keeps_changes { 1 << 30 } else { 0 },
        };
        let keyspace = |kind: Kind| {
            let fold = match kind {
                Kind::Counters => Some("add-i64/1"),
                Kind::Appends => Some("append/1"),
                Kind::Plain | Kind::Documents => None,
            };
            random_keyspace(&mut rng, fold)
        };
        let mut keyspaces = KINDS.map(keyspace).to_vec();
        // The generator of these is one of its own, so that other options stay what they were.
        let mut routings = Rng::new(remix(seed ^ 15));
        for options in &mut keyspaces {
            if routings.percent(15) {
                *options = options.clone().routing(Routing::Auto);
            }
        }
        Self { profile, options: draw_options(&mut rng, &profile), keyspaces, keeps_changes }
    }
}

/// Draws the options of an open.
pub(super) fn draw_options(rng: &mut Rng, profile: &Profile) -> Options {
    Options::new()
        .memory_budget(if rng.percent(60) { 1 << 20 } else { rng.between(1 << 20, 4 << 20) })
        .memtable_bytes(rng.percent(60).then_some(64 << 10))
        .split_bytes(*rng.pick(&[0, 1 << 10, 4 << 10, 32 << 10]))
        .direct_reads(rng.percent(20))
        .durability(durability(rng, profile))
        .compaction_workers(rng.between(1, 3) as usize)
        .change_retention(Some(ChangeRetention::bytes(profile.changes_bytes)))
}

/// Draws the durability of a commit.
pub(super) fn durability(rng: &mut Rng, profile: &Profile) -> Durability {
    if rng.percent(profile.unlogged_percent) {
        return Durability::None;
    }
    if rng.percent(profile.synced_percent) {
        return *rng.pick(&[Durability::Group, Durability::Each]);
    }
    *rng.pick(&[
        Durability::Buffered,
        Durability::Buffered,
        Durability::Interval(Duration::from_millis(10)),
    ])
}
