//! Crashes at every change of the disk: a replica that has seen some of the feed continues after
//! it, and is equal to the database.

use super::keeping;
use super::replica::{Replica, keyspaces, write};
use flagstone::internal::env::Op;
use flagstone::{Durability, Result};
use flagstone_testkit::{Rng, World, rounds, seed};

/// Writes, follows, flushes, closes and opens, until the disk fails.
fn run(world: &World, rng: &mut Rng, replica: &mut Replica) -> Result<()> {
    for _ in 0..3 {
        let session = world.open(&keeping())?;
        let of = keyspaces(&session.db)?;
        for _ in 0..25 {
            let durability = match rng.below(8) {
                0 => Durability::None,
                1 => Durability::Group,
                _ => Durability::Buffered,
            };
            write(&session.db, &of, rng, durability)?;
            match rng.below(8) {
                0 => session.db.flush()?,
                1 => session.db.sync()?,
                2 => replica.follow(&session.db),
                _ => {}
            }
        }
        drop(of);
        session.db.close()?;
    }
    Ok(())
}

#[test]
fn a_replica_continues_after_a_crash_at_any_change_of_the_disk() {
    let seed = seed("a_replica_continues_after_a_crash_at_any_change_of_the_disk", 11);
    for round in 0..rounds(1, 20) {
        let seed = seed + round;
        let world = World::new(seed);
        run(&world, &mut Rng::new(seed), &mut Replica::default()).unwrap();
        let counts = world.mem.counts();
        let total: u64 = Op::CHANGES.iter().map(|op| counts.of(*op)).sum();
        let stride = (total / rounds(60, 400)).max(1);
        for at in (1 + round % stride..=total).step_by(stride as usize) {
            crash_at(seed, at);
        }
    }
}

fn crash_at(seed: u64, at: u64) {
    let (world, mut replica) = (World::new(seed), Replica::default());
    world.disk.cut_power_at(at);
    let _cut = run(&world, &mut Rng::new(seed), &mut replica);
    let world = match at % 2 {
        0 => world.after_power_cut(seed ^ at),
        _ => world.after_kill(seed ^ at),
    };
    let story = format!("seed {seed}, change {at}");
    let session = world.open(&keeping()).unwrap_or_else(|error| panic!("{story}: {error}"));
    session.db.sync().unwrap();
    let mut other = Replica::default();
    replica.follow(&session.db);
    replica.check(&session.db, &story);
    other.follow(&session.db);
    other.check(&session.db, &format!("{story}, from the start"));
    session.db.verify().unwrap();
}
