//! How steady rates are: the middle one, and the worst hundredth.

/// The middle one of `values`, of an even number the mean of the two; `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        return values.get(middle).copied();
    }
    Some(f64::midpoint(*values.get(middle.checked_sub(1)?)?, *values.get(middle)?))
}

/// The mean of the `ceil(n / 100)` least of `values`; `None` of none.
pub fn worst_hundredth(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let count = values.len().div_ceil(100);
    (count > 0).then(|| values[..count].iter().sum::<f64>() / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_worst_hundredths_are_those_of_the_definition() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(worst_hundredth(&[]), None);
        assert_eq!(worst_hundredth(&[5.0, 4.0]), Some(4.0));
        let values: Vec<f64> = (0..250).rev().map(f64::from).collect();
        assert_eq!(worst_hundredth(&values), Some(1.0));
    }
}
