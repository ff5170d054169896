//! A binary heap in a slice. Its order is a closure, so that a comparison may look into cursors.

/// Moves the item at index `at` down until no child comes before it.
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

/// Replaces the first item by `item` and moves `item` down until no child comes before it. `item`
/// stays in registers until its place is known.
#[inline]
pub fn replace_first<T: Copy>(items: &mut [T], item: T, before: impl Fn(&T, &T) -> bool) {
    let mut at = 0;
    while let Some(mut child) = Some(2 * at + 1).filter(|&child| child < items.len()) {
        if child + 1 < items.len() {
            child += usize::from(before(&items[child + 1], &items[child]));
        }
        if !before(&items[child], &item) {
            break;
        }
        items[at] = items[child];
        at = child;
    }
    if let Some(place) = items.get_mut(at) {
        *place = item;
    }
}

/// Turns any slice into a heap: the first item comes before all others.
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

    #[test]
    fn a_replaced_first_item_finds_its_place() {
        let mut items: Vec<u32> = (0..100).collect();
        let mut expected = items.clone();
        for item in (0..1_000).map(|i| i * 7919 % 1009) {
            replace_first(&mut items, item, |a, b| a < b);
            expected[0] = item;
            expected.sort_unstable();
            assert_eq!(items[0], expected[0]);
        }
        items.sort_unstable();
        assert_eq!(items, expected);
    }
}
