//! Medians, worst hundredths, smoothed curves.

/// The median, for an even number of values the mean of the two in the middle; `None` without
/// values. Values that are no numbers do not count.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let high = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { high } else { f64::midpoint(values[middle - 1], high) })
}

/// The mean of the `ceil(n / 100)` least of `values`; `None` without values.
pub fn worst_hundredth(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let count = values.len().div_ceil(100);
    (count > 0).then(|| values[..count].iter().sum::<f64>() / count as f64)
}

/// Replaces each point, by ascending x, with the weighted mean of the points nearer than `reach`
/// (tricube weights, as in LOESS).
pub(crate) fn smooth(points: &[(f64, f64)], reach: f64) -> Vec<(f64, f64)> {
    let mut first = 0;
    let mut out = Vec::with_capacity(points.len());
    for &(x, y) in points {
        while points[first].0 < x - reach {
            first += 1;
        }
        let (mut sum, mut weights) = (0.0, 0.0);
        for near in points[first..].iter().take_while(|near| near.0 <= x + reach) {
            let distance = ((near.0 - x).abs() / reach).min(1.0);
            let weight = (1.0 - distance.powi(3)).powi(3);
            sum += weight * near.1;
            weights += weight;
        }
        out.push((x, if weights > 0.0 { sum / weights } else { y }));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_worst_hundredths_are_those_of_the_definition() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([f64::NAN, 7.0]), Some(7.0));
        assert_eq!(worst_hundredth(&[]), None);
        assert_eq!(worst_hundredth(&[5.0, 4.0]), Some(4.0));
        let values: Vec<f64> = (0..250).rev().map(f64::from).collect();
        assert_eq!(worst_hundredth(&values), Some(1.0));
    }

    #[test]
    fn smoothing_keeps_a_constant_and_flattens_a_spike() {
        let flat: Vec<_> = (0..20).map(|x| (f64::from(x), 5.0)).collect();
        assert!(smooth(&flat, 4.0).iter().all(|point| (point.1 - 5.0).abs() < 1e-9));
        let mut spike = flat.clone();
        spike[10].1 = 105.0;
        let smoothed = smooth(&spike, 4.0);
        assert!(smoothed[10].1 < 40.0 && smoothed[10].1 > smoothed[12].1, "{smoothed:?}");
        assert!((smoothed[0].1 - 5.0).abs() < 1e-9, "far away nothing changes");
    }

    #[test]
    fn smoothing_without_neighbours_changes_nothing() {
        let points = [(0.0, 1.0), (10.0, 2.0), (20.0, 3.0)];
        assert_eq!(smooth(&points, 1.0), points);
        assert_eq!(smooth(&points, 0.0), points);
        assert!(smooth(&[], 1.0).is_empty());
    }
}
