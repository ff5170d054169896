//! Curves over time, and the window around the slowest interval.

use crate::record::{EventKind, EventLine, RowLine};
use crate::stats::median;

/// Operations a second of each row, at the middle of its interval.
pub(crate) fn rates(rows: &[RowLine]) -> Vec<(f64, f64)> {
    let whole = rows.iter().filter(|row| row.dt > 0.0);
    whole.map(|row| (row.t - row.dt / 2.0, row.ops as f64 / row.dt)).collect()
}

/// Bytes of the store's files at the end of each row.
pub(crate) fn sizes_over_time(rows: &[RowLine]) -> Vec<(f64, f64)> {
    rows.iter().map(|row| (row.t, row.disk_bytes as f64)).collect()
}

/// Reduces points to about `most`: of each run of points the lowest and the highest stay, so that
/// no dip is lost.
pub(crate) fn thin(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most {
        return points.to_vec();
    }
    let run = points.len().div_ceil((most / 2).max(1));
    let mut out = Vec::with_capacity(most + 2);
    for run in points.chunks(run) {
        let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        if let (Some(low), Some(high)) = (run.iter().min_by(by), run.iter().max_by(by)) {
            let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
            out.push(*first);
            if first.0 < second.0 {
                out.push(*second);
            }
        }
    }
    out
}

/// The points inside `window`, and those where the line between points enters and leaves it.
pub(crate) fn clip(points: &[(f64, f64)], window: Moment) -> Vec<(f64, f64)> {
    let crossing = |a: (f64, f64), b: (f64, f64), x: f64| {
        (a.0 < x && x < b.0).then(|| (x, a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0)))
    };
    let mut out = Vec::new();
    for (at, &point) in points.iter().enumerate() {
        if let Some(before) = at.checked_sub(1).map(|before| points[before]) {
            out.extend(crossing(before, point, window.0));
            out.extend(crossing(before, point, window.1));
        }
        if point.0 >= window.0 && point.0 <= window.1 {
            out.push(point);
        }
    }
    out
}

/// Fewer rows need no window.
const WINDOW_ROWS_MIN: usize = 6;

/// The window around the slowest row: 60 seconds of a run of five minutes or more, else a tenth of
/// the run and at least ten rows, but never more than half of the run. A last, shorter row does not
/// count. `None` for a run of a few rows.
pub(crate) fn window_around_worst(rows: &[RowLine]) -> Option<(f64, f64)> {
    if rows.len() < WINDOW_ROWS_MIN {
        return None;
    }
    let step = median(rows.iter().map(|row| row.dt))?;
    let end = rows.last()?.t;
    let last = rows.len() - usize::from(rows.last().is_some_and(|row| row.dt < step * 0.9));
    let rate = |row: &&RowLine| row.ops as f64 / row.dt.max(1e-9);
    let worst = rows[..last].iter().min_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let width = if end >= 300.0 { 60.0 } else { end / 10.0 }.max(step * 10.0).min(end / 2.0);
    // A result file may hold any number as a time.
    if !(width > 0.0 && width.is_finite()) {
        return None;
    }
    let start = (worst.t - worst.dt / 2.0 - width / 2.0).clamp(0.0, end - width);
    Some((start, start + width))
}

/// A time span, from and to.
pub(crate) type Moment = (f64, f64);

/// The spans of events of a kind inside `window`. Spans nearer than `gap` become one.
pub(crate) fn moments(
    events: &[EventLine],
    kind: EventKind,
    window: Moment,
    gap: f64,
) -> Vec<Moment> {
    let of_kind = events.iter().filter(|event| event.kind == kind);
    let mut found: Vec<Moment> = of_kind
        .filter(|event| event.until >= window.0 && event.t <= window.1)
        .map(|event| (event.t.max(window.0), event.until.min(window.1)))
        .collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut out: Vec<Moment> = Vec::new();
    for moment in found {
        match out.last_mut() {
            Some(last) if moment.0 <= last.1 + gap => last.1 = last.1.max(moment.1),
            _ => out.push(moment),
        }
    }
    out
}

/// The spans inside `window` in which writers were delayed or stopped, and the share of the time of
/// `threads`, 0 to 1. Rows shorter than `least` are combined.
pub(crate) fn held_back(
    rows: &[RowLine],
    threads: f64,
    window: Moment,
    least: f64,
) -> Vec<(Moment, f64)> {
    // A row counts the stops that ended in it. Time beyond the length of the row belongs to the
    // rows before.
    let mut excess = 0.0;
    let mut held: Vec<(&RowLine, f64)> = Vec::new();
    for row in rows.iter().rev().filter(|row| row.dt > 0.0) {
        let (told, room) = (row.stalled_s.unwrap_or(0.0) + excess, row.dt * threads);
        excess = (told - room).max(0.0);
        held.push((row, told.min(room)));
    }
    held.reverse();
    held.retain(|(row, _)| row.t > window.0 && row.t - row.dt < window.1);
    let mut out = Vec::new();
    let mut rest = &held[..];
    while let Some((first, _)) = rest.first() {
        let begin = first.t - first.dt;
        let count = 1 + rest.iter().take_while(|(row, _)| row.t - begin < least).count();
        let (part, behind) = rest.split_at(count.min(rest.len()));
        let end = part.last().map_or(first.t, |(row, _)| row.t);
        let share = part.iter().map(|(_, held)| held).sum::<f64>() / ((end - begin) * threads);
        if share > 0.0 {
            out.push(((begin.max(window.0), end.min(window.1)), share));
        }
        rest = behind;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: u32, worst: u32) -> Vec<RowLine> {
        let row = |at: u32| RowLine {
            t: f64::from(at + 1),
            dt: 1.0,
            ops: if at == worst { 10 } else { 1000 },
            ..RowLine::default()
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn the_window_stands_around_the_worst_row_and_inside_the_run() {
        assert_eq!(window_around_worst(&rows(600, 300)), Some((270.5, 330.5)));
        assert_eq!(window_around_worst(&rows(600, 599)), Some((540.0, 600.0)));
        assert_eq!(window_around_worst(&rows(200, 0)), Some((0.0, 20.0)));
        assert_eq!(window_around_worst(&rows(20, 5)), Some((0.5, 10.5)));
        assert_eq!(window_around_worst(&rows(10, 5)), Some((3.0, 8.0)));
        assert_eq!(window_around_worst(&rows(5, 2)), None);
        assert_eq!(window_around_worst(&[]), None);
    }

    #[test]
    fn a_last_shorter_row_is_not_the_worst() {
        let mut rows = rows(600, 100);
        rows.push(RowLine { t: 600.01, dt: 0.01, ops: 0, ..RowLine::default() });
        assert_eq!(window_around_worst(&rows), Some((70.5, 130.5)));
    }

    #[test]
    fn thinning_keeps_the_dips() {
        let mut points: Vec<_> = (0..10_000).map(|x| (f64::from(x), 5.0)).collect();
        points[7_777].1 = 0.0;
        let thinned = thin(&points, 100);
        assert!(thinned.len() <= 102 && thinned.contains(&(7_777.0, 0.0)), "{}", thinned.len());
        assert!(thinned.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn a_clipped_line_begins_and_ends_at_the_window() {
        let line = [(0.0, 0.0), (10.0, 10.0), (20.0, 0.0)];
        assert_eq!(clip(&line, (5.0, 15.0)), [(5.0, 5.0), (10.0, 10.0), (15.0, 5.0)]);
        assert_eq!(clip(&line, (2.0, 4.0)), [(2.0, 2.0), (4.0, 4.0)]);
        assert_eq!(clip(&line, (-5.0, 50.0)), line);
        assert!(clip(&line, (30.0, 40.0)).is_empty());
    }

    #[test]
    fn the_time_for_which_writers_are_held_back_is_a_share_of_that_of_all_threads() {
        let mut rows = rows(4, 0);
        (rows[1].stalled_s, rows[3].stalled_s) = (Some(1.0), Some(4.0));
        let found = held_back(&rows, 4.0, (0.0, 3.5), 0.0);
        assert_eq!(found, [((1.0, 2.0), 0.25), ((3.0, 3.5), 1.0)]);
        assert!(held_back(&rows, 4.0, (0.0, 1.0), 0.0).is_empty());
        let halves = held_back(&rows, 4.0, (0.0, 4.0), 2.0);
        assert_eq!(halves, [((0.0, 2.0), 0.125), ((2.0, 4.0), 0.5)]);
    }

    #[test]
    fn a_long_stop_reaches_back_over_the_rows_in_which_nothing_ended() {
        let mut rows = rows(4, 0);
        rows[3].stalled_s = Some(9.0);
        let found = held_back(&rows, 4.0, (0.0, 4.0), 0.0);
        assert_eq!(found, [((1.0, 2.0), 0.25), ((2.0, 3.0), 1.0), ((3.0, 4.0), 1.0)]);
    }

    #[test]
    fn moments_that_touch_are_one() {
        let event = |t, until| EventLine {
            t,
            until,
            kind: EventKind::Flush,
            bytes: 0,
            what: String::new(),
        };
        let events = [event(5.0, 6.0), event(0.0, 1.0), event(1.5, 2.0), event(9.0, 12.0)];
        let found = moments(&events, EventKind::Flush, (0.5, 10.0), 0.6);
        assert_eq!(found, [(0.5, 2.0), (5.0, 6.0), (9.0, 10.0)]);
        assert!(moments(&events, EventKind::Stall, (0.0, 10.0), 1.0).is_empty());
    }
}
