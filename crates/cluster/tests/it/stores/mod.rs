//! What every store promises, by the same tests for the one in memory and for Cassandra.

mod batches;
mod catalog;
mod pages;
mod parts;
mod races;

/// Runs each of these tests on each store. They get a store, and the number of a generation that no
/// other test uses.
macro_rules! on_each_store {
    ($($of:ident::$name:ident,)*) => {
        mod mem {
            use flagstone_cluster::mem::Mem;
            $(
                #[test]
                fn $name() {
                    super::$of::$name(&Mem::new(), 1);
                }
            )*
        }

        #[cfg(feature = "cql")]
        mod cassandra {
            $(
                #[test]
                #[ignore = "needs Cassandra: cargo xtask cluster"]
                fn $name() {
                    let (store, generation) = crate::nodes::shared();
                    super::$of::$name(&store, generation);
                }
            )*
        }
    };
}

on_each_store! {
    batches::a_batch_is_applied_whole_or_refused,
    batches::a_batch_expects_the_epoch_of_its_partition,
    batches::a_condition_on_a_row_that_stays_leaves_it_as_it_is,
    batches::a_set_replaces_all_of_a_row,
    batches::deleted_rows_are_gone_and_can_come_again,
    batches::rows_that_have_expired_are_returned,
    batches::many_rows_of_several_kinds_are_one_batch,
    batches::long_keys_and_values_are_kept,
    batches::rows_are_removed_without_the_epoch,
    batches::rows_of_one_kind_are_removed_alone,
    catalog::a_note_is_set_only_over_the_expected_version,
    catalog::all_notes_are_listed,
    pages::pages_follow_each_other_in_both_directions,
    pages::a_page_has_the_rows_between_its_bounds,
    pages::keys_are_sorted_as_bytes,
    pages::a_page_of_keys_has_no_values,
    pages::many_partitions_are_read_at_once,
    pages::rows_are_found_by_keys_of_several_kinds,
    pages::a_row_alone_is_read_with_the_epoch,
    races::no_increment_of_several_writers_is_lost,
    races::one_of_several_sets_an_epoch,
}
