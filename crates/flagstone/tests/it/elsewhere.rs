//! The tests of collections once more, over clusters.
//!
//! What a query finds, what a patch does and what an index holds must not depend on what stores the
//! bytes. So these tests run the program of tests again, with `FLAGSTONE_STORE`: then a
//! [`World`](flagstone_testkit::World) lends its databases the collections of crate
//! `flagstone-cluster` over a store in memory, or over Cassandra.

use flagstone_testkit::cassandra::{CommitLog, Nodes, Setup};
use std::process::Command;

/// The modules that are run.
const MODULES: [&str; 6] = [
    "queries::",
    "patches::",
    "documents::",
    "indexes::edges",
    "indexes::build",
    "indexes::random",
];

/// What is left out: the tests that ..
const LEFT_OUT: [(&str, &[&str]); 4] = [
    ("are transactions", &["transactions::"]),
    (
        "read or write several documents as of one moment",
        &[
            "indexes::build::a_build_that_fails_or_is_cancelled_leaves_the_index_of_another_call",
            "indexes::build::a_cancelled_build_leaves_no_index",
            "indexes::build::a_drop_of_an_index_drops_indexes_alone",
            "indexes::build::an_index_of_more_entries_than_memory_holds_is_built_by_spilling",
            "indexes::edges::a_malformed_definition_is_refused_with_its_place",
            "indexes::edges::a_million_documents_have_one_value",
            "indexes::random::indexes_are_what_the_model_says_after_any_history",
            "patches::a_condition_that_does_not_hold_is_told_or_counted",
            "patches::a_patch_reads_nothing_and_is_never_folded_across_a_snapshot",
            "patches::json_patches_and_merge_patches_change_stored_documents_whole_or_not",
            "queries::basics::a_query_in_a_transaction_conflicts_with_a_write_to_what_it_has_read",
            "queries::basics::documents_that_expire_are_found_until_then",
            "queries::basics::what_is_malformed_is_refused_when_the_query_runs",
            "queries::covered::an_index_whose_documents_have_arrays_covers_no_projection",
            "queries::covered::distinct_values_come_from_elements_of_arrays_too",
            "queries::covered::entries_of_gone_changed_and_expired_documents_cover_nothing",
            "queries::key_order::a_sort_by_the_primary_key_reads_no_more_than_its_documents",
            "queries::key_order::every_plan_has_the_order_of_the_primary_key",
            "queries::keys::writes_by_filter_and_pages_begin_at_their_keys",
            "queries::merged::a_transaction_rests_on_what_a_merge_has_read",
            "queries::merged::a_transaction_rests_on_what_follows_a_token",
            "queries::plans::a_hint_with_a_filter_that_nothing_matches_finds_nothing",
            "queries::plans::a_transaction_finds_its_own_documents_by_an_index",
            "queries::plans::an_index_that_is_newer_than_the_snapshot_is_not_used",
            "queries::random::queries_return_what_a_model_returns_with_every_plan",
            "queries::statistics::distinct_values_are_known_within_the_error_that_is_told",
            "queries::statistics::values_of_a_small_index_are_counted_in_memory",
            "queries::writes::a_transaction_changes_the_first_documents_of_a_sort",
            "queries::writes::a_transaction_changes_what_it_sees_and_all_or_nothing",
            "queries::writes::a_write_that_may_not_happen_at_all_refuses_no_documents",
        ],
    ),
    (
        "compare plans by samples of tables, or by what they read of them",
        &[
            "queries::key_order::an_index_of_one_value_is_read_in_either_order_of_the_key",
            "queries::key_order::the_planner_sorts_few_keys_and_scans_for_many",
            "queries::keys::the_keys_bound_the_entries_of_one_value_in_an_index",
            "queries::merged::a_document_with_several_of_the_values_comes_once",
            "queries::merged::conditions_on_what_is_sorted_by_bound_each_range",
            "queries::merged::few_entries_are_counted",
            "queries::merged::further_fields_of_the_index_decide_ties",
            "queries::merged::ranges_are_merged_in_the_order_of_the_primary_key",
            "queries::merged::ranges_in_the_order_of_the_sort_are_read_one_after_another",
            "queries::merged::the_first_of_several_values_reads_one_entry_of_each",
            "queries::plans::a_rare_value_is_found_by_its_index_and_a_popular_one_by_a_scan",
            "queries::plans::an_estimate_follows_the_values_that_the_tables_have",
            "queries::several::alternatives_on_different_paths_are_found",
            "queries::values::parts_have_all_documents_of_one_moment_once",
        ],
    ),
    (
        "look at files, versions and limits of a database in a directory",
        &[
            "indexes::build::a_document_that_does_not_fit_ends_the_build_and_is_named",
            "indexes::edges::a_build_refuses_a_document_that_no_commit_could_remove",
            "indexes::edges::a_collection_without_logged_writes_keeps_its_indexes_whole",
            "indexes::edges::a_definition_leaves_room_for_what_an_index_learns",
            "indexes::edges::a_document_has_at_most_ten_thousand_entries",
            "indexes::edges::a_dropped_or_renamed_collection_takes_its_indexes_along",
            "patches::a_collection_of_patch_1_takes_new_kinds_once_it_is_upgraded",
            "patches::through_flushes_compactions_and_reopening",
            "patches::who_reads_is_told_and_who_does_not_is_counted",
            "queries::basics::a_cursor_reads_one_snapshot_whatever_happens_to_the_collection",
            "queries::basics::a_database_open_for_reading_sorts_in_memory",
            "queries::basics::a_sort_leaves_writers_the_space_that_they_need",
            "queries::pages::a_token_of_another_query_collection_or_database_is_refused",
            "queries::values::a_dropped_index_ends_the_parts_that_have_not_begun",
        ],
    ),
];

/// Runs them. At least so many must pass.
fn run(store: &str, threads: &str, least: u32) {
    if flagstone_testkit::is_elsewhere() {
        return;
    }
    let mut tests = Command::new(std::env::current_exe().unwrap());
    tests.env(flagstone_testkit::STORE, store).args(["--test-threads", threads]).args(MODULES);
    for name in LEFT_OUT.iter().flat_map(|(_why, names)| *names) {
        tests.args(["--skip", name]);
    }
    let done = tests.output().unwrap();
    let out = String::from_utf8_lossy(&done.stdout);
    let passed = out.lines().find_map(|line| line.strip_prefix("test result: ok. "));
    let passed = passed.and_then(|line| line.split(' ').next()?.parse::<u32>().ok());
    assert!(done.status.success() && passed.is_some_and(|passed| passed >= least), "{out}");
}

#[test]
fn the_tests_of_collections_hold_over_a_cluster() {
    run("mem", "2", 100);
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn the_tests_of_collections_hold_in_cassandra() {
    let commit_log = CommitLog::Periodic;
    let nodes = Nodes::start(Setup::of(1, commit_log));
    run(&format!("cql://{}/tests?rf=1", nodes.hosts()), "4", 100);
}
