//! Is it a map? Random steps on the database and the model side by side, under random options, with
//! flushes, compactions and reopening in between. And: do options matter to results? They must not.

use flagstone::KeyspaceOptions;
use flagstone_testkit::workload::{Step, Workload};
use flagstone_testkit::{Driver, Rng, random_keyspace, random_options, rounds, seed};

const FOLDS: [Option<&str>; 3] = [None, Some("add-i64/1"), Some("append/1")];

fn random_keyspaces(rng: &mut Rng) -> Vec<KeyspaceOptions> {
    FOLDS.iter().map(|fold| random_keyspace(rng, *fold)).collect()
}

fn run(seed: u64, steps: u64) {
    let mut rng = Rng::new(seed);
    let options = random_options(&mut rng);
    let keyspaces = random_keyspaces(&mut rng);
    eprintln!("seed {seed}: {options:?} {keyspaces:?}");
    let keys = *rng.pick(&[20, 100, 400]);
    let mut workload = Workload::new(seed, &FOLDS, keys);
    let mut driver = Driver::new(seed, options, keyspaces);
    for at in 0..steps {
        let step = workload.step();
        if rng.percent(1) && matches!(step, Step::Get(..)) {
            let options = random_options(&mut rng);
            driver.reopen(Some(options));
        }
        driver.run(&step);
        if at % 1000 == 999 {
            driver.check_all();
        }
    }
    driver.check_all();
    driver.run(&Step::Compact);
    driver.check_all();
    driver.run(&Step::Verify);
    driver.reopen(None);
    driver.check_all();
}

#[test]
fn a_database_is_a_map_whatever_its_options() {
    let seed = seed("a_database_is_a_map_whatever_its_options", 1);
    for round in 0..rounds(6, 500) {
        run(seed + round, rounds(2000, 20_000));
    }
}

#[test]
fn the_same_steps_give_the_same_content_under_any_options() {
    let seed = seed("the_same_steps_give_the_same_content_under_any_options", 77);
    let mut digests = Vec::new();
    for round in 0..rounds(4, 50) {
        let mut rng = Rng::new(seed + round);
        let (options, keyspaces) = (random_options(&mut rng), random_keyspaces(&mut rng));
        let mut driver = Driver::new(seed + round, options, keyspaces);
        let mut workload = Workload::new(seed, &FOLDS, 150);
        for _ in 0..rounds(800, 10_000) {
            driver.run(&workload.step());
        }
        driver.check_all();
        digests.push(driver.model.digest());
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]));
}
