//! Labels beside the ends of lines: near their line, and never over each other.

use super::svg::{Anchor, Svg};

/// A label for something at height `y`.
#[derive(Clone, Debug)]
pub(in crate::report) struct Label {
    pub(in crate::report) y: f64,
    pub(in crate::report) text: String,
    pub(in crate::report) color: &'static str,
    /// Of the marks of its line.
    pub(in crate::report) shape: usize,
}

/// Height of a line of text.
const LINE: f64 = 15.0;

/// Draws `labels` to the right of `x`, with a thin line to what had to be moved.
pub(in crate::report) fn draw(svg: &mut Svg, x: f64, bounds: (f64, f64), mut labels: Vec<Label>) {
    labels.sort_by(|a, b| a.y.total_cmp(&b.y));
    let wanted: Vec<f64> = labels.iter().map(|label| label.y).collect();
    for (label, y) in labels.iter().zip(apart(&wanted, LINE, bounds)) {
        if (y - label.y).abs() > 2.0 {
            svg.path(&[(x + 4.0, label.y), (x + 9.0, y), (x + 11.0, y)], label.color, 0.8);
        }
        svg.mark(label.shape, (x + 17.0, y), 4.5, label.color, "");
        svg.text(x + 25.0, y + 4.0, Anchor::Start, super::palette::INK, &label.text);
    }
}

/// Moves ascending places at least `gap` apart and inside `bounds` where there is room: neighbours
/// that touch form a block around the mean of where they wanted to be.
pub(super) fn apart(wanted: &[f64], gap: f64, bounds: (f64, f64)) -> Vec<f64> {
    // A block: its first place in the order, how many, and the sum of where its first would stand.
    let mut blocks: Vec<(usize, usize, f64)> = Vec::new();
    let top = |&(_, count, sum): &(usize, usize, f64)| {
        let most = (bounds.1 - (count - 1) as f64 * gap).max(bounds.0);
        (sum / count as f64).clamp(bounds.0, most)
    };
    for (at, &place) in wanted.iter().enumerate() {
        let mut block = (at, 1, place);
        while let Some(above) = blocks.last().copied() {
            if top(&above) + above.1 as f64 * gap <= top(&block) {
                break;
            }
            // Joined, the first of `block` stands `above.1` gaps below the first of both.
            let lift = above.1 as f64 * gap * block.1 as f64;
            block = (above.0, above.1 + block.1, above.2 + block.2 - lift);
            blocks.pop();
        }
        blocks.push(block);
    }
    blocks
        .iter()
        .flat_map(|block| {
            let first = top(block);
            (0..block.1).map(move |at| first + at as f64 * gap)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_with_room_stay() {
        assert_eq!(apart(&[10.0, 40.0, 80.0], 15.0, (0.0, 100.0)), [10.0, 40.0, 80.0]);
        assert!(apart(&[], 15.0, (0.0, 100.0)).is_empty());
    }

    #[test]
    fn labels_that_touch_move_evenly_to_both_sides() {
        assert_eq!(apart(&[50.0, 50.0], 10.0, (0.0, 100.0)), [45.0, 55.0]);
        assert_eq!(apart(&[50.0, 50.0, 50.0], 10.0, (0.0, 100.0)), [40.0, 50.0, 60.0]);
    }

    #[test]
    fn labels_stay_inside() {
        assert_eq!(apart(&[1.0, 2.0], 10.0, (5.0, 100.0)), [5.0, 15.0]);
        assert_eq!(apart(&[99.0, 100.0], 10.0, (0.0, 95.0)), [85.0, 95.0]);
    }
}
