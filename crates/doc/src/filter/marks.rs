//! Marks for the places of a list.

/// Which places of a list are marked, and how many are not.
pub(super) struct Marks {
    /// A bit for each place. There are none before the first mark.
    bits: Vec<u64>,
    places: usize,
    left: usize,
}

impl Marks {
    /// Creates the marks of a list of this length.
    pub(super) const fn new(places: usize) -> Self {
        Self { bits: Vec::new(), places, left: places }
    }

    /// Marks a place, if there is one.
    pub(super) fn mark(&mut self, place: Option<usize>) {
        let Some(place) = place else { return };
        if self.bits.is_empty() {
            self.bits.resize(self.places.div_ceil(64), 0);
        }
        let (word, bit) = (place / 64, 1 << (place % 64));
        if self.bits[word] & bit == 0 {
            self.bits[word] |= bit;
            self.left -= 1;
        }
    }

    /// Returns whether all places are marked.
    pub(super) const fn is_full(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_full_when_each_place_was_marked() {
        let mut marks = Marks::new(130);
        for place in (0..130).rev().chain([129, 0]) {
            assert!(!marks.is_full() || place == 129 || place == 0);
            marks.mark(None);
            marks.mark(Some(place));
        }
        assert!(marks.is_full());
        assert!(Marks::new(0).is_full());
    }
}
