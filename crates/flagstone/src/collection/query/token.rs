//! Tokens: positions in a query that survive the process.
//!
//! ```text
//! token    version u8 | query u64 | history u64 | index u32 | reverse u8 | sort key | stored key
//!          | crc32c u32
//!          both keys with their lengths as varints; written in the letters of base64url
//! ```
//! `query` is a hash of what was asked, `history` that of the database. Documents with one sort key
//! are in the order of their stored keys, descending if `reverse` is 1; then any plan can continue,
//! and `index` is 0. In the order of the stored keys alone, there is no sort key, and the query
//! tells the direction. An index with more fields than the sort has an order of its own: `index` is
//! its keyspace then, and the components of the entry are in the place of the sort key. Only the
//! query that made a token can use it.

use flagstone_base::checksum::{crc32c, fits};
use flagstone_base::codec::{put_bytes, put_u32, put_u64};
use flagstone_base::{Decoder, Error, Malformed, Result};
use flagstone_doc::sort_key::{self, Direction};
use std::fmt;
use std::str::FromStr;

const VERSION: u8 = 2;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const NO_LETTER: u8 = 0xFF;
/// The value of each letter.
const VALUES: [u8; 256] = {
    let mut values = [NO_LETTER; 256];
    let mut at = 0;
    while at < LETTERS.len() {
        values[LETTERS[at] as usize] = at as u8;
        at += 1;
    }
    values
};

/// A position in a query: [`Find::page`](super::Find::page) and writes by filter return it, to
/// continue there later, in another process, too. Its text has only letters that a URL may contain,
/// four for three bytes of the sort key and the primary key of a document: a query that sorts by
/// long texts has long tokens.
///
/// A token is for the same filter and sort of the same collection. Only the database itself takes
/// it, and no copy of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken {
    pub(super) query: u64,
    pub(super) history: u64,
    /// Where among equal sort keys the position is, and in which index, if only one has the order.
    pub(super) ties: Ties,
    /// The sort key, or the components of the entry.
    pub(super) sort_key: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// The order of documents with one sort key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ties {
    /// The index whose entries decide; 0 if the stored keys decide.
    pub(super) index: u32,
    /// They are read in reverse.
    pub(super) is_reverse: bool,
}

/// A position in the order of the stored keys alone.
#[derive(Clone, Debug)]
pub(super) struct KeyPosition {
    pub(super) key: Vec<u8>,
    /// The direction of that order.
    pub(super) direction: Direction,
}

impl KeyPosition {
    /// Returns whether the stored key `key` is at the position or before it.
    pub(super) fn has_passed(&self, key: &[u8]) -> bool {
        match self.direction {
            Direction::Ascending => key <= self.key.as_slice(),
            Direction::Descending => key >= self.key.as_slice(),
        }
    }
}

impl PageToken {
    /// The position in the order of a sort in memory.
    pub(super) fn position(&self) -> Vec<u8> {
        let mut position = self.sort_key.clone();
        sort_key::directed(&self.key, self.ties.direction(), &mut position);
        position
    }

    /// Refuses a token of another query or another database.
    ///
    /// # Errors
    /// InvalidInput.
    pub(super) fn check(&self, query: u64, history: u64) -> Result<()> {
        if self.history != history {
            return Err(Error::invalid(format!(
                "the token is of history {:016x}: expected {history:016x}, since the database is \
                 another one, or a copy",
                self.history
            )));
        }
        if self.query != query {
            return Err(Error::invalid(
                "the token is of another query: expected the filter, sort and collection of the \
                 page before",
            ));
        }
        Ok(())
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_u64(&mut out, self.query);
        put_u64(&mut out, self.history);
        put_u32(&mut out, self.ties.index);
        out.push(u8::from(self.ties.is_reverse));
        put_bytes(&mut out, &self.sort_key);
        put_bytes(&mut out, &self.key);
        let crc = crc32c(&out);
        put_u32(&mut out, crc);
        out
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        if decoder.u8("the version of a token")? != VERSION {
            return Err(Malformed { at: 0, expected: "a token of version 2" });
        }
        let token = Self {
            query: decoder.u64("the hash of a query")?,
            history: decoder.u64("the history of a database")?,
            ties: Ties {
                index: decoder.u32("the id of an index")?,
                is_reverse: decoder.flag("a direction, 0 or 1")?,
            },
            sort_key: decoder.bytes("a sort key")?.to_vec(),
            key: decoder.bytes("a key")?.to_vec(),
        };
        let (covered, at) = (&bytes[..decoder.position()], decoder.position());
        let crc = decoder.u32("a checksum")?;
        decoder.finish("the end of the token")?;
        if fits(crc32c(covered), crc) {
            Ok(token)
        } else {
            Err(Malformed { at, expected: "the checksum of the token" })
        }
    }
}

impl Ties {
    /// The direction of the stored keys of documents with one sort key.
    pub(super) const fn direction(self) -> Direction {
        if self.is_reverse { Direction::Descending } else { Direction::Ascending }
    }
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for group in self.to_bytes().chunks(3) {
            let word = group.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
            let word = word << (24 - 8 * group.len());
            for place in 0..=group.len() {
                let letter = LETTERS[(word >> (18 - 6 * place)) as usize & 63];
                fmt::Write::write_char(f, char::from(letter))?;
            }
        }
        Ok(())
    }
}

impl FromStr for PageToken {
    type Err = Error;

    /// Reads the text of a token.
    ///
    /// # Errors
    /// InvalidInput with the position of what is not as it should be.
    fn from_str(text: &str) -> Result<Self> {
        let refuse = |at: usize, expected: &str| {
            Error::invalid(format!("a page token, character {at}: expected {expected}"))
        };
        let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
        let (mut word, mut bits) = (0_u32, 0);
        for (at, letter) in text.bytes().enumerate() {
            let value = VALUES[usize::from(letter)];
            if value == NO_LETTER {
                return Err(refuse(at, "a letter, a digit, - or _"));
            }
            (word, bits) = ((word << 6 | u32::from(value)) & 0xFFFF, bits + 6);
            if bits >= 8 {
                bits -= 8;
                bytes.push((word >> bits) as u8);
            }
        }
        if bits == 6 || word & ((1 << bits) - 1) != 0 {
            return Err(refuse(text.len(), "more characters"));
        }
        Self::from_bytes(&bytes).map_err(|wrong| refuse(wrong.at * 8 / 6, wrong.expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(sort_key: &[u8], key: &[u8]) -> PageToken {
        let (sort_key, key) = (sort_key.to_vec(), key.to_vec());
        PageToken { query: 1, history: 2, ties: Ties { index: 3, is_reverse: true }, sort_key, key }
    }

    #[test]
    fn a_token_comes_back_from_its_text() {
        for len in 0..10 {
            let token = token(&[0xFF; 5][..len / 2], &b"0123456789"[..len]);
            let text = token.to_string();
            assert!(text.bytes().all(|byte| LETTERS.contains(&byte)), "{text}");
            assert_eq!(text.parse::<PageToken>().unwrap(), token);
        }
        // Whatever was sorted by.
        let long = token(&vec![7; 3 << 20], &[1; 65_535]);
        assert_eq!(long.to_string().parse::<PageToken>().unwrap(), long);
        assert_eq!(token(b"", b"a").to_string(), "AgEAAAAAAAAAAgAAAAAAAAADAAAAAQABYf4ibZw");
    }

    #[test]
    fn a_malformed_token_is_refused_with_its_position() {
        let text = token(b"s", b"key").to_string();
        for (wrong, expected) in [
            (String::new(), "character 0: expected the version of a token"),
            (text.replace('A', "+"), "character 0: expected a letter, a digit, - or _"),
            (format!("B{}", &text[1..]), "character 0: expected a token of version 2"),
            (text[..12].to_owned(), "expected the history of a database"),
            (text[..text.len() - 1].to_owned(), "expected"),
            (format!("{text}AAAA"), "expected"),
        ] {
            let refused = wrong.parse::<PageToken>().unwrap_err().to_string();
            assert!(refused.contains("a page token, ") && refused.contains(expected), "{refused}");
        }
        // A direction that is neither 0 nor 1, under a checksum that fits.
        let mut bytes = token(b"s", b"key").to_bytes();
        let direction = 1 + 8 + 8 + 4;
        bytes[direction] = 2;
        bytes.truncate(bytes.len() - 4);
        let crc = crc32c(&bytes);
        put_u32(&mut bytes, crc);
        let wrong = PageToken::from_bytes(&bytes).unwrap_err();
        assert_eq!((wrong.at, wrong.expected), (direction, "a direction, 0 or 1"));
        // Whichever letter is another one, the token is refused.
        for at in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[at] = if damaged[at] == b'x' { b'y' } else { b'x' };
            let damaged = String::from_utf8(damaged).unwrap();
            assert!(damaged.parse::<PageToken>().is_err(), "{at}");
        }
    }

    #[test]
    fn a_token_of_another_query_or_history_is_refused() {
        let token = token(b"", b"k");
        assert!(token.check(1, 2).is_ok());
        let refused = |query, history| token.check(query, history).unwrap_err().to_string();
        assert!(refused(9, 2).contains("another query"));
        assert!(refused(1, 9).contains("history 0000000000000002"));
    }
}
