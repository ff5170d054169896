//! Checks that a finished raw block holds the entries that were added to it.

use super::{Block, fingerprint};
use flagstone_base::check::changed;
use flagstone_base::hash::{key_hash, remix};
use flagstone_base::{EntryCheck, EntryRef, Error, Malformed, Result};

/// Decodes the raw block as a get would and compares each entry with its check. `seed` is that of
/// the keyspace.
///
/// # Errors
/// Corruption, which names the first entry that changed.
pub(crate) fn check_entries(raw: &[u8], checks: &[EntryCheck], seed: u64) -> Result<()> {
    let block = Block::new(raw, None).map_err(unreadable)?;
    if block.count() != checks.len() {
        let (found, expected) = (block.count(), checks.len());
        return Err(changed(format_args!("a block of {found} entries, expected {expected}")));
    }
    let (mut restart, mut whole): (&[u8], Vec<u8>) = (&[], Vec::new());
    for (index, check) in checks.iter().enumerate() {
        let parsed = block.parse(index).map_err(unreadable)?;
        let suffix = &raw[parsed.suffix()];
        if block.restart_of(index) == index {
            restart = suffix;
        }
        let wrong = |expected| unreadable(Malformed { at: parsed.suffix().start, expected });
        let key = match restart.get(..parsed.shared as usize) {
            Some([]) => suffix,
            Some(shared) => {
                whole.clear();
                whole.extend_from_slice(shared);
                whole.extend_from_slice(suffix);
                &whole
            }
            None => return Err(wrong("a shared part of the restart")),
        };
        let (trailer, value, hash) = (parsed.trailer, &raw[parsed.value()], key_hash(key, seed));
        if EntryCheck::of_trailer(hash, trailer, value) != *check {
            // Compare again, for the message.
            check.verify(&EntryRef { key, trailer, value }, seed)?;
        }
        if block.fingerprint_at(index) != fingerprint(remix(hash)) {
            return Err(wrong("the fingerprint of its key"));
        }
    }
    Ok(())
}

/// Returns the error that a raw block in memory cannot be read.
#[cold]
pub(crate) fn unreadable(wrong: Malformed) -> Error {
    changed(format_args!("a block, byte {}: expected {}", wrong.at, wrong.expected))
}

#[cfg(test)]
mod tests {
    use super::super::BlockBuilder;
    use super::*;
    use flagstone_base::{Kind, Moment, SeqNo, Trailer};

    const SEED: u64 = 5;

    /// Builds a block of keys with shared prefixes, several versions of one key, and entries of
    /// every kind. Some puts have an expiry.
    fn block() -> (Vec<u8>, Vec<EntryCheck>) {
        let (mut builder, mut checks) = (BlockBuilder::default(), Vec::new());
        for n in 0..40_u64 {
            let key = format!("user:{:04}", n / 3);
            let kind = [Kind::Put, Kind::Merge, Kind::Delete][n as usize % 3];
            let value = if kind == Kind::Delete { String::new() } else { "v".repeat(n as usize) };
            let seqno = SeqNo::new(1000 - n);
            let mut entry = EntryRef::new(key.as_bytes(), seqno, kind, value.as_bytes());
            if n % 9 == 0 {
                entry.trailer =
                    Trailer::expiring(seqno, Moment::from_millis(1_700_000_000_000 + n));
            }
            builder.add(entry, remix(key_hash(entry.key, SEED)));
            checks.push(EntryCheck::of_entry(&entry, SEED));
        }
        (builder.finish().to_vec(), checks)
    }

    #[test]
    fn every_flipped_bit_of_a_block_that_a_reader_sees_is_found() {
        let (raw, checks) = block();
        assert!(check_entries(&raw, &checks, SEED).is_ok());
        // The last byte is unused. With another restart shift the keys may read the same.
        for bit in 0..(raw.len() - 2) * 8 {
            let mut flipped = raw.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(check_entries(&flipped, &checks, SEED).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_lost_entry_is_found() {
        let (raw, checks) = block();
        assert!(check_entries(&raw, &checks[1..], SEED).is_err());
    }
}
