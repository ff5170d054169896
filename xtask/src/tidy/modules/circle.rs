//! Circles of a graph: its strongly connected components, and the shortest way around in one.

use super::graph::Graph;
use std::collections::VecDeque;

/// Returns the components of more than one file, the largest first, each in the order of its files.
pub(crate) fn circles(graph: &Graph) -> Vec<Vec<usize>> {
    let count = graph.files.len();
    let reached: Vec<Vec<bool>> = (0..count).map(|from| reachable(graph, from)).collect();
    let mut seen = vec![false; count];
    let mut found = Vec::new();
    for first in 0..count {
        if seen[first] || !reached[first][first] {
            continue;
        }
        let members: Vec<usize> = (first..count)
            .filter(|&other| reached[first][other] && reached[other][first])
            .collect();
        members.iter().for_each(|&member| seen[member] = true);
        found.push(members);
    }
    found.sort_by_key(|members| (usize::MAX - members.len(), members.first().copied()));
    found
}

/// Returns the files that `from` reaches in one or more steps.
fn reachable(graph: &Graph, from: usize) -> Vec<bool> {
    let mut reached = vec![false; graph.files.len()];
    let mut waiting = vec![from];
    while let Some(file) = waiting.pop() {
        for &next in graph.needs[file].keys() {
            if !std::mem::replace(&mut reached[next], true) {
                waiting.push(next);
            }
        }
    }
    reached
}

/// Returns a shortest way around among `members`. The file it begins with is not repeated at the
/// end.
pub(crate) fn shortest(graph: &Graph, members: &[usize]) -> Vec<usize> {
    let ways = members.iter().filter_map(|&start| around(graph, start));
    ways.min_by_key(Vec::len).unwrap_or_default()
}

/// Returns a shortest way from `start` back to it.
fn around(graph: &Graph, start: usize) -> Option<Vec<usize>> {
    let mut came_from: Vec<Option<usize>> = vec![None; graph.files.len()];
    let mut waiting = VecDeque::from([start]);
    while let Some(file) = waiting.pop_front() {
        for &next in graph.needs[file].keys() {
            if next == start {
                let mut way = vec![file];
                while let Some(before) = way.last().and_then(|&last| came_from[last]) {
                    way.push(before);
                }
                way.reverse();
                return Some(way);
            }
            if came_from[next].is_none() {
                came_from[next] = Some(file);
                waiting.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::modules::graph::Reason;

    fn graph(count: usize, needs: &[(usize, usize)]) -> Graph {
        let mut graph = Graph {
            files: (0..count).map(|file| file.to_string()).collect(),
            needs: vec![Default::default(); count],
        };
        for &(from, to) in needs {
            let reason = Reason { what: String::new(), file: from, line: 1, is_impl: false };
            graph.needs[from].insert(to, reason);
        }
        graph
    }

    #[test]
    fn files_that_reach_each_other_are_one_circle() {
        let graph = graph(8, &[(0, 1), (1, 0), (1, 2), (2, 3), (3, 4), (4, 2), (5, 6), (6, 7)]);
        assert_eq!(circles(&graph), [vec![2, 3, 4], vec![0, 1]]);
        assert!(shortest(&graph, &[5, 6]).is_empty());
    }

    #[test]
    fn the_way_around_that_is_shown_is_a_shortest_one() {
        let graph = graph(5, &[(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 2)]);
        assert_eq!(circles(&graph), [vec![0, 1, 2, 3, 4]]);
        assert_eq!(shortest(&graph, &[0, 1, 2, 3, 4]), [2, 3, 4]);
    }
}
