//! Tests of which compaction is picked, as text.

use crate::bench_tree::{context, first_full, small_options};
use flagstone_base::{Compression, ErrorKind, FileNumber, Moment, Result, SeqNo, TreeId};
use flagstone_env::MemDisk;
use flagstone_sst::{Expiries, TableMeta, TableOptions};
use flagstone_tree::{
    KeyBounds, Policy, TreeEdit, TreeOptions, Version, next_expiry, pick, pick_expired, pick_trim,
    pressure,
};

/// Parses a table: `L1 7 a..f #3 2000` is level, number, bounds, SeqNo and bytes. The word
/// `deletes` or `ranges` gives it some, `lz4` or `zstd` sets its compression. `@10-20-30` gives
/// all 100 entries expiries: the first, middle and last moment; `%` before it only half of them.
fn version(tables: &[&str]) -> Version {
    try_version(tables).unwrap()
}

fn try_version(tables: &[&str]) -> Result<Version> {
    let mut edit = TreeEdit::new(TreeId(3));
    for line in tables {
        let words: Vec<&str> = line.split(' ').collect();
        let (smallest, largest) = words[2].split_once("..").unwrap();
        let seqno = SeqNo::new(words[3][1..].parse().unwrap());
        let expiries = words.iter().find_map(|word| {
            let (share, moments) = word.split_once('@')?;
            let mut moments = moments.split('-').map(|m| Moment::from_millis(m.parse().unwrap()));
            let mut next = || moments.next().unwrap();
            let count = if share == "%" { 50 } else { 100 };
            Some(Expiries { count, min: next(), median: next(), max: next() })
        });
        let meta = TableMeta {
            number: FileNumber(words[1].parse().unwrap()),
            bytes: words[4].parse().unwrap(),
            smallest: smallest.into(),
            largest: largest.into(),
            seqno_min: seqno,
            seqno_max: seqno,
            entries: 100,
            deletes: if words.contains(&"deletes") { 60 } else { 0 },
            range_deletes: u64::from(words.contains(&"ranges")),
            expiries: expiries.unwrap_or_default(),
            compression: match () {
                () if words.contains(&"lz4") => Some(Compression::Lz4),
                () if words.contains(&"zstd") => Some(Compression::Zstd(1)),
                () => None,
            },
            ..TableMeta::default()
        };
        edit.added.push((words[0][1..].parse().unwrap(), meta));
    }
    Version::empty().apply(&context(&MemDisk::default(), 1, true), &edit)
}

fn options() -> TreeOptions {
    TreeOptions { level_base_bytes: 1000, ..small_options() }
}

fn picked(tables: &[&str]) -> String {
    let job = pick(&version(tables), &options(), Policy::Leveling);
    job.map_or_else(|| "nothing".to_owned(), |job| job.to_string())
}

fn picked_at(millis: u64, tables: &[&str]) -> String {
    picked_expired((millis, Policy::Leveling), &options(), tables)
}

fn picked_expired(
    (millis, policy): (u64, Policy),
    options: &TreeOptions,
    tables: &[&str],
) -> String {
    let job = pick_expired(&version(tables), options, policy, Moment::from_millis(millis));
    job.map_or_else(|| "nothing".to_owned(), |job| job.to_string())
}

#[test]
fn a_table_is_dropped_when_its_last_entry_and_everything_older_below_it_has_expired() {
    let alone = ["L6 1 a..f #3 900 @10-20-30", "L6 2 g..k #3 900"];
    assert_eq!(picked_at(30, &alone), "expired: L6 000001 drop");
    let column = [
        "L0 1 c..d #9 100 @10-20-30",
        "L0 2 a..f #7 100 @10-20-30",
        "L5 3 d..k #5 400 @10-20-25",
        "L6 4 e..m #3 900 @1-1-1",
    ];
    assert_eq!(picked_at(30, &column), "expired: L0 000001 000002, L5 000003, L6 000004 drop");
    assert_eq!(picked_at(29, &column), "expired: L5 000003, L6 000004 drop");
    for lives in ["L6 4 d..d #3 900", "L6 4 d..d #3 900 @1-1-31", "L6 4 d..d #3 900 %@1-1-1"] {
        let [first, second, third, _] = column;
        let picked = picked_at(30, &[first, second, third, lives]);
        assert!(!picked.contains("drop"), "{picked} above {lives}");
        let beside = lives.replace("d..d", "z..z");
        let picked = picked_at(30, &[first, second, third, &beside]);
        assert_eq!(picked, "expired: L0 000001 000002, L5 000003 drop");
    }
}

#[test]
fn a_table_with_a_deleted_range_is_never_dropped_unread() {
    assert!(!picked_at(99, &["L6 1 a..f #3 900 @1-1-1 ranges"]).contains("drop"));
}

#[test]
fn a_table_is_written_again_when_its_median_has_passed() {
    let last = ["L6 1 a..f #3 900 @10-20-9000", "L6 2 g..k #3 900"];
    assert_eq!(
        (picked_at(19, &last), picked_at(20, &last)),
        ("nothing".to_owned(), "expired: L6 000001 -> L6".to_owned())
    );
    let upper = ["L5 1 a..f #3 900 @10-20-9000", "L6 2 d..k #1 900", "L6 3 m..n #1 900"];
    assert_eq!(picked_at(20, &upper), "expired: L5 000001, L6 000002 -> L6");
    let alone = ["L5 1 a..f #3 900 @10-20-9000", "L6 3 m..n #1 900"];
    assert_eq!(picked_at(20, &alone), "expired: L5 000001 -> L6");
    let l0 = ["L0 1 a..f #9 90 @10-20-9000", "L0 2 a..b #5 90", "L6 3 e..k #1 900"];
    assert_eq!(picked_at(20, &l0), "expired: L0 000001 000002, L6 000003 -> L6");
    let half = ["L6 1 a..f #3 900 %@10-20-30"];
    assert_eq!(
        (picked_at(29, &half), picked_at(30, &half)),
        ("nothing".to_owned(), "expired: L6 000001 -> L6".to_owned())
    );
}

#[test]
fn a_table_that_can_soon_be_dropped_is_not_written_again_at_its_median() {
    let drop = "expired: L6 000001 drop";
    for (table, picked) in [
        ("L6 1 a..f #3 900 @10-20-30", ["nothing", "nothing", drop]),
        ("L6 1 a..f #3 900 @10-20-40", ["nothing", "nothing", "nothing"]),
        // Too far away for what has passed since the first entry expired.
        ("L6 1 a..f #3 900 @10-20-41", ["expired: L6 000001 -> L6", "nothing", "nothing"]),
        ("L6 1 a..f #3 900 @10-20-9000", ["expired: L6 000001 -> L6"; 3]),
        ("L6 1 a..f #3 900 @10-20-30 ranges", ["expired: L6 000001 -> L6"; 3]),
    ] {
        assert_eq!([20, 29, 30].map(|millis| picked_at(millis, &[table])), picked, "{table}");
    }
}

#[test]
fn a_table_that_could_not_be_dropped_in_the_end_is_written_again() {
    let tables = ["L5 1 a..f #9 100 @10-20-30", "L6 2 a..f #3 900"];
    let picked = [29, 30].map(|millis| picked_at(millis, &tables));
    assert_eq!(picked, ["nothing", "expired: L5 000001, L6 000002 -> L6"]);
}

#[test]
fn a_table_of_l0_whose_half_has_expired_stays_if_what_it_overlaps_is_too_much_for_a_job() {
    let small = TreeOptions { job_bytes_min: 1000, ..options() };
    let picked = |options: &TreeOptions, older: &str| {
        let tables = ["L0 1 a..c #9 100 @10-20-9000", older, "L6 3 a..z #1 500"];
        picked_expired((20, Policy::Leveling), options, &tables)
    };
    let whole = "expired: L0 000001 000002, L6 000003 -> L6";
    assert_eq!(picked(&small, "L0 2 b..z #5 400"), whole);
    assert_eq!(picked(&small, "L0 2 b..z #5 401"), "nothing");
    assert_eq!(picked(&options(), "L0 2 b..z #5 401"), whole);
    // One that is too large leaves the others alone.
    let beside = [
        "L0 1 a..c #9 100 @10-20-9000",
        "L0 2 b..k #5 900",
        "L0 4 x..z #9 100 @10-20-9000",
        "L0 5 w..x #5 100",
        "L6 3 a..f #1 500",
    ];
    let picked = picked_expired((20, Policy::Leveling), &small, &beside);
    assert_eq!(picked, "expired: L0 000004 000005 -> L6");
}

#[test]
fn a_table_of_a_level_whose_half_has_expired_stays_if_what_it_overlaps_is_too_much_for_a_job() {
    let small = TreeOptions { job_bytes_min: 1000, ..options() };
    let picked = |options: &TreeOptions, tables: &[&str]| {
        picked_expired((20, Policy::Leveling), options, tables)
    };
    let upper = "L5 1 a..c #9 100 @10-20-9000";
    let whole = "expired: L5 000001, L6 000002 -> L6";
    assert_eq!(picked(&small, &[upper, "L6 2 b..z #1 900"]), whole);
    assert_eq!(picked(&small, &[upper, "L6 2 b..z #1 901"]), "nothing");
    assert_eq!(picked(&options(), &[upper, "L6 2 b..z #1 901"]), whole);
    // One that is too large leaves the others alone.
    let beside = ["L5 3 x..z #9 100 @10-20-9000", "L6 2 a..k #1 901", "L6 4 y..z #1 50"];
    let picked = picked(&small, &[upper, beside[0], beside[1], beside[2]]);
    assert_eq!(picked, "expired: L5 000003, L6 000004 -> L6");
}

#[test]
fn a_table_of_the_last_level_is_written_again_whatever_a_job_may_take() {
    let small = TreeOptions { job_bytes_min: 1000, ..options() };
    let table = ["L6 1 a..c #9 5000 @10-20-9000"];
    let picked = picked_expired((20, Policy::Leveling), &small, &table);
    assert_eq!(picked, "expired: L6 000001 -> L6");
}

/// Four tables of 1 MiB that each spanned a quarter of a last level of 10 GB were four compactions
/// of 2.5 GB.
#[test]
fn a_table_whose_half_has_expired_stays_if_a_job_would_read_32_times_what_has_expired() {
    let whole = "expired: L5 000001, L6 000002 -> L6";
    for (upper, most) in [
        ("L5 1 a..c #9 100 @10-20-9000", 1500),
        ("L5 1 a..c #9 100 @10-20-20", 3100),
        ("L5 1 a..c #9 100 %@10-90-90 deletes", 1852),
    ] {
        let below = |bytes: u64| format!("L6 2 b..z #1 {bytes}");
        assert_eq!(picked_at(20, &[upper, &below(most)]), whole, "{upper}");
        assert_eq!(picked_at(20, &[upper, &below(most + 1)]), "nothing", "{upper}");
    }
    let column = |older: &str| picked_at(20, &["L0 1 a..c #9 100 @10-20-9000", older]);
    let both = "expired: L0 000001 000002 -> L6";
    assert_eq!(column("L0 2 b..z #5 1500"), both);
    assert_eq!(column("L0 2 b..z #5 1501"), "nothing");
    assert_eq!(column("L0 2 b..z #5 1501 %@10-90-90"), both, "some of the older one has expired");
}

#[test]
fn under_tiering_tables_are_dropped_and_only_those_of_the_last_level_written_again() {
    let picked = |table| picked_expired((20, Policy::Tiering), &options(), &[table]);
    assert_eq!(picked("L0 1 a..f #9 100 @10-20-20"), "expired: L0 000001 drop");
    assert_eq!(picked("L6 1 a..f #9 100 @10-20-9000"), "expired: L6 000001 -> L6");
    for upper in ["L0 1 a..f #9 100 @10-20-9000", "L5 1 a..f #9 100 @10-20-9000"] {
        assert_eq!(picked(upper), "nothing", "{upper}");
    }
}

#[test]
fn the_next_moment_to_look_at_a_tree_is_the_first_of_its_tables() {
    let version =
        version(&["L6 1 a..f #3 900 @10-20-30", "L6 2 g..k #3 9 %@15-15-40", "L6 3 m..n #3 9"]);
    let next = |millis| next_expiry(&version, Moment::from_millis(millis)).map(Moment::millis);
    let moments = [0, 10, 15, 20, 30, 40].map(next);
    assert_eq!(moments, [Some(10), Some(15), Some(20), Some(30), Some(40), None]);
}

#[test]
fn tables_of_one_level_that_overlap_are_refused() {
    let level = |bounds: [&str; 2]| {
        let [one, two] = bounds;
        try_version(&[&format!("L1 1 {one} #3 100"), &format!("L1 2 {two} #5 100")])
    };
    let overlapping =
        [["a..c", "b..d"], ["user1..z", "user2..user3"], ["mmm..z", "mmm..mmm"], ["a..b", "a..b"]];
    for bounds in overlapping {
        let error = level(bounds).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{bounds:?}");
        assert!(error.to_string().contains("tables of one run overlap"), "{error}");
    }
    assert_eq!(level(["user1..user3", "user4..z"]).unwrap().tables().count(), 2);
}

#[test]
fn nothing_is_picked_from_a_tree_in_shape() {
    assert_eq!(picked(&[]), "nothing");
    assert_eq!(picked(&["L0 1 a..f #9 100", "L6 2 a..z #3 5000"]), "nothing");
}

#[test]
fn overlapping_runs_of_l0_go_down_with_what_they_overlap() {
    let tables = ["L0 1 a..f #7 100", "L0 2 c..h #9 100", "L6 3 b..d #3 400", "L6 4 x..z #3 400"];
    assert_eq!(picked(&tables), "l0: L0 000002 000001, L6 000003 -> L6");
}

#[test]
fn a_table_of_the_oldest_run_that_overlaps_nothing_below_is_moved() {
    let tables = ["L0 1 a..f #7 100", "L0 2 c..h #9 100", "L6 4 x..z #3 400"];
    assert_eq!(picked(&tables), "l0: L0 000001 move L6");
}

#[test]
fn a_table_with_tombstones_is_written_again_where_they_can_go() {
    let tables = ["L0 1 a..f #7 100 deletes", "L0 2 c..h #9 100 deletes"];
    assert_eq!(picked(&tables), "l0: L0 000002 000001 -> L6");
    let tables = ["L5 1 a..f #7 100 deletes", "L6 2 x..z #3 400"];
    assert_eq!(picked(&tables), "tombstones: L5 000001 -> L6");
}

#[test]
fn a_table_full_of_tombstones_stays_if_what_it_overlaps_is_too_much_for_a_job() {
    let small = TreeOptions { job_bytes_min: 1000, ..options() };
    let picked = |tables: &[&str]| {
        let job = pick(&version(tables), &small, Policy::Leveling);
        job.map_or_else(|| "nothing".to_owned(), |job| job.to_string())
    };
    let upper = "L5 1 a..c #9 100 deletes";
    let whole = "tombstones: L5 000001, L6 000002 -> L6";
    assert_eq!(picked(&[upper, "L6 2 b..z #1 900"]), whole);
    assert_eq!(picked(&[upper, "L6 2 b..z #1 901"]), "nothing");
    let beside = ["L5 3 x..z #9 100 deletes", "L6 2 a..k #1 901", "L6 4 y..z #1 50"];
    let picked = picked(&[upper, beside[0], beside[1], beside[2]]);
    assert_eq!(picked, "tombstones: L5 000003, L6 000004 -> L6");
}

#[test]
fn a_level_that_is_too_large_hands_down_the_table_that_overlaps_least() {
    let tables = [
        "L5 1 a..f #7 1500",
        "L5 2 g..m #7 1500",
        "L5 3 n..z #7 1500",
        "L6 4 a..e #3 4000",
        "L6 5 h..i #3 500",
        "L6 6 p..q #3 4000",
    ];
    assert_eq!(picked(&tables), "size: L5 000002, L6 000005 -> L6");
}

#[test]
fn the_base_level_rises_with_the_size_of_the_last_level() {
    let l0 = ["L0 1 a..b #8 10", "L0 2 a..b #9 10"];
    let with = |last: &'static str| picked(&[l0[0], l0[1], last]);
    assert_eq!(with("L6 3 a..z #3 900"), "l0: L0 000002 000001, L6 000003 -> L6");
    assert_eq!(with("L6 3 a..z #3 3900"), "l0: L0 000001 move L5");
    assert_eq!(with("L6 3 a..z #3 15900"), "l0: L0 000001 move L4");
}

fn picked_tiering(tables: &[&str]) -> String {
    picked_in_turn(7, tables)
}

fn picked_in_turn(turn: u8, tables: &[&str]) -> String {
    let options = TreeOptions { turn, ..options() };
    let job = pick(&version(tables), &options, Policy::Tiering);
    job.map_or_else(|| "nothing".to_owned(), |job| job.to_string())
}

#[test]
fn tiering_leaves_as_many_runs_in_l0_as_it_may() {
    let tables = ["L0 1 a..f #7 100", "L0 2 a..f #8 100", "L0 3 a..f #9 100", "L6 4 a..z #3 4000"];
    assert_eq!(picked_tiering(&tables), "nothing");
}

#[test]
fn tiering_merges_the_neighbouring_runs_that_cost_least_for_each_run_less() {
    let tables = [
        "L0 1 a..f #5 900",
        "L0 2 a..f #6 100",
        "L0 3 a..f #7 100",
        "L0 4 a..f #8 800",
        "L6 5 a..z #3 4000",
    ];
    assert_eq!(picked_tiering(&tables), "runs: L0 000003 000002 -> L0");
    let tables = ["L0 1 a..f #5 9", "L0 2 a..f #6 9", "L0 3 a..f #7 9", "L0 4 a..f #8 9"];
    assert_eq!(picked_tiering(&tables), "runs: L0 000004 000003 000002 000001 -> L0");
}

/// Table 4 has a newer SeqNo than table 5, and is in the same run as an older table. Merged with
/// table 2 it would count as newer than 5.
#[test]
fn tiering_never_merges_across_a_run_that_stays() {
    let tables = [
        "L0 1 a..z #1 900",
        "L0 2 a..f #2 100",
        "L0 3 a..f #3 100",
        "L0 5 a..f #5 900",
        "L0 4 m..z #6 10",
        "L6 6 a..z #0 4000",
    ];
    assert_eq!(picked_tiering(&tables), "runs: L0 000005 000003 000002 000004 -> L0");
}

#[test]
fn tiering_sends_l0_down_to_the_last_level_when_it_holds_twice_what_is_below() {
    let below = ["L5 3 c..k #4 500", "L6 4 a..b #3 4000", "L6 5 h..m #3 4500", "L6 6 n..p #3 1"];
    let with = |bytes: &str| {
        let l0 = [format!("L0 1 d..f #8 {bytes}"), "L0 2 e..g #9 2000".to_owned()];
        // The turn in which the factor is exactly two.
        picked_in_turn(4, &[&l0[0], &l0[1], below[0], below[1], below[2], below[3]])
    };
    assert_eq!(with("16100"), "l0: L0 000002 000001, L5 000003, L6 000005 -> L6");
    assert_eq!(with("15900"), "nothing");
}

#[test]
fn trees_that_fill_alike_are_merged_in_turns() {
    let runs = ["L0 1 a..f #5 90", "L0 2 a..f #6 90", "L0 3 a..f #7 90", "L0 4 a..f #8 90"];
    let old = ["L0 1 a..f #5 400", runs[1], runs[2]];
    let merged = |turn, tables: &[&str]| picked_in_turn(turn, tables) != "nothing";
    assert!(merged(7, &runs) && !merged(7, &runs[..3]));
    assert!(merged(6, &runs[..3]) && !merged(6, &runs[..2]));
    assert!(!merged(6, &old), "merged once before: no turn applies any more");
}

#[test]
fn input_in_key_order_is_moved_down_under_tiering_too() {
    let tables = ["L0 1 a..b #8 600", "L0 2 c..d #9 600"];
    assert_eq!(picked_tiering(&tables), "l0: L0 000001 000002 move L6");
}

#[test]
fn a_full_compaction_leaves_clean_tables_that_nothing_overlaps() {
    let full = |tables: &[&str]| picked_fully(&options(), tables);
    assert_eq!(full(&["L6 1 a..f #3 100 zstd"]), "nothing");
    let tables = [
        "L0 1 a..c #9 10 lz4",
        "L6 2 b..f #3 10 zstd",
        "L6 3 x..z #3 10 zstd",
        "L6 4 m..n #3 10 zstd ranges",
    ];
    assert_eq!(full(&tables), "full: L0 000001, L6 000002 000004 -> L6");
}

fn picked_fully(options: &TreeOptions, tables: &[&str]) -> String {
    let job = first_full(&version(tables), options);
    job.map_or_else(|| "nothing".to_owned(), |job| job.to_string())
}

#[test]
fn a_full_compaction_takes_tables_that_were_not_written_with_the_last_levels_compression() {
    let with = |bottom_compression| {
        let tables = TableOptions { bottom_compression, ..TableOptions::default() };
        TreeOptions { tables, ..options() }
    };
    let tables = ["L6 1 a..b #3 10", "L6 2 c..d #3 10 lz4", "L6 3 e..f #3 10 zstd"];
    let full = |compression| picked_fully(&with(compression), &tables);
    assert_eq!(full(Compression::Zstd(1)), "full: L6 000001 000002 -> L6");
    assert_eq!(full(Compression::Zstd(2)), "full: L6 000001 000002 000003 -> L6");
    assert_eq!(full(Compression::Lz4), "full: L6 000001 000003 -> L6");
}

#[test]
fn runs_follow_from_overlap_and_numbers_alone() {
    let version =
        version(&["L0 4 x..z #9 10", "L0 3 b..d #8 10", "L0 2 f..h #7 10", "L0 1 a..c #6 10"]);
    let lines: Vec<String> = version.to_string().lines().map(|l| l[..14].to_owned()).collect();
    assert_eq!(lines, ["L0.1 000003 [b", "L0.0 000001 [a", "L0.0 000002 [f", "L0.0 000004 [x"]);
    assert_eq!(pressure(&version, &options(), Policy::Leveling).l0_runs, 2);
}

#[test]
fn an_edit_that_does_not_fit_is_refused() {
    let context = context(&MemDisk::default(), 1, true);
    let base = version(&["L6 1 a..f #3 100"]);
    let meta = base.tables().next().unwrap().1.meta().clone();
    let apply = |edit: &TreeEdit| base.apply(&context, edit).map(|_| ());
    let mut edit = TreeEdit::new(TreeId(3));
    edit.removed.push(FileNumber(9));
    assert!(apply(&edit).is_err());
    let mut edit = TreeEdit::new(TreeId(3));
    edit.added.push((6, TableMeta { number: FileNumber(2), ..meta.clone() }));
    assert!(apply(&edit).is_err());
    let mut edit = TreeEdit::new(TreeId(3));
    edit.added.push((5, meta.clone()));
    assert!(apply(&edit).is_err());
    edit.removed.push(meta.number);
    assert!(apply(&edit).is_ok());
    let mut edit = TreeEdit::new(TreeId(3));
    edit.added.push((7, TableMeta { number: FileNumber(2), ..meta }));
    assert!(apply(&edit).is_err());
}

/// Picks a trim in a tree that has the keys from m on.
fn trimmed(floor: Option<u64>, job_bytes_min: u64, tables: &[&str]) -> String {
    let bounds = Some(std::sync::Arc::new(KeyBounds::new(b"m".to_vec(), None)));
    let options = TreeOptions { bounds, job_bytes_min, ..options() };
    let job = pick_trim(&version(tables), &options, floor.map(SeqNo::new));
    job.map_or_else(|| "nothing".to_owned(), |job| job.to_string())
}

/// Each table was a job of its own, and an edit.
#[test]
fn tables_of_l0_that_reach_across_a_bound_are_trimmed_together() {
    let tables = [
        "L0 1 a..p #5 100",
        "L0 2 c..r #6 100",
        "L0 3 s..t #6 90",
        "L0 4 d..q #7 100",
        "L6 5 a..z #3 50",
        "L6 6 zz..zzz #3 50",
    ];
    assert_eq!(trimmed(None, 1000, &tables), "bounds: L0 000004 000002 000001 -> L0");
    let alone = ["L0 4 d..q #7 100", "L6 5 a..z #3 50"];
    assert_eq!(trimmed(None, 1000, &alone), "bounds: L6 000005 -> L6", "the smallest");
    assert_eq!(trimmed(None, 1000, &["L0 3 s..t #6 90"]), "nothing");
}

#[test]
fn runs_that_are_trimmed_together_are_no_more_than_one_job_takes() {
    let tables = [
        "L0 1 a..p #5 900",
        "L0 2 c..r #6 300",
        "L0 3 a..t #7 300",
        "L0 4 d..q #8 300",
        "L0 5 d..q #9 300",
    ];
    assert_eq!(trimmed(None, 1000, &tables), "bounds: L0 000004 000003 000002 -> L0");
    assert_eq!(trimmed(None, 500, &tables), "bounds: L0 000002 -> L0");
}

/// Merged without table 3, which stays, the entries of 4 would count as older than those of 3, or
/// those of 2 as newer.
#[test]
fn runs_that_are_trimmed_together_take_along_what_lies_between() {
    let between = ["L0 2 c..r #6 100", "L0 3 p..t #7 90", "L0 4 d..s #8 100"];
    assert_eq!(trimmed(None, 1000, &between), "bounds: L0 000004 000003 000002 -> L0");
    let large = ["L0 2 c..r #6 100", "L0 3 p..t #7 290", "L0 4 d..s #8 101"];
    assert_eq!(trimmed(None, 1000, &large), "bounds: L0 000002 -> L0", "not much more than these");
}

#[test]
fn a_trim_does_not_merge_across_a_floor() {
    let tables = ["L0 1 a..p #5 50", "L0 2 c..r #6 100", "L0 3 a..t #7 100", "L0 4 d..q #8 100"];
    assert_eq!(trimmed(Some(6), 1000, &tables), "bounds: L0 000002 000001 -> L0");
    assert_eq!(trimmed(Some(5), 1000, &tables), "bounds: L0 000001 -> L0");
}
