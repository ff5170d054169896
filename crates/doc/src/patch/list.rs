//! Changes of the elements of an array in memory.

use crate::value::Value;
use std::collections::HashSet;

/// The number of values from which on [`pull`] hashes them instead of comparing each.
pub(super) const FEW: usize = 16;

/// Returns the index at which `position` of an array of `len` elements inserts. A position beyond
/// the end is the end. A negative one counts from the end: -1 is before the last element. One
/// before the beginning is the beginning.
pub(super) fn index_of(position: i64, len: usize) -> usize {
    match usize::try_from(position) {
        Ok(position) => position.min(len),
        Err(_negative) if position < 0 => {
            let back = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
            len.saturating_sub(back)
        }
        Err(_too_large) => len,
    }
}

/// Removes the elements that are equal to one of `values`. Returns them with their indexes.
pub(super) fn pull(items: &mut Vec<Value>, values: &[Value]) -> Vec<(usize, Value)> {
    let hashed: HashSet<&Value> =
        if values.len() > FEW { values.iter().collect() } else { HashSet::new() };
    let goes = |item: &Value| {
        if hashed.is_empty() { values.contains(item) } else { hashed.contains(item) }
    };
    if !items.iter().any(goes) {
        return Vec::new();
    }
    let mut removed = Vec::new();
    let mut kept = Vec::with_capacity(items.len());
    for (at, item) in std::mem::take(items).into_iter().enumerate() {
        if goes(&item) {
            removed.push((at, item));
        } else {
            kept.push(item);
        }
    }
    *items = kept;
    removed
}

/// Removes the element at `index`, if there is one. Returns it with its index.
pub(super) fn pop(items: &mut Vec<Value>, index: usize) -> Vec<(usize, Value)> {
    if items.is_empty() { Vec::new() } else { vec![(index, items.remove(index))] }
}

/// Puts elements back to the indexes that they had, which ascend.
pub(super) fn put_back(items: &mut Vec<Value>, removed: Vec<(usize, Value)>) {
    let count = items.len() + removed.len();
    let mut kept = std::mem::replace(items, Vec::with_capacity(count)).into_iter();
    let mut removed = removed.into_iter().peekable();
    for at in 0..count {
        let back = removed.next_if(|(index, _)| *index == at).map(|(_, item)| item);
        items.extend(back.or_else(|| kept.next()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;

    #[test]
    fn positions_are_those_of_mongodb() {
        let inserted = |position: i64| index_of(position, 3);
        assert_eq!([0, 1, 3, 4, i64::MAX].map(inserted), [0, 1, 3, 3, 3]);
        assert_eq!([-1, -3, -4, i64::MIN].map(inserted), [2, 0, 0, 0]);
    }

    #[test]
    fn what_is_pulled_can_be_put_back() {
        let all: Vec<Value> = (0..60).map(|n| Value::from(n % 7)).collect();
        let many: Vec<Value> = (0..40).map(|n| Value::from(f64::from(n) / 8.0)).collect();
        for values in [&[Value::from(3)][..], &[doc!(6.0), doc!(0), doc!("x")], &many] {
            let mut items = all.clone();
            let removed = pull(&mut items, values);
            let kept: Vec<Value> =
                all.iter().filter(|item| !values.contains(item)).cloned().collect();
            assert_eq!(items, kept);
            assert_eq!(removed.len() + kept.len(), all.len());
            put_back(&mut items, removed);
            assert_eq!(items, all);
        }
    }
}
