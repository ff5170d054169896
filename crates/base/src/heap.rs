//! A binary heap over a slice whose order is a closure, so that it may look into cursors.

/// Moves the item at `at` down until no child comes before it.
#[inline]
pub fn sift_down<T>(items: &mut [T], mut at: usize, before: impl Fn(&T, &T) -> bool) {
    loop {
        let mut child = 2 * at + 1;
        if child >= items.len() {
            return;
        }
        if child + 1 < items.len() && before(&items[child + 1], &items[child]) {
            child += 1;
        }
        if !before(&items[child], &items[at]) {
            return;
        }
        items.swap(at, child);
        at = child;
    }
}

/// Makes any slice a heap: the first item comes before all others.
pub fn heapify<T>(items: &mut [T], before: impl Fn(&T, &T) -> bool) {
    for at in (0..items.len() / 2).rev() {
        sift_down(items, at, &before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_in_order() {
        let mut items: Vec<u32> = (0..100).map(|i| i * 7919 % 101).collect();
        let mut expected = items.clone();
        expected.sort_unstable();
        heapify(&mut items, |a, b| a < b);
        let mut sorted = Vec::new();
        while !items.is_empty() {
            sorted.push(items.swap_remove(0));
            sift_down(&mut items, 0, |a, b| a < b);
        }
        assert_eq!(sorted, expected);
    }
}
