//! Drawing from many weighted choices with one random number and one access to a table.
//!
//! The alias method (Walker 1977; tables built as in Vose 1991): each slot is its own choice up to
//! a threshold and another choice above it. All sums are exact integers.

/// A slot of a table: its own choice below the threshold, the other one from it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    threshold: u32,
    own: u16,
    other: u16,
}

/// Draws from `slots` (at least one, at most 65,536) by 32 random bits.
///
/// The bits times the number of slots: the high half says which slot, the low half is compared
/// with its threshold.
#[inline]
pub(crate) fn draw(slots: &[Slot], bits: u32) -> u16 {
    let product = u64::from(bits) * slots.len() as u64;
    let slot = slots[(product >> 32) as usize];
    if (product as u32) < slot.threshold { slot.own } else { slot.other }
}

/// Appends to `slots` the table of `choices` with their weights.
///
/// The weights' sum times their number must stay below 2^63; at least one weight is above zero.
pub(crate) fn build(choices: &[(u16, u64)], slots: &mut Vec<Slot>) {
    let n = choices.len() as u64;
    let total: u64 = choices.iter().map(|c| c.1).sum();
    let mut left: Vec<u64> = choices.iter().map(|c| c.1 * n).collect();
    let start = slots.len();
    slots.extend(choices.iter().map(|c| Slot { threshold: u32::MAX, own: c.0, other: c.0 }));
    let (mut poor, mut rich): (Vec<usize>, Vec<usize>) =
        (0..choices.len()).partition(|&k| left[k] < total);
    while let (Some(p), Some(&r)) = (poor.pop(), rich.last()) {
        let threshold = (u128::from(left[p]) << 32) / u128::from(total);
        slots[start + p] = Slot {
            threshold: u32::try_from(threshold).unwrap_or(u32::MAX),
            own: choices[p].0,
            other: choices[r].0,
        };
        left[r] -= total - left[p];
        if left[r] < total {
            poor.extend(rich.pop());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn choices_come_as_often_as_their_weights_say() {
        let weights = [(7_u16, 1_u64), (3, 500), (9, 40), (4, 0), (1, 459)];
        let mut slots = Vec::new();
        build(&weights, &mut slots);
        let mut random = Random::new(5);
        let mut counts = [0_u64; 10];
        for _ in 0..1_000_000 {
            counts[usize::from(draw(&slots, random.bits32()))] += 1;
        }
        for (choice, weight) in weights {
            let got = counts[usize::from(choice)];
            assert!(got.abs_diff(weight * 1000) <= 1500, "choice {choice}: {got}");
        }
        assert_eq!(counts[4], 0);
    }

    #[test]
    fn a_single_choice_is_always_drawn() {
        let mut slots = Vec::new();
        build(&[(42, 3)], &mut slots);
        assert_eq!((draw(&slots, 0), draw(&slots, u32::MAX)), (42, 42));
    }
}
