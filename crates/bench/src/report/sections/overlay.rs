//! Several runs over time in one panel.

use crate::report::chart::{Across, Curve, CurvePanel, Style, Unit, step};
use crate::report::data::{Cell, rates, sizes_over_time, smooth, thin};

/// A cell and its name in the panel.
pub(super) type Named<'c, 'a> = (&'c Cell<'a>, String);

/// What is drawn of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Rates: dots, and a smoothed line.
    Rate,
    /// Bytes on disk: a line.
    Size,
}

/// A panel of the middle trial of each cell.
pub(super) fn panel(title: &str, what: What, cells: &[Named<'_, '_>]) -> CurvePanel {
    let draw = |(at, (cell, name)): (usize, &Named<'_, '_>)| {
        let rows = &cell.middle().rows;
        let (points, dots) = match what {
            What::Rate => {
                let dots = rates(rows);
                let length = dots.last().map_or(0.0, |last| last.0);
                let gap = length / dots.len().max(1) as f64;
                // A twentieth to each side, and two neighbours at least.
                (smooth(&dots, (length / 20.0).max(gap * 2.5)), dots)
            }
            What::Size => (sizes_over_time(rows), Vec::new()),
        };
        Curve {
            label: name.clone(),
            color: step(at, cells.len()),
            shape: at,
            style: Style::Plain,
            points: thin(&points, 800),
            spread: Vec::new(),
            dots: thin(&dots, 800),
        }
    };
    let up = match what {
        What::Rate => (Unit::Count, "Documents a second".to_owned()),
        What::Size => (Unit::Bytes, "Size on disk".to_owned()),
    };
    let ends = cells.iter().filter_map(|(cell, _)| cell.middle().rows.last()).map(|row| row.t);
    let end = ends.fold(0.0, f64::max);
    CurvePanel {
        title: title.to_owned(),
        across: (Across::Seconds(end), "Time".to_owned()),
        up,
        curves: cells.iter().enumerate().map(draw).collect(),
        notes: Vec::new(),
    }
}

/// Whether all cells have enough rows to be curves.
pub(super) fn has_rows(cell: &Cell<'_>) -> bool {
    cell.middle().rows.len() >= 5
}
