//! The simulator over a few histories that are always the same; `cargo xtask sim` runs others for
//! as long as one likes.

use flagstone_testkit::{rounds, seed, sim};

#[test]
fn histories_of_everything_keep_what_was_promised() {
    let seed = seed("histories_of_everything_keep_what_was_promised", 1);
    let mut totals = sim::Totals::default();
    for seed in seed..seed + rounds(60, 5000) {
        let plan = sim::plan(seed);
        match sim::run(seed, &plan) {
            Ok(outcome) => totals += outcome.totals,
            Err(failure) => panic!(
                "seed {seed}, {failure}\n\
                 for a shorter history: cargo xtask sim --seed {seed} --only"
            ),
        }
    }
    assert!(totals.large > 0 && totals.expiring > 0 && totals.ingests > 0, "{totals}");
    assert!(totals.indexes > 0 && totals.delivered > 0, "{totals}");
    assert!(totals.conflicts > 0 && totals.splits > 0 && totals.moves > 0, "{totals}");
    eprintln!("{totals}");
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 1..=12 {
        let plan = sim::plan(seed);
        let run = || sim::run(seed, &plan).map_err(|failure| failure.to_string());
        assert_eq!(run(), run(), "seed {seed}");
    }
}
