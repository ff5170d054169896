//! Options: one struct is the arguments of a command, the setting of code, and the options in the
//! header of a result file. A field has the same name in all three; its comment is the help text.

use crate::record::Described;
use clap::builder::{ArgPredicate, RangedU64ValueParser};
use clap::{Args, Command, ValueEnum};
use flagstone::admin::parse_bytes;
use flagstone::{Durability, Routing};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// How a store is opened. An engine ignores an option that it does not have, and says so in
/// [`Engine::tuning`](crate::engine::Engine::tuning).
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[command(next_help_heading = "Store")]
#[serde(rename_all = "kebab-case")]
pub struct StoreOptions {
    /// The directory of the store, which is created if there is none. A
    /// [`Stage`](crate::workload::Stage) sets it.
    #[arg(skip)]
    #[serde(skip)]
    pub dir: PathBuf,
    /// How keys find their partition
    // Before `partitions`, whose default value would count as given.
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value_t,
        default_value_if("partitions", ArgPredicate::IsPresent, "hash")
    )]
    pub routing: Routed,
    /// Partitions, with --routing hash and range; given alone, hash partitions
    #[arg(long, value_name = "N", default_value = "4", value_parser = within::<u16>(1, 256))]
    pub partitions: u16,
    /// Split a partition with a range of keys at this many bytes; 0 never [default: the engine's]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub split_bytes: Option<u64>,
    /// The memory budget: memtables, cache and the rest
    #[arg(
        long = "memory",
        value_name = "BYTES",
        default_value = "512MiB",
        value_parser = parse_bytes
    )]
    #[serde(rename = "memory")]
    pub memory_bytes: u64,
    /// Seal the memtable of a partition at this many bytes [default: by the memory budget]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub memtable_bytes: Option<u64>,
    /// Bytes of a block of a table before compression; 0 or none leaves it to the engine
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub block_bytes: Option<usize>,
    /// Bits of filter a key [default: the engine's]
    #[arg(long, value_name = "BITS")]
    pub filter_bits: Option<u8>,
    /// Read blocks that are not in the cache past the page cache of the system
    #[arg(long)]
    pub direct_reads: bool,
    /// The bytes of the store divided by the bytes of live data, at most [default: the engine's]
    #[arg(long, value_name = "TIMES")]
    pub space_amplification_max: Option<f64>,
    /// Entries carry no checks against changes in memory
    #[arg(long = "no-entry-checks", action = clap::ArgAction::SetFalse)]
    pub entry_checks: bool,
    /// What an acknowledged write survives: none, buffered, interval:100ms, group or each
    #[arg(long, value_name = "WHAT", default_value = "buffered")]
    #[serde(serialize_with = "spelled")]
    pub durability: Durability,
    /// The workload runs transactions, for which some engines are opened in another way.
    #[arg(skip)]
    #[serde(skip)]
    pub transactions: bool,
}

/// How keys find their partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routed {
    /// By ranges of their hash
    Hash,
    /// By ranges of the keys: one at first, which splits and merges
    #[default]
    Auto,
    /// By ranges of the keys, cut so that each gets as many of all strings of eight bytes; they
    /// split and merge, too
    Range,
}

impl StoreOptions {
    /// The routing of flagstone.
    pub(crate) fn chosen_routing(&self) -> Routing {
        match self.routing {
            Routed::Hash => Routing::Hash(self.partitions),
            Routed::Auto => Routing::Auto,
            Routed::Range => {
                let part = (1 << 64) / u128::from(self.partitions);
                let bound = |at| ((u128::from(at) * part) as u64).to_be_bytes().to_vec();
                Routing::Range((1..self.partitions).map(bound).collect())
            }
        }
    }
}

/// What transactions promise beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Reads of one snapshot; what was written was not written by others since
    Snapshot,
    /// What was read was not written by others since, either
    Serializable,
}

/// How long a phase runs, and how often it is sampled.
#[derive(Args, Clone, Copy, Debug, PartialEq, Serialize)]
#[command(next_help_heading = "Time")]
#[serde(rename_all = "kebab-case")]
pub struct Pace {
    /// Threads, each in a closed loop
    #[arg(long, value_name = "N", default_value = "4", value_parser = within::<usize>(1, 1024))]
    pub threads: usize,
    /// Seconds of a trial. Operations that run then are finished and count
    #[arg(long, value_name = "S", default_value = "20", value_parser = seconds)]
    #[serde(serialize_with = "as_seconds")]
    pub seconds: Duration,
    /// Operations of a trial over all threads, instead of a time
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = positive())]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// No limit: the phase ends when all workers are done.
    #[arg(skip)]
    #[serde(skip)]
    pub until_done: bool,
    /// Seconds of a row
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    #[serde(serialize_with = "as_seconds")]
    pub interval: Duration,
    /// Sync all files of the store at the end; that time belongs to the trial
    #[arg(long)]
    pub closing_sync: bool,
}

impl Pace {
    /// The operations of thread `thread` of all: unlimited unless a number of them is the length.
    pub fn quota(&self, thread: usize) -> u64 {
        let Some(all) = self.operations else { return u64::MAX };
        let threads = self.threads.max(1) as u64;
        all / threads + u64::from((thread as u64) < all % threads)
    }

    /// The time after which a phase ends, if that is its length.
    pub fn time(&self) -> Option<Duration> {
        (self.operations.is_none() && !self.until_done).then_some(self.seconds)
    }

    /// The pace of work that ends when it is done, without rows on the way.
    pub fn unwatched(threads: usize) -> Self {
        let interval = Duration::from_secs(86_400);
        Self { threads, interval, until_done: true, closing_sync: false, ..Self::default() }
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        defaults()
    }
}

impl Default for Pace {
    fn default() -> Self {
        defaults()
    }
}

/// The options of a command that is given no arguments.
pub fn defaults<T: Args>() -> T {
    let command = T::augment_args(Command::new("defaults").no_binary_name(true));
    let matches = command.get_matches_from(std::iter::empty::<&str>());
    T::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Options by their long names, as headers show them. What is left to the engine is `null`.
pub fn describe(options: &impl Serialize) -> Described {
    match serde_json::to_value(options) {
        Ok(Value::Object(fields)) => fields.into_iter().collect(),
        _ => Described::new(),
    }
}

/// Refuses an option that has no effect.
pub(crate) fn refuse(is_given: bool, option: &str, is_for: &str) -> Result<(), String> {
    if is_given { Err(format!("{option} is for {is_for}")) } else { Ok(()) }
}

/// Numbers from `least` to `most`.
pub(crate) fn within<T: TryFrom<u64>>(least: u64, most: u64) -> RangedU64ValueParser<T> {
    RangedU64ValueParser::new().range(least..=most)
}

/// Numbers above 0.
pub(crate) fn positive() -> RangedU64ValueParser<u64> {
    within(1, u64::MAX)
}

/// The name of a value of an option.
pub(crate) fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
}

/// Reads a number of bytes of something in memory.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    usize::try_from(bytes).map_err(|error| error.to_string())
}

/// Reads a time in seconds above 0: `20`, `0.5`.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=1e9).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds above 0, as in 20 or 0.5".to_owned()),
    }
}

/// Reads a share: `0.5`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a share from 0 to 1".to_owned()),
    }
}

pub(crate) fn as_seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

pub(crate) fn spelled<S: Serializer>(durability: &Durability, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(durability)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    #[test]
    fn options_are_described_by_their_long_names_as_numbers() {
        let (store, pace) = (describe(&StoreOptions::default()), describe(&Pace::default()));
        assert_eq!((&store["partitions"], &store["memory"]), (&4.into(), &(512 << 20).into()));
        assert_eq!(store["memtable-bytes"], Value::Null);
        assert_eq!(
            (&store["entry-checks"], &store["durability"]),
            (&true.into(), &"buffered".into())
        );
        assert_eq!((&pace["threads"], &pace["seconds"]), (&4.into(), &20.0.into()));
        let pace = Pace { operations: Some(7), ..Pace::default() };
        assert_eq!(describe(&pace)["operations"], 7);
    }

    #[test]
    fn a_number_of_partitions_alone_means_hash_partitions() {
        let routing = |words: &[&str]| {
            let command = StoreOptions::augment_args(Command::new("test").no_binary_name(true));
            let matches = command.try_get_matches_from(words).unwrap();
            StoreOptions::from_arg_matches(&matches).unwrap().chosen_routing()
        };
        assert_eq!(routing(&[]), Routing::Auto);
        assert_eq!(routing(&["--partitions", "2"]), Routing::Hash(2));
        assert_eq!(routing(&["--partitions", "2", "--routing", "auto"]), Routing::Auto);
        assert_eq!(routing(&["--routing", "hash"]), Routing::Hash(4));
        assert_eq!(StoreOptions::default().chosen_routing(), Routing::Auto);
    }

    #[test]
    fn ranges_cut_all_keys_in_equal_parts() {
        let store = |routing| StoreOptions { routing, ..StoreOptions::default() };
        assert_eq!(store(Routed::Hash).chosen_routing(), Routing::Hash(4));
        assert_eq!(store(Routed::Auto).chosen_routing(), Routing::Auto);
        let bound = |first| vec![first, 0, 0, 0, 0, 0, 0, 0];
        let bounds = [0x40, 0x80, 0xC0].map(bound).to_vec();
        assert_eq!(store(Routed::Range).chosen_routing(), Routing::Range(bounds));
        let one = StoreOptions { partitions: 1, ..store(Routed::Range) };
        assert_eq!(one.chosen_routing(), Routing::Range(Vec::new()));
    }

    #[test]
    fn operations_are_split_without_losing_one() {
        for (threads, all) in [(1, 7), (3, 7), (4, 8), (16, 5)] {
            let pace = Pace { threads, operations: Some(all), ..Pace::default() };
            assert_eq!((0..threads).map(|thread| pace.quota(thread)).sum::<u64>(), all);
        }
        assert_eq!(Pace::default().quota(0), u64::MAX);
    }

    #[test]
    fn seconds_and_shares_are_numbers_within_bounds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(share("1"), Ok(1.0));
        for text in ["", "0", "-1", "inf", "nan", "1e99", "1s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        for text in ["", "-0.1", "1.1", "nan"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
