//! Finds the anomalies of a history.

use super::anomaly::{Anomaly, Found, Level};
use super::graph::{Graph, Why, show};
use super::history::{IndexedHistory, Transaction};

/// Returns the anomalies of a history. Its last transaction must have read all keys, after all
/// others had ended.
pub fn find(transactions: &[Transaction]) -> Vec<Found> {
    let mut history = IndexedHistory::new(transactions);
    history.check_writes();
    let graph = Graph::of(&history);
    let is_ww = |why| matches!(why, Why::Ww(_));
    let is_wr = |why| matches!(why, Why::Ww(_) | Why::Wr(_));
    let Some(any) = graph.circle(|_why| true) else { return history.found };
    // The first one that is there is the worst: its steps are allowed in those after it.
    let (anomaly, circle) = None
        .or_else(|| Some((Anomaly::WriteCycle, graph.circle(is_ww)?)))
        .or_else(|| Some((Anomaly::CircularInformation, graph.circle(is_wr)?)))
        .or_else(|| Some((Anomaly::StaleRead, graph.circle(|why| !why.is_rw())?)))
        .or_else(|| Some((Anomaly::SingleAntiDependency, graph.circle_of_rw(true)?)))
        .or_else(|| Some((Anomaly::NonadjacentAntiDependencies, graph.circle_of_rw(false)?)))
        .unwrap_or((Anomaly::AntiDependencyCycle, any));
    let found = Found::new(anomaly, show(&history, &circle));
    history.found.push(found);
    history.found
}

/// Checks that a history has no anomaly that `level` forbids.
///
/// # Errors
/// A text of the first one.
pub fn check(transactions: &[Transaction], level: Level) -> Result<(), String> {
    let found = find(transactions);
    match found.iter().find(|found| found.anomaly.is_forbidden_by(level)) {
        Some(Found { anomaly, what }) => Err(format!("{anomaly:?}: {what}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::Op::{Append, Read};
    use super::*;
    use crate::anomalies::Op;

    /// Transactions at the same time, and the reads of the end.
    fn history(transactions: &[&[Op]], end: &[(u64, &[u64])]) -> Vec<Transaction> {
        let all = transactions.iter().zip(0..);
        let mut all: Vec<Transaction> = all
            .map(|(ops, at)| Transaction { ops: ops.to_vec(), is_committed: true, time: (at, 99) })
            .collect();
        let ops = end.iter().map(|(key, list)| Read(*key, list.to_vec())).collect();
        all.push(Transaction { ops, is_committed: true, time: (100, 101) });
        all
    }

    fn names(history: &[Transaction]) -> Vec<Anomaly> {
        find(history).into_iter().map(|found| found.anomaly).collect()
    }

    #[test]
    fn one_after_another_is_no_anomaly() {
        let mut fine = history(
            &[
                &[Read(1, vec![]), Append(1, 10), Read(1, vec![10]), Append(2, 20)],
                &[Read(2, vec![20]), Append(1, 11), Append(1, 12), Read(1, vec![10, 11, 12])],
                &[Read(1, vec![10]), Read(2, vec![20])],
            ],
            &[(1, &[10, 11, 12]), (2, &[20])],
        );
        assert_eq!(names(&fine), []);
        for (at, transaction) in (0..).zip(&mut fine[..2]) {
            transaction.time = (10 * at, 10 * at + 5);
        }
        assert_eq!(names(&fine), []);
        fine[2].time = (50, 51);
        assert_eq!(names(&fine), [Anomaly::SingleAntiDependency], "it came too late for that");
    }

    #[test]
    fn a_read_that_misses_own_writes_or_differs_from_the_one_before_is_internal() {
        let misses = history(&[&[Append(1, 10), Read(1, vec![])]], &[(1, &[10])]);
        assert_eq!(names(&misses)[0], Anomaly::Internal);
        let differs =
            history(&[&[Read(1, vec![]), Read(1, vec![10])], &[Append(1, 10)]], &[(1, &[10])]);
        assert_eq!(names(&differs)[0], Anomaly::Internal);
    }

    #[test]
    fn a_read_of_what_was_aborted_or_never_written_is_found() {
        let mut dirty = history(&[&[Append(1, 10)], &[Read(1, vec![10])]], &[(1, &[10])]);
        assert_eq!(names(&dirty), []);
        dirty[0].is_committed = false;
        assert!(names(&dirty).contains(&Anomaly::AbortedRead));
        let invented = history(&[&[Read(1, vec![7])]], &[(1, &[7])]);
        assert!(names(&invented).contains(&Anomaly::AbortedRead));
    }

    #[test]
    fn a_read_between_two_writes_of_one_transaction_is_found() {
        let half =
            history(&[&[Append(1, 10), Append(1, 11)], &[Read(1, vec![10])]], &[(1, &[10, 11])]);
        assert!(names(&half).contains(&Anomaly::IntermediateRead));
    }

    #[test]
    fn writes_that_are_gone_doubled_or_in_two_orders_are_found() {
        let gone = history(&[&[Append(1, 10)], &[Append(1, 11)]], &[(1, &[11])]);
        assert_eq!(names(&gone), [Anomaly::LostWrite]);
        let twice = history(&[&[Append(1, 10)]], &[(1, &[10, 10])]);
        assert!(names(&twice).contains(&Anomaly::Twice));
        let orders =
            history(&[&[Append(1, 10)], &[Append(1, 11)], &[Read(1, vec![11])]], &[(1, &[10, 11])]);
        assert!(names(&orders).contains(&Anomaly::IncompatibleOrder));
    }

    #[test]
    fn a_lost_update_is_found_by_name() {
        let lost = history(
            &[&[Read(1, vec![]), Append(1, 10)], &[Read(1, vec![]), Append(1, 11)]],
            &[(1, &[10, 11])],
        );
        assert_eq!(names(&lost), [Anomaly::LostUpdate, Anomaly::SingleAntiDependency]);
    }

    #[test]
    fn circles_have_the_name_of_what_they_need() {
        let g0 = history(
            &[&[Append(1, 10), Append(2, 20)], &[Append(1, 11), Append(2, 21)]],
            &[(1, &[10, 11]), (2, &[21, 20])],
        );
        assert_eq!(names(&g0), [Anomaly::WriteCycle]);
        let g1c = history(
            &[&[Append(1, 10), Read(2, vec![20])], &[Append(2, 20), Read(1, vec![10])]],
            &[(1, &[10]), (2, &[20])],
        );
        assert_eq!(names(&g1c), [Anomaly::CircularInformation]);
        let skewed_read = history(
            &[&[Append(1, 10), Append(2, 20)], &[Read(1, vec![10]), Read(2, vec![])]],
            &[(1, &[10]), (2, &[20])],
        );
        assert_eq!(names(&skewed_read), [Anomaly::SingleAntiDependency]);
        for found in [&g0, &g1c, &skewed_read] {
            assert!(check(found, Level::Snapshot).is_err());
        }
    }

    /// Two readers see two writes in different orders: no two anti-dependencies follow each other.
    #[test]
    fn a_long_fork_is_no_snapshot_isolation() {
        let fork = history(
            &[
                &[Append(1, 10)],
                &[Append(2, 20)],
                &[Read(1, vec![10]), Read(2, vec![])],
                &[Read(1, vec![]), Read(2, vec![20])],
            ],
            &[(1, &[10]), (2, &[20])],
        );
        assert_eq!(names(&fork), [Anomaly::NonadjacentAntiDependencies]);
        assert!(check(&fork, Level::Snapshot).is_err());
    }

    #[test]
    fn write_skew_is_allowed_by_snapshots_alone() {
        let skew = history(
            &[&[Read(1, vec![]), Append(2, 20)], &[Read(2, vec![]), Append(1, 10)]],
            &[(1, &[10]), (2, &[20])],
        );
        assert_eq!(names(&skew), [Anomaly::AntiDependencyCycle]);
        check(&skew, Level::Snapshot).unwrap();
        assert!(check(&skew, Level::Serializable).is_err());
    }

    #[test]
    fn a_transaction_that_misses_what_was_committed_before_it_began_is_found() {
        let mut stale = history(&[&[Append(1, 10)], &[Read(1, vec![])]], &[(1, &[10])]);
        assert_eq!(names(&stale), []);
        (stale[0].time, stale[1].time) = ((0, 5), (6, 7));
        assert_eq!(names(&stale), [Anomaly::SingleAntiDependency]);
        let mut order = history(&[&[Append(1, 10)], &[Append(1, 11)]], &[(1, &[11, 10])]);
        assert_eq!(names(&order), []);
        (order[0].time, order[1].time) = ((0, 5), (6, 7));
        assert_eq!(names(&order), [Anomaly::StaleRead]);
    }
}
