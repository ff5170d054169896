//! The command line.

use crate::bodies::{Body, NAMES};
use std::net::SocketAddr;
use std::time::Duration;

/// What is printed after a wrong command line.
pub(crate) const HELP: &str = "\
flagstone-peers-serve ADDRESS WORK [OPTIONS]

WORK is ping, fill, find, insert, insert-synced, insert-many, update or idle.

  --pid N           the process of the server, whose CPU time and memory are read
  --connections N   connections [default: 16]
  --seconds S       how long [default: 5]; a tenth before that does not count
  --documents N     the documents that fill makes, and find and update choose from [default: 50000]
  --seed N          the seed of identifiers of inserted documents [default: 1]";

/// What is done.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    /// Commands, one after the other on each connection.
    Commands(Body),
    /// Nothing, on many connections.
    Idle,
}

/// The options of a run.
pub(crate) struct Options {
    pub(crate) address: SocketAddr,
    pub(crate) work: Work,
    pub(crate) pid: Option<u32>,
    pub(crate) connections: usize,
    pub(crate) time: Duration,
    pub(crate) documents: u32,
    pub(crate) seed: u64,
}

/// Parses the words of the command line.
///
/// # Errors
/// A text that says what is wrong with the words.
pub(crate) fn parse(words: &[String]) -> Result<Options, String> {
    let [address, work, words @ ..] = words else {
        return Err("expected an address and a work".into());
    };
    let work = match work.as_str() {
        "idle" => Work::Idle,
        name => {
            let found = NAMES.iter().find(|(known, _)| *known == name);
            Work::Commands(found.ok_or_else(|| format!("unknown work: {name}"))?.1)
        }
    };
    let mut options = Options {
        address: address.parse().map_err(|_| format!("{address}: expected an address and port"))?,
        work,
        pid: None,
        connections: 16,
        time: Duration::from_secs(5),
        documents: 50_000,
        seed: 1,
    };
    if !options.address.ip().is_loopback() {
        return Err(format!("{address}: expected an address of this machine"));
    }
    let mut words = words.iter();
    while let Some(name) = words.next() {
        let value = words.next().ok_or_else(|| format!("{name}: expected a value"))?;
        let number = || {
            let number = value.parse::<u32>().ok().filter(|number| *number > 0);
            number.ok_or_else(|| format!("{name} {value}: expected a number from 1 on"))
        };
        match name.as_str() {
            "--pid" => options.pid = Some(number()?),
            "--connections" => options.connections = number()? as usize,
            "--documents" => options.documents = number()?,
            "--seed" => options.seed = number()?.into(),
            "--seconds" => {
                let seconds = value.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
                let seconds =
                    seconds.ok_or_else(|| format!("{name} {value}: expected 0.1 to 3600"))?;
                options.time = Duration::from_secs_f64(seconds);
            }
            _ => return Err(format!("unknown option: {name}")),
        }
    }
    Ok(options)
}
