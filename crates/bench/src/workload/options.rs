//! What workloads on keys and values have in common: their options, and what a command needs of
//! them.

use super::{Keys, Stage, ValueKind, Values};
use crate::engine::Outcome;
use crate::options::{
    Length, Pace, StoreOptions, defaults, describe, positive, refuse, size, within,
};
use crate::record::{Described, Summary};
use clap::Args;
use serde::{Serialize, Serializer};

/// A workload that is one trial.
pub trait Workload: Args + Serialize {
    /// The default number of threads.
    const THREADS: &'static str = "2";

    /// The name of the workload in result files.
    fn name(&self) -> &'static str;

    /// The options that all workloads have.
    fn setup(&mut self) -> &mut Setup;

    /// Refuses options that cannot be, or that would do nothing. The error is for people.
    fn check(&self) -> Result<(), String>;

    /// All options by their long names, as headers show them.
    fn describe(&self) -> Described {
        describe_filled(self)
    }

    /// Runs the trial. A wrong answer of the engine ends it.
    fn run(&self, stage: &Stage<'_>) -> Outcome<Summary>;
}

/// The options that all workloads have.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
pub struct Setup {
    #[command(flatten)]
    #[serde(flatten)]
    pub store: StoreOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub data: DataOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub pace: Pace,
}

/// Which keys and values.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[command(next_help_heading = "Keys and values")]
#[serde(rename_all = "kebab-case")]
pub struct DataOptions {
    /// The number of different keys [default: 100000000]; workloads over filled stores have their
    /// records instead
    #[arg(long, value_name = "N", value_parser = positive())]
    #[serde(serialize_with = "all_keys")]
    pub key_space: Option<u64>,
    /// Bytes of a key, 8 to 1024
    #[arg(long = "key-size", default_value = "16", value_parser = within::<usize>(8, 1024))]
    #[serde(rename = "key-size")]
    pub key_bytes: usize,
    /// Bytes of a value
    #[arg(long = "value-size", value_name = "BYTES", default_value = "1024", value_parser = size)]
    #[serde(rename = "value-size")]
    pub value_bytes: usize,
    /// What values are made of
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    pub values: ValueKind,
    /// The same seed gives the same operations of each thread
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
}

/// Keys, unless an option says otherwise.
const KEY_SPACE: u64 = 100_000_000;

fn all_keys<S: Serializer>(number: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(number.unwrap_or(KEY_SPACE))
}

impl Default for DataOptions {
    fn default() -> Self {
        defaults()
    }
}

impl Default for Setup {
    fn default() -> Self {
        defaults()
    }
}

impl DataOptions {
    pub const fn keys(&self) -> Keys {
        let space = match self.key_space {
            Some(space) => space,
            None => KEY_SPACE,
        };
        Keys::new(self.seed, space, self.key_bytes)
    }

    pub fn make_values(&self) -> Values {
        Values::new(self.seed, self.value_bytes, self.values)
    }

    /// Bytes of a key and its value.
    pub const fn entry_bytes(&self) -> u64 {
        (self.key_bytes + self.value_bytes) as u64
    }

    /// Refuses sizes that cannot be. The error is for people.
    pub fn check(&self) -> Result<(), String> {
        if self.key_space == Some(0) {
            return Err("a key space of 0 keys: expected at least 1".into());
        }
        if !(8..=1024).contains(&self.key_bytes) {
            return Err(format!("keys of {} bytes: expected 8 to 1,024", self.key_bytes));
        }
        if self.value_bytes > 16 << 20 {
            return Err(format!("values of {} bytes: expected at most 16 MiB", self.value_bytes));
        }
        Ok(())
    }
}

/// The options of a trial over a store that is filled first. Its keys are the numbers of its
/// records, so the key space does not matter.
pub(super) fn describe_filled(options: &impl Serialize) -> Described {
    let mut options = describe(options);
    options.remove("key-space");
    options
}

/// Refuses records that cannot be filled into a store. The error is for people.
pub(super) fn check_filled(data: &DataOptions, records: u64) -> Result<(), String> {
    let others = "workloads from an empty store: a filled one has its records";
    refuse(data.key_space.is_some(), "--key-space", others)?;
    if records == 0 {
        return Err("a store of 0 records: expected at least 1".into());
    }
    data.check()
}

/// Refuses to sync at the end what only reads. The error is for people.
pub(super) fn check_reads(pace: &Pace) -> Result<(), String> {
    refuse(pace.closing_sync, "--closing-sync", "workloads that write")
}

/// Refuses a length where a trial ends by itself. The error is for people.
pub(crate) fn check_unending(pace: &Pace, is_for: &str) -> Result<(), String> {
    refuse(matches!(pace.length, Length::Operations(_)), "--operations", is_for)?;
    refuse(pace.length != Pace::default().length, "--seconds", is_for)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_described_by_the_long_names_of_their_options() {
        let options = describe(&Setup::default());
        assert_eq!((&options["key-space"], &options["key-size"]), (&KEY_SPACE.into(), &16.into()));
        assert_eq!((&options["values"], &options["interval"]), (&"random".into(), &1.0.into()));
        assert!(!describe_filled(&Setup::default()).contains_key("key-space"));
    }
}
