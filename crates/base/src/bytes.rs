//! Comparison and copying of keys without a library call.
//!
//! Most keys are short, and the C library's memcmp is slow on some machines. With memcmp a cached
//! get took 330 ns and a seek 1,400 ns; without it, 170 and 350 (20,000 keys of 16 bytes, values of
//! 100 bytes, `benches/table.rs`).

use std::cmp::Ordering;

/// The length of the longest common prefix of `a` and `b`, in bytes.
#[inline]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let mut at = 0;
    while let (Some(x), Some(y)) = (a[at..].first_chunk::<8>(), b[at..].first_chunk::<8>()) {
        let differs = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differs != 0 {
            return at + differs.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + a[at..].iter().zip(&b[at..]).take_while(|(x, y)| x == y).count()
}

/// The order of two byte strings: unsigned bytes, a prefix before its extensions.
#[inline]
pub fn order(a: &[u8], b: &[u8]) -> Ordering {
    let common = common_prefix(a, b);
    a.get(common).cmp(&b.get(common))
}

/// Returns whether two byte strings are equal.
#[inline]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    let (Some(a_end), Some(b_end)) = (a.last_chunk::<8>(), b.last_chunk::<8>()) else {
        return a.iter().eq(b);
    };
    // Compares whole words from the front, then the last eight bytes, which may overlap the words.
    let (a_words, b_words) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    a.len() == b.len() && a_words.iter().zip(b_words).all(|(a, b)| a == b) && a_end == b_end
}

/// Makes `to` equal to `from`. If both have the same length, 8 to 32 bytes, the copy needs no
/// library call.
#[inline]
pub fn assign(to: &mut Vec<u8>, from: &[u8]) {
    if to.len() != from.len() {
        to.clear();
        to.extend_from_slice(from);
    } else if !(assign_ends::<16>(to, from) || assign_ends::<8>(to, from)) {
        to.copy_from_slice(from);
    }
}

/// Copies the first and the last `N` bytes, if these two pieces cover `from`; else returns false.
#[inline]
fn assign_ends<const N: usize>(to: &mut [u8], from: &[u8]) -> bool {
    if !(N..=2 * N).contains(&from.len()) {
        return false;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        *to = *from;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_length_are_assigned() {
        let from: Vec<u8> = (1..=70).collect();
        for (len, before) in (0..70).flat_map(|len| [(len, 0), (len, len), (len, 70)]) {
            let mut to = vec![0; before];
            assign(&mut to, &from[..len]);
            assert_eq!(to, from[..len]);
        }
    }

    #[test]
    fn comparisons_agree_with_those_of_slices() {
        let runs: Vec<Vec<u8>> = (0..40)
            .flat_map(|len| [vec![7; len], [vec![7; len], vec![9]].concat()])
            .chain((0..40).map(|len| [vec![7; len], vec![5, 7, 7]].concat()))
            .collect();
        for a in runs.iter().step_by(if cfg!(miri) { 11 } else { 1 }) {
            for b in &runs {
                assert_eq!(order(a, b), a.cmp(b));
                assert_eq!(same(a, b), a == b);
                let common = a.iter().zip(b).take_while(|(x, y)| x == y).count();
                assert_eq!(common_prefix(a, b), common);
            }
        }
    }
}
