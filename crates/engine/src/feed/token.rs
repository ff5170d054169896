//! Tokens: the position of a reader of changes, to be kept outside of the process.

use crate::history::HistoryId;
use flagstone_base::{Error, SeqNo};
use std::fmt;
use std::str::FromStr;

/// The position of a reader of changes: after one commit, before the next. Another history refuses
/// it: that of a restored backup, or of a checkpoint that was opened for writing.
///
/// As text: 16 hexadecimal digits for the history, `-`, and the SeqNo in decimal.
///
/// ```
/// # use flagstone_engine::ChangeToken;
/// let token: ChangeToken = "00000000c0ffee00-41".parse()?;
/// assert_eq!(token.to_string(), "00000000c0ffee00-41");
/// assert_eq!(ChangeToken::from_bytes(token.to_bytes()), Some(token));
/// # Ok::<(), flagstone_engine::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChangeToken {
    pub(crate) history: HistoryId,
    pub(crate) after: SeqNo,
}

impl ChangeToken {
    /// The SeqNo of the last write before the position.
    pub const fn seqno(&self) -> SeqNo {
        self.after
    }

    /// The token as bytes.
    pub const fn to_bytes(self) -> [u8; 16] {
        let value = (self.history.0 as u128) << 64 | self.after.get() as u128;
        value.to_be_bytes()
    }

    /// The token of which `bytes` is the result of [`ChangeToken::to_bytes`], or `None` if it is of
    /// none.
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        let value = u128::from_be_bytes(bytes);
        let (history, after) = (HistoryId((value >> 64) as u64), value as u64);
        (after <= SeqNo::MAX.get()).then(|| Self { history, after: SeqNo::new(after) })
    }
}

impl fmt::Display for ChangeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.history.0, self.after.get())
    }
}

impl FromStr for ChangeToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let token = text.split_once('-').and_then(|(history, after)| {
            let history = u64::from_str_radix(history, 16).ok()?;
            let after = after.parse().ok().filter(|after| *after <= SeqNo::MAX.get())?;
            Some(Self { history: HistoryId(history), after: SeqNo::new(after) })
        });
        token.filter(|token| token.to_string() == text).ok_or_else(|| {
            Error::invalid(format!(
                "change token {text:?}: expected 16 hexadecimal digits, '-' and a SeqNo"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_from_bytes_and_text_and_others_are_refused() {
        let token = ChangeToken { history: HistoryId(0xABCD), after: SeqNo::new(7) };
        assert_eq!(token.to_bytes(), [0, 0, 0, 0, 0, 0, 0xAB, 0xCD, 0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(ChangeToken::from_bytes(token.to_bytes()), Some(token));
        assert_eq!(ChangeToken::from_bytes([0xFF; 16]), None);
        assert_eq!(token.to_string().parse::<ChangeToken>().unwrap(), token);
        for refused in ["", "-", "abcd-7", "000000000000ABCD-7", "000000000000abcd-+7"] {
            assert!(refused.parse::<ChangeToken>().is_err(), "{refused}");
        }
        let beyond = format!("{:016x}-{}", 1, 1_u64 << 56);
        assert!(beyond.parse::<ChangeToken>().is_err());
    }
}
