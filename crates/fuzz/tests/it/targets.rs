//! Can bytes hurt? Every target replays its seeds, its corpus and some mutations; and the fuzzer
//! finds what is planted.

use flagstone_fuzz::{Limits, Mutator, Target, corpus, fuzz, run_once, target};
use flagstone_testkit::memory::Counting;
use flagstone_testkit::{rounds, seed};
use std::time::Duration;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Runs what is known of a target, and some inputs that are not.
fn replay(name: &str, quick: u64) {
    let target = target(name).unwrap();
    let corpus = corpus(target);
    assert!(!corpus.is_empty(), "{name} has no corpus");
    for (path, input) in corpus {
        run_once(target, &input).unwrap_or_else(|said| panic!("{}: {said}", path.display()));
    }
    let executions = rounds(quick, quick * 200);
    let limits = Limits { executions, time: Duration::MAX, trace: None };
    if let Err(failure) = fuzz(target, seed(name, 1), &limits) {
        panic!("{name}: {}\ninput: {:?}", failure.said, failure.input.escape_ascii().to_string());
    }
}

#[test]
fn hostile_tables_do_no_harm() {
    replay("table", 1500);
}

#[test]
fn hostile_logs_do_no_harm() {
    replay("log", 150);
}

#[test]
fn hostile_manifests_do_no_harm() {
    replay("manifest", 400);
}

#[test]
fn a_hostile_current_does_no_harm() {
    replay("current", 200);
}

#[test]
fn hostile_edits_do_no_harm() {
    replay("edit", 20_000);
}

#[test]
fn hostile_documents_do_no_harm() {
    replay("document", 5000);
}

#[test]
fn hostile_patches_do_no_harm() {
    replay("patch", 5000);
}

#[test]
fn hostile_json_patches_do_no_harm() {
    replay("json_patch", 10_000);
}

#[test]
fn hostile_json_does_no_harm() {
    replay("json", 10_000);
}

#[test]
fn hostile_jsonpaths_do_no_harm() {
    replay("jsonpath", 5000);
}

#[test]
fn hostile_bson_does_no_harm() {
    replay("bson", 10_000);
}

#[test]
fn hostile_messages_do_no_harm() {
    replay("wire", 10_000);
}

#[test]
fn hostile_commands_do_no_harm() {
    replay("command", 300);
}

#[test]
fn hostile_requests_of_http_do_no_harm() {
    replay("http", 2000);
}

#[test]
fn hostile_updates_do_no_harm() {
    replay("update", 3000);
}

#[test]
fn hostile_pipelines_do_no_harm() {
    replay("pipeline", 500);
}

#[test]
fn hostile_logins_do_no_harm() {
    replay("scram", 3000);
}

#[test]
fn hostile_filters_do_no_harm() {
    replay("filter", 4000);
}

#[test]
fn hostile_projections_sorts_and_groups_do_no_harm() {
    replay("query", 4000);
}

#[test]
fn hostile_definitions_of_indexes_do_no_harm() {
    replay("index", 300);
}

#[test]
fn hostile_tokens_do_no_harm() {
    replay("token", 2000);
}

#[test]
fn hostile_sort_keys_do_no_harm_and_order_as_their_values() {
    replay("sort_key", 10_000);
}

#[test]
fn hostile_text_of_many_documents_does_no_harm() {
    replay("bulk", 4000);
}

#[test]
fn hostile_files_that_are_loaded_do_no_harm() {
    replay("load", 200);
}

/// A reader with a mistake: it believes the second length.
fn mistaken(bytes: &[u8]) {
    let Some((b"len", [len, rest @ ..])) = bytes.split_first_chunk::<3>() else { return };
    assert!(rest.len() < 40 || usize::from(*len) < rest.len(), "a length is believed");
}

fn mistaken_seeds() -> Vec<Vec<u8>> {
    vec![[b"len\x05", &[7; 90][..]].concat()]
}

#[test]
fn a_mistake_is_found_made_small_and_found_again_by_its_seed() {
    let target = Target {
        name: "mistaken",
        about: "",
        body: mistaken,
        seeds: mistaken_seeds,
        has_checksums: false,
    };
    let limits = Limits { executions: 100_000, time: Duration::MAX, trace: None };
    let failure = fuzz(&target, 3, &limits).unwrap_err();
    assert!(failure.said.contains("a length is believed"), "{}", failure.said);
    assert_eq!(failure.input.len(), 44, "nothing more can be left out");
    assert!(run_once(&target, &failure.input).is_err());
    let again = fuzz(&target, 3, &limits).unwrap_err();
    assert_eq!((again.executions, again.input), (failure.executions, failure.input));
}

#[test]
fn memory_beyond_its_bound_is_found() {
    let body = |bytes: &[u8]| {
        let (_, taken) = flagstone_testkit::memory::peak(|| vec![0_u8; bytes.len() * 1000]);
        assert!(taken.unwrap() < 100 * bytes.len(), "too much");
    };
    let seeds = || vec![vec![1; 100]];
    let target = Target { name: "greedy", about: "", body, seeds, has_checksums: false };
    let limits = Limits { executions: 1, time: Duration::MAX, trace: None };
    assert!(fuzz(&target, 1, &limits).unwrap_err().said.contains("too much"));
}

#[test]
fn the_same_seed_makes_the_same_inputs() {
    let inputs = |seed| {
        let mut mutator = Mutator::new(seed, vec![b"some bytes".to_vec(), vec![9; 300]]);
        (0..200).map(|_| mutator.next_input()).collect::<Vec<_>>()
    };
    assert_eq!(inputs(1), inputs(1));
    assert_ne!(inputs(1), inputs(2));
}
