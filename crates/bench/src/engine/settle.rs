//! Waiting for background work that no engine announces the end of: until what it changes stands still.

use std::time::{Duration, Instant};

/// When something that changes is taken to have ended.
#[derive(Clone, Copy, Debug)]
pub struct Stillness {
    /// Between two looks.
    pub step: Duration,
    /// For so long nothing must have changed.
    pub still: Duration,
    /// After so long nobody waits any more.
    pub most: Duration,
}

impl Stillness {
    /// Two seconds without a change, within five minutes; ten looks a second.
    pub const USUAL: Self = Self {
        step: Duration::from_millis(100),
        still: Duration::from_secs(2),
        most: Duration::from_secs(300),
    };

    /// Waits until what `look` answers stands still; false when time ran out before.
    pub fn wait<T: PartialEq>(&self, mut look: impl FnMut() -> T) -> bool {
        let began = Instant::now();
        let (mut seen, mut since) = (look(), began);
        loop {
            let now = Instant::now();
            if now - since >= self.still {
                return true;
            }
            if now - began >= self.most {
                return false;
            }
            std::thread::sleep(self.step);
            let next = look();
            if next != seen {
                (seen, since) = (next, Instant::now());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Stillness = Stillness {
        step: Duration::from_millis(1),
        still: Duration::from_millis(20),
        most: Duration::from_millis(500),
    };

    #[test]
    fn what_changes_is_waited_for_and_what_never_rests_is_left() {
        let mut looks = 0_u32;
        assert!(QUICK.wait(|| {
            looks += 1;
            looks.min(10)
        }));
        assert!(looks > 10, "{looks}");
        let mut restless = 0_u32;
        assert!(!QUICK.wait(|| {
            restless += 1;
            restless
        }));
    }
}
