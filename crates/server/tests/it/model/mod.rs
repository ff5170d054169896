//! Random commands of several clients, through the service without sockets.
//!
//! ```text
//! draw --> a command --> Service::answer --> the reply and the collection
//!             |                                    =
//!             +-------> plain, update, state --> one of the possible results
//! ```
//! The model is plain code over the official crate's BSON and shares nothing with the server. In
//! turns (`turns`), each reply is compared with it, and so is the collection after each write. At
//! the same time (`together`), what must hold whatever the order is counted.
//!
//! `FLAGSTONE_SEED` repeats a run, `FLAGSTONE_LONG` tries new seeds for ten minutes.

mod client;
mod draw;
mod plain;
mod power;
mod state;
mod together;
mod turns;
mod update;

use std::time::{Duration, Instant};

/// Tries seeds: `quick` of them, or new ones for ten minutes.
fn each_seed(test: &str, quick: u64, run: impl Fn(u64)) {
    let first = flagstone_testkit::seed(test, 1);
    let is_one = std::env::var_os("FLAGSTONE_SEED").is_some();
    let began = Instant::now();
    let mut tried = 0;
    let goes_on = |tried: u64| {
        if is_one {
            tried == 0
        } else if flagstone_testkit::is_long() {
            began.elapsed() < Duration::from_secs(600)
        } else {
            tried < quick
        }
    };
    while goes_on(tried) {
        let seed = first + tried;
        // The panic of a run says which it was.
        let at = SayOnPanic(seed);
        run(seed);
        drop(at);
        tried += 1;
    }
    eprintln!("{test}: {tried} runs from seed {first}");
}

struct SayOnPanic(u64);

impl Drop for SayOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to repeat it: FLAGSTONE_SEED={}", self.0);
        }
    }
}

#[test]
fn replies_are_those_of_the_model() {
    each_seed("replies_are_those_of_the_model", 24, turns::run);
}

#[test]
fn what_is_sent_again_after_a_power_cut_happens_once() {
    each_seed("what_is_sent_again_after_a_power_cut_happens_once", 10, power::run);
}

#[test]
fn clients_at_the_same_time_lose_and_double_nothing() {
    each_seed("clients_at_the_same_time_lose_and_double_nothing", 3, together::run);
}
