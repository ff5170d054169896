//! Colours that readers with any kind of colour vision can tell apart.

/// Text and axes.
pub(in crate::report) const INK: &str = "#1f2933";
/// Text that may be overlooked.
pub(in crate::report) const QUIET: &str = "#5f6b7a";
/// Lines of a grid.
pub(in crate::report) const FAINT: &str = "#e4e7eb";
/// Grounds.
pub(in crate::report) const PALE: &str = "#f5f7fa";

/// For things without an order, after Okabe and Ito; yellow is too light for a line and is left out.
const HUES: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#b6569a", "#c98a00", "#3ba3dc", "#5b4b8a", "#6b6b6b"];

/// For things with an order, light to dark as viridis.
const STEPS: [&str; 7] =
    ["#a5c63b", "#4fb56a", "#25938b", "#2f708e", "#3d4e8a", "#46307e", "#2d0a3f"];

/// The colour of the `at`-th thing without an order.
pub(in crate::report) fn hue(at: usize) -> &'static str {
    HUES[at % HUES.len()]
}

/// The colour of the `at`-th of `count` things in order.
pub(in crate::report) fn step(at: usize, count: usize) -> &'static str {
    // Few steps lie far apart, and in the middle of the scale, where contrast is good on white.
    let of = match count {
        0..=2 => [2, 4, 4, 4, 4, 4, 4],
        3 => [1, 3, 5, 5, 5, 5, 5],
        4 => [0, 2, 4, 5, 5, 5, 5],
        5 => [0, 1, 2, 4, 5, 5, 5],
        _ => [0, 1, 2, 3, 4, 5, 6],
    };
    STEPS[of[at.min(6)]]
}
