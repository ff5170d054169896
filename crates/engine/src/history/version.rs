//! Version tokens: they identify the write that was read, so that a condition can ask for the same
//! one.

use flagstone_base::SeqNo;
use std::fmt;

/// Identifies the history of writes that a database continues. A database keeps its own forever. A
/// checkpoint that is opened for writing begins a new one, since it may give the same SeqNos to
/// other writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct HistoryId(pub(crate) u64);

/// The version of a key: the write that `Keyspace::get_versioned` has found, for
/// `Expect::Version`. No other write ever has the same token, not even after a crash that
/// lost the write. In a copy of the database, tokens from before the copy are refused.
///
/// ```
/// # use flagstone_engine::VersionToken;
/// fn kept(token: VersionToken) -> [u8; 16] {
///     assert_eq!(VersionToken::from_bytes(token.to_bytes()), Some(token));
///     token.to_bytes()                                        // for a form that a user fills in
/// }
/// # let token = VersionToken::from_bytes((9_u128 << 64 | 7).to_be_bytes()).unwrap();
/// # assert_eq!(kept(token)[15], 7);
/// assert_eq!((token.seqno().get(), token.history()), (7, 9));
/// assert_eq!(VersionToken::from_bytes([0xFF; 16]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VersionToken {
    pub(crate) history: HistoryId,
    pub(crate) seqno: SeqNo,
}

impl VersionToken {
    /// The SeqNo of the write. Later writes of one database have larger ones.
    pub const fn seqno(&self) -> SeqNo {
        self.seqno
    }

    /// Identifies the history that the write belongs to. A copy of the database has another one.
    pub const fn history(&self) -> u64 {
        self.history.0
    }

    /// The token as bytes, to be kept outside of the process.
    pub const fn to_bytes(self) -> [u8; 16] {
        let value = (self.history.0 as u128) << 64 | self.seqno.get() as u128;
        value.to_be_bytes()
    }

    /// The token of which `bytes` is the result of [`VersionToken::to_bytes`], or `None` if it is
    /// of none.
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        let value = u128::from_be_bytes(bytes);
        let (history, seqno) = (HistoryId((value >> 64) as u64), value as u64);
        (seqno <= SeqNo::MAX.get()).then(|| Self { history, seqno: SeqNo::new(seqno) })
    }
}

impl fmt::Display for VersionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of history {:016x}", self.seqno, self.history.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_from_its_bytes_and_other_bytes_are_refused() {
        let token = VersionToken { history: HistoryId(0xABCD), seqno: SeqNo::new(7) };
        let bytes = token.to_bytes();
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0xAB, 0xCD, 0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(VersionToken::from_bytes(bytes), Some(token));
        assert_eq!(VersionToken::from_bytes([0xFF; 16]), None);
        assert_eq!(token.to_string(), "#7 of history 000000000000abcd");
    }
}
