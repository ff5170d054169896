//! One run over time: rate, size, and what the engine did meanwhile.

use crate::record::{EventKind, Trial};
use crate::report::chart::{
    Axis, Frame, LegendEntry, PALE, Panel, Scale, Svg, Swatch, Unit, WIDTH, draw_legend,
};
use crate::report::data::{
    Moment, clip, moments, rates, sizes_over_time, thin, window_around_worst,
};

/// Kinds of events in lanes under the plot, with their colours.
const LANES: [(EventKind, &str, &str); 3] = [
    (EventKind::Flush, "flushes", "#3ba3dc"),
    (EventKind::Compaction, "compactions", "#c98a00"),
    (EventKind::Stall, "stalls", "#c0212f"),
];
const LANE: f64 = 11.0;
const HEAD: f64 = 70.0;
const HEIGHT: f64 = 150.0;
const PANEL_TITLE: f64 = 20.0;
const RATE: &str = "#0072b2";
const SIZE: &str = "#7a4b94";

/// Draws the run under a title.
pub(super) fn draw(trial: &Trial, title: &str, subtitle: &str) -> String {
    let end = trial.rows.last().map_or(1.0, |row| row.t);
    let mut windows = vec![("The whole run".to_owned(), (0.0, end))];
    if let Some(window) = window_around_worst(&trial.rows) {
        let title = format!("Around the slowest interval: {:.0} to {:.0} s", window.0, window.1);
        windows.push((title, window));
    }
    let lanes: Vec<_> =
        LANES.iter().filter(|lane| trial.events.iter().any(|event| event.kind == lane.0)).collect();
    let below = lanes.len() as f64 * LANE + Panel::BELOW + 8.0;
    let step = PANEL_TITLE + Panel::ABOVE + HEIGHT + below;
    let mut svg =
        Svg::new(WIDTH, HEAD + windows.len() as f64 * step, &format!("{title}. {subtitle}"));
    svg.title(title, subtitle);
    let mut legend: Vec<LegendEntry> = vec![
        (Swatch::Color(RATE), "operations a second (left)".to_owned()),
        (Swatch::Color(SIZE), "size on disk (right)".to_owned()),
    ];
    legend.extend(lanes.iter().map(|lane| (Swatch::Color(lane.2), lane.1.to_owned())));
    draw_legend(&mut svg, (0.0, 56.0), WIDTH, &legend);
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
    svg.finish()
}

type Lane = (EventKind, &'static str, &'static str);

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
        svg.rect([left, frame.top, wide, frame.height], LANES[2].2, 0.14, "");
    }
    // The axis below stands under the lanes.
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
    for (at, (kind, name, color)) in lanes.iter().enumerate() {
        let top = frame.bottom() + 3.0 + at as f64 * LANE;
        for (from, until) in moments(&trial.events, *kind, window, gap / 2.0) {
            let left = x.at(from);
            let wide = (x.at(until) - left).max(1.0);
            let tip = format!("{name}: {from:.2} to {until:.2} s");
            svg.rect([left, top, wide, LANE - 2.0], color, 0.85, &tip);
        }
    }
}
