//! Every run over time, by workload: rate, size, and the background work of the engine.

use crate::record::{EventKind, Trial};
use crate::report::chart::{
    Axis, Figure, Frame, LegendEntry, PALE, Panel, Scale, Svg, Swatch, Unit, WIDTH, draw_legend,
};
use crate::report::data::{
    Moment, clip, held_back, moments, plural, rates, shown, sizes_over_time, thin,
    window_around_worst,
};
use crate::report::model::{Material, grouped, slug};
use crate::report::page::Page;
use crate::stats::median;
use std::collections::BTreeSet;

/// The least number of rows that make a curve.
const ROWS_MIN: usize = 5;

pub(super) fn runs(material: &Material<'_>, page: &mut Page) {
    let long = material.trials.iter().filter(|trial| trial.rows.len() >= ROWS_MIN);
    let groups = grouped(long, |trial| (&trial.header.workload, &trial.header.engine));
    let mut ids = BTreeSet::new();
    for ((workload, engine), mut trials) in groups {
        trials.sort_by_key(|trial| {
            (trial.number("partitions"), trial.number("threads"), trial.header.started.clone())
        });
        let runs = plural(trials.len() as u64, "run");
        let rate = median(trials.iter().map(|trial| trial.summary.ops_per_s)).unwrap_or(0.0);
        let title = format!("{workload}, {engine}: {runs}, median {}", Unit::Rate.show(rate));
        page.folded(&title, |page| {
            trials.iter().for_each(|trial| page.figure(figure(trial, &mut ids)));
        });
    }
}

fn figure(trial: &Trial, ids: &mut BTreeSet<String>) -> Figure {
    let header = &trial.header;
    let mut place = Vec::new();
    for (option, name) in [("partitions", "partition"), ("threads", "thread")] {
        if let Some(count) = trial.number(option) {
            place.push(plural(count, name));
        }
    }
    for option in ["durability", "how"] {
        if header.options.contains_key(option) {
            place.push(shown(trial, option));
        }
    }
    let title = format!("{}, {}: {}", header.workload, header.engine, place.join(", "));
    let summary = &trial.summary;
    let subtitle = format!(
        "{} over {}; median interval {}, slowest {}; started {}",
        Unit::Rate.show(summary.ops_per_s),
        Unit::Seconds.show(summary.seconds),
        Unit::Rate.show(summary.row_median),
        Unit::Rate.show(summary.row_worst),
        header.started,
    );
    let base = slug(&format!("run-{}-{}-{}", header.workload, header.engine, place.join("-")));
    let mut id = base.clone();
    let mut repetition = 2;
    while !ids.insert(id.clone()) {
        id = format!("{base}-{repetition}");
        repetition += 1;
    }
    draw(trial, &title, &subtitle, &id)
}

/// A lane under the plot, which shows one kind of work during the operations.
struct Lane {
    what: What,
    name: &'static str,
    color: &'static str,
}

enum What {
    /// Events of the engine of one kind.
    Told(EventKind),
    /// Delays and stops of writers; the larger their share of the time, the darker.
    HeldBack,
}

const LANES: [Lane; 4] = [
    Lane { what: What::Told(EventKind::Flush), name: "flushes", color: "#3ba3dc" },
    Lane { what: What::Told(EventKind::Compaction), name: "compactions", color: "#c98a00" },
    Lane { what: What::Told(EventKind::Stall), name: "writers stopped", color: STOPPED },
    Lane { what: What::HeldBack, name: "delayed or stopped (darker: longer)", color: "#d1498b" },
];
const STOPPED: &str = "#c0212f";
const LANE: f64 = 11.0;
const HEAD: f64 = 70.0;
const HEIGHT: f64 = 150.0;
const PANEL_TITLE: f64 = 20.0;
const RATE: &str = "#0072b2";
const SIZE: &str = "#7a4b94";

/// Draws the run under a title.
fn draw(trial: &Trial, title: &str, subtitle: &str, id: &str) -> Figure {
    let end = trial.rows.last().map_or(1.0, |row| row.t);
    let mut windows = vec![("The whole run".to_owned(), (0.0, end))];
    if let Some(window) = window_around_worst(&trial.rows) {
        let title = format!("Around the slowest interval: {:.0} to {:.0} s", window.0, window.1);
        windows.push((title, window));
    }
    let lanes: Vec<_> =
        LANES.iter().filter(|lane| !lane.moments(trial, (0.0, end), 0.0).is_empty()).collect();
    let below = lanes.len() as f64 * LANE + Panel::BELOW + 8.0;
    let step = PANEL_TITLE + Panel::ABOVE + HEIGHT + below;
    let mut svg = Svg::new(title, subtitle, HEAD + windows.len() as f64 * step);
    let mut legend: Vec<LegendEntry> = vec![
        (Swatch::Color(RATE), "operations a second (left)".to_owned()),
        (Swatch::Color(SIZE), "size on disk (right)".to_owned()),
    ];
    legend.extend(lanes.iter().map(|lane| (Swatch::Color(lane.color), lane.name.to_owned())));
    draw_legend(&mut svg, 56.0, &legend);
    for (at, (name, window)) in windows.iter().enumerate() {
        let top = HEAD + at as f64 * step;
        svg.bold(10.0, top + 16.0, 13.0, name);
        let frame = Frame {
            left: Panel::LEFT,
            top: top + PANEL_TITLE + Panel::ABOVE,
            width: WIDTH - 2.0 * Panel::LEFT,
            height: HEIGHT,
        };
        panel(&mut svg, trial, frame, *window, &lanes);
    }
    svg.finish(id)
}

impl Lane {
    /// Returns the times of the work inside `window`, each with its share, 0 to 1. Times nearer to
    /// each other than `gap` are joined.
    fn moments(&self, trial: &Trial, window: Moment, gap: f64) -> Vec<(Moment, f64)> {
        match self.what {
            What::Told(kind) => {
                let told = moments(&trial.events, kind, window, gap).into_iter();
                told.map(|moment| (moment, 1.0)).collect()
            }
            What::HeldBack => {
                let threads = trial.header.options.get("threads").and_then(|n| n.as_f64());
                held_back(&trial.rows, threads.unwrap_or(1.0), window, 2.0 * gap)
            }
        }
    }
}

fn panel(svg: &mut Svg, trial: &Trial, frame: Frame, window: Moment, lanes: &[&Lane]) {
    let x = Scale::linear(window, frame.across(0.0));
    let (rates, sizes) = (rates(&trial.rows), sizes_over_time(&trial.rows));
    let most = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
    let y = Scale::from_zero(most(&rates), frame.up());
    let right = Scale::from_zero(most(&sizes), frame.up());
    svg.rect([frame.left, frame.top, frame.width, frame.height], PALE, 0.6, "");
    let gap = (window.1 - window.0) / frame.width;
    for (from, until) in moments(&trial.events, EventKind::Stall, window, gap) {
        let left = x.at(from);
        let wide = (x.at(until) - left).max(0.6);
        svg.rect([left, frame.top, wide, frame.height], STOPPED, 0.14, "");
    }
    // The lower axis is below the lanes.
    let tall = Frame { height: frame.height + lanes.len() as f64 * LANE + 4.0, ..frame };
    let panel = Panel {
        frame: tall,
        x: Axis::round("Seconds", Unit::Count, x, 10),
        y: Axis::round("Operations/s", Unit::Count, y, 4),
    };
    panel.draw(svg);
    panel.draw_right(svg, &Axis::round("Size", Unit::Bytes, right, 4), SIZE);
    let inside = |points: &[(f64, f64)], scale: &Scale| -> Vec<(f64, f64)> {
        thin(&clip(points, window), 1000)
            .iter()
            .map(|point| (x.at(point.0), scale.at(point.1)))
            .collect()
    };
    let places = inside(&rates, &y);
    svg.area(&places, frame.bottom(), RATE, 0.10);
    svg.path(&inside(&sizes, &right), SIZE, 1.4);
    svg.path(&places, RATE, 1.6);
    for (at, lane) in lanes.iter().enumerate() {
        let top = frame.bottom() + 3.0 + at as f64 * LANE;
        for ((from, until), share) in lane.moments(trial, window, gap / 2.0) {
            let left = x.at(from);
            let wide = (x.at(until) - left).max(1.0);
            let share_told = match lane.what {
                What::Told(_) => String::new(),
                What::HeldBack => format!(", {:.0} % of the threads' time", share * 100.0),
            };
            let tip = format!("{}: {from:.2} to {until:.2} s{share_told}", lane.name);
            svg.rect([left, top, wide, LANE - 2.0], lane.color, 0.1 + 0.75 * share, &tip);
        }
    }
}
