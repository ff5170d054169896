//! The manifest's record of a table: enough to skip the table in a read without opening it.

use crate::expiries::Expiries;
use flagstone_base::fields::{FieldReader, FieldWriter, narrow, number};
use flagstone_base::{Compression, Decoder, FileNumber, Malformed, Moment, SeqNo, Undecoded};
use std::fmt;
use std::ops::Bound;

/// The manifest's record of a table.
///
/// The bounds cover every entry and every range delete: the keys are in `smallest..=largest`, or in
/// `smallest..largest` when `largest_exclusive` is set (then `largest` is the exclusive end of a
/// range delete that reaches beyond the last key).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableMeta {
    /// The number in the name of the file.
    pub number: FileNumber,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// Bytes of the tail (index, range deletes, ...), which opening the table reads.
    pub tail_bytes: u64,
    /// The smallest key, or the start of a range delete before it.
    pub smallest: Vec<u8>,
    /// The largest key, or the exclusive end of a range delete that reaches beyond it.
    pub largest: Vec<u8>,
    /// Whether the bounds exclude `largest` itself.
    pub largest_exclusive: bool,
    /// The oldest SeqNo in the file (regardless of `global_seqno`).
    pub seqno_min: SeqNo,
    /// The newest SeqNo in the file (regardless of `global_seqno`).
    pub seqno_max: SeqNo,
    /// The number of puts, deletes and merge operands. Range deletes do not count.
    pub entries: u64,
    /// The number of tombstones among the entries.
    pub deletes: u64,
    /// The number of merge operands among the entries.
    pub merges: u64,
    /// The number of range deletes.
    pub range_deletes: u64,
    /// The number of entries whose key has a newer entry in the same table. Snapshots and merge
    /// operands keep such entries.
    pub older_versions: u64,
    /// Bytes of all keys, before prefix and block compression.
    pub key_bytes_raw: u64,
    /// Bytes of all values, before block compression.
    pub value_bytes_raw: u64,
    /// The CRC-32C of the whole file.
    pub checksum: u32,
    /// The SeqNo that readers see for every entry and range delete of the table. Set for an
    /// ingested table, whose file has another SeqNo everywhere.
    pub global_seqno: Option<SeqNo>,
    /// The compression that the table was written with; blocks that did not shrink are stored
    /// uncompressed all the same. `None` if it is not known: an older flagstone wrote the table, or
    /// a newer one used a compression that this one does not know.
    pub compression: Option<Compression>,
    /// The [salt](crate::TableIdent::salt) of the table.
    pub salt: u32,
    /// When the entries expire that have an expiry.
    pub expiries: Expiries,
    /// The first and the last hash that a key of the table may have, as the router computes it.
    /// `None` if that was not limited. Only the manifest has it.
    pub hashes: Option<(u64, u64)>,
}

const FIELDS: FieldReader = FieldReader::of("table field");

// All known to the first readers. A later field has an even tag if older readers may skip it.
const NUMBER: u64 = 1;
const BYTES: u64 = 2;
const TAIL_BYTES: u64 = 3;
const SMALLEST: u64 = 4;
const LARGEST: u64 = 5;
const LARGEST_EXCLUSIVE: u64 = 6;
const SEQNO_MIN: u64 = 7;
const SEQNO_MAX: u64 = 8;
const ENTRIES: u64 = 9;
const DELETES: u64 = 10;
const MERGES: u64 = 11;
const RANGE_DELETES: u64 = 12;
const KEY_BYTES_RAW: u64 = 13;
const VALUE_BYTES_RAW: u64 = 14;
const CHECKSUM: u64 = 15;
const GLOBAL_SEQNO: u64 = 16;
const COMPRESSION: u64 = 17;
const OLDER_VERSIONS: u64 = 18;
const SALT: u64 = 19;
const EXPIRING: u64 = 20;
const EXPIRY_MIN: u64 = 21;
const EXPIRY_MEDIAN: u64 = 22;
const EXPIRY_MAX: u64 = 23;
const HASHES: u64 = 25;

impl TableMeta {
    /// Appends the record as tagged fields to `out`. The fields do not tell where they end, so a
    /// caller that appends more must write their length first.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldWriter::new(out);
        fields.number(NUMBER, self.number.0);
        fields.number(BYTES, self.bytes);
        fields.number(TAIL_BYTES, self.tail_bytes);
        fields.bytes(SMALLEST, &self.smallest);
        fields.bytes(LARGEST, &self.largest);
        fields.number_unless_zero(LARGEST_EXCLUSIVE, u64::from(self.largest_exclusive));
        fields.number_unless_zero(SEQNO_MIN, self.seqno_min.get());
        fields.number_unless_zero(SEQNO_MAX, self.seqno_max.get());
        fields.number_unless_zero(ENTRIES, self.entries);
        fields.number_unless_zero(DELETES, self.deletes);
        fields.number_unless_zero(MERGES, self.merges);
        fields.number_unless_zero(RANGE_DELETES, self.range_deletes);
        fields.number_unless_zero(KEY_BYTES_RAW, self.key_bytes_raw);
        fields.number_unless_zero(VALUE_BYTES_RAW, self.value_bytes_raw);
        fields.number(CHECKSUM, u64::from(self.checksum));
        if let Some(seqno) = self.global_seqno {
            fields.number(GLOBAL_SEQNO, seqno.get());
        }
        if let Some(compression) = self.compression {
            fields.bytes(COMPRESSION, &compression.setting());
        }
        fields.number_unless_zero(OLDER_VERSIONS, self.older_versions);
        fields.number_unless_zero(SALT, u64::from(self.salt));
        let Expiries { count, min, median, max } = self.expiries;
        fields.number_unless_zero(EXPIRING, count);
        fields.number_unless_zero(EXPIRY_MIN, min.millis());
        fields.number_unless_zero(EXPIRY_MEDIAN, median.millis());
        fields.number_unless_zero(EXPIRY_MAX, max.millis());
        if let Some((first, last)) = self.hashes {
            fields.bytes(HASHES, &[first.to_le_bytes(), last.to_le_bytes()].concat());
        }
    }

    /// Decodes what [`TableMeta::encode`] appended, which must be all of `bytes`.
    ///
    /// # Errors
    /// Malformed bytes: a broken field, bounds or expiries that are not in order, or more expiries
    /// than entries. A field that only a newer flagstone knows and that must not be skipped.
    pub fn decode(bytes: &[u8]) -> Result<Self, Undecoded> {
        let mut meta = Self::default();
        FIELDS.read(bytes, |tag, field| {
            match tag {
                SMALLEST => meta.smallest = field.to_vec(),
                LARGEST => meta.largest = field.to_vec(),
                COMPRESSION => meta.compression = Compression::of_setting(field)?,
                HASHES => meta.hashes = Some(decode_hashes(field)?),
                _ => return meta.set_number(tag, field),
            }
            Ok(true)
        })?;
        if meta.smallest > meta.largest {
            return Err(Malformed { at: 0, expected: "bounds of a table in order" }.into());
        }
        if !meta.expiries.is_sound() || meta.expiries.count > meta.entries {
            return Err(Malformed { at: 0, expected: "expiries of a table in order" }.into());
        }
        Ok(meta)
    }

    fn set_number(&mut self, tag: u64, field: &[u8]) -> Result<bool, Undecoded> {
        let place = match tag {
            NUMBER => &mut self.number.0,
            BYTES => &mut self.bytes,
            TAIL_BYTES => &mut self.tail_bytes,
            ENTRIES => &mut self.entries,
            DELETES => &mut self.deletes,
            MERGES => &mut self.merges,
            RANGE_DELETES => &mut self.range_deletes,
            OLDER_VERSIONS => &mut self.older_versions,
            KEY_BYTES_RAW => &mut self.key_bytes_raw,
            VALUE_BYTES_RAW => &mut self.value_bytes_raw,
            LARGEST_EXCLUSIVE => {
                self.largest_exclusive = number(field)? != 0;
                return Ok(true);
            }
            SEQNO_MIN | SEQNO_MAX | GLOBAL_SEQNO => {
                let seqno = SeqNo::new(number(field)?);
                match tag {
                    SEQNO_MIN => self.seqno_min = seqno,
                    SEQNO_MAX => self.seqno_max = seqno,
                    _ => self.global_seqno = Some(seqno),
                }
                return Ok(true);
            }
            EXPIRING => &mut self.expiries.count,
            EXPIRY_MIN | EXPIRY_MEDIAN | EXPIRY_MAX => {
                let moment = Moment::from_millis(number(field)?);
                match tag {
                    EXPIRY_MIN => self.expiries.min = moment,
                    EXPIRY_MEDIAN => self.expiries.median = moment,
                    _ => self.expiries.max = moment,
                }
                return Ok(true);
            }
            CHECKSUM | SALT => {
                *(if tag == SALT { &mut self.salt } else { &mut self.checksum }) = narrow(field)?;
                return Ok(true);
            }
            _ => return Ok(false),
        };
        *place = number(field)?;
        Ok(true)
    }

    /// The upper bound of the keys.
    pub fn upper(&self) -> Bound<&[u8]> {
        if self.largest_exclusive {
            Bound::Excluded(&self.largest)
        } else {
            Bound::Included(&self.largest)
        }
    }

    /// The oldest and the newest SeqNo that a reader sees in the table, which is `global_seqno` if
    /// set.
    pub fn seqnos(&self) -> (SeqNo, SeqNo) {
        match self.global_seqno {
            Some(seqno) => (seqno, seqno),
            None => (self.seqno_min, self.seqno_max),
        }
    }

    /// Returns whether all that the table holds are puts that have expired at `moment`.
    pub fn is_expired_at(&self, moment: Moment) -> bool {
        self.entries > 0
            && self.expiries.count == self.entries
            && self.range_deletes == 0
            && self.expiries.max <= moment
    }

    /// Returns whether the bounds of the two tables overlap.
    pub fn overlaps_table(&self, other: &Self) -> bool {
        self.reaches(&other.smallest) && other.reaches(&self.smallest)
    }

    /// Returns whether `key` is not above the upper bound.
    fn reaches(&self, key: &[u8]) -> bool {
        if self.largest_exclusive {
            key < self.largest.as_slice()
        } else {
            key <= self.largest.as_slice()
        }
    }
}

fn decode_hashes(field: &[u8]) -> Result<(u64, u64), Undecoded> {
    let mut decoder = Decoder::new(field);
    let (first, last) = (decoder.u64("a first hash")?, decoder.u64("a last hash")?);
    if first <= last && decoder.is_done() {
        Ok((first, last))
    } else {
        Err(Malformed { at: 0, expected: "two hashes in order" }.into())
    }
}

/// For example `000042 [a..m] #3..#9 120 entries 2.1 MiB zstd 1`. A `)` replaces the `]` if the end
/// is exclusive. The compression is left out if it is not known.
impl fmt::Display for TableMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let close = if self.largest_exclusive { ')' } else { ']' };
        let (oldest, newest) = self.seqnos();
        write!(
            f,
            "{} [{}..{}{close} {oldest}..{newest} {} entries",
            self.number,
            self.smallest.escape_ascii(),
            self.largest.escape_ascii(),
            self.entries
        )?;
        if self.range_deletes > 0 {
            write!(f, " {} range deletes", self.range_deletes)?;
        }
        if self.expiries.count > 0 {
            write!(f, " {}", self.expiries)?;
        }
        write!(f, " {}", Bytes(self.bytes))?;
        match self.compression {
            Some(Compression::None) => f.write_str(" plain"),
            Some(compression) => write!(f, " {compression}"),
            None => Ok(()),
        }
    }
}

/// Displays a number of bytes in B, KiB or MiB.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1024 => write!(f, "{} B", self.0),
            1024..1_048_576 => write!(f, "{:.1} KiB", self.0 as f64 / 1024.0),
            _ => write!(f, "{:.1} MiB", self.0 as f64 / 1_048_576.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> TableMeta {
        TableMeta {
            number: FileNumber(42),
            bytes: 2_200_000,
            tail_bytes: 900,
            smallest: b"a".to_vec(),
            largest: b"m".to_vec(),
            largest_exclusive: true,
            seqno_min: SeqNo::new(3),
            seqno_max: SeqNo::new(9),
            entries: 120,
            range_deletes: 1,
            checksum: 0xDEAD_BEEF,
            ..TableMeta::default()
        }
    }

    #[test]
    fn a_meta_comes_back_whatever_is_set() {
        for global_seqno in [None, Some(SeqNo::ZERO), Some(SeqNo::new(7))] {
            let meta = TableMeta { global_seqno, ..meta() };
            let mut bytes = Vec::new();
            meta.encode(&mut bytes);
            assert_eq!(TableMeta::decode(&bytes), Ok(meta));
            for len in 0..bytes.len() {
                let _ = TableMeta::decode(&bytes[..len]);
            }
        }
    }

    #[test]
    fn hashes_are_encoded_last_and_must_be_in_order() {
        let encoded = |hashes| {
            let mut bytes = Vec::new();
            TableMeta { hashes, ..meta() }.encode(&mut bytes);
            bytes
        };
        let before = encoded(None);
        let bytes = encoded(Some((1, u64::MAX)));
        let field = [&[25, 16, 1, 0, 0, 0, 0, 0, 0, 0][..], &[0xFF; 8]].concat();
        assert_eq!(bytes, [&before[..], &field].concat());
        assert_eq!(TableMeta::decode(&bytes).unwrap().hashes, Some((1, u64::MAX)));
        assert!(TableMeta::decode(&encoded(Some((2, 1)))).is_err());
        assert!(TableMeta::decode(&[&before[..], &[25, 2, 1, 1]].concat()).is_err());
        let longer = [&before[..], &[25, 17], &[0; 17]].concat();
        assert!(TableMeta::decode(&longer).is_err());
    }

    #[test]
    fn a_compression_is_encoded_after_the_older_fields() {
        let encoded = |compression| {
            let mut bytes = Vec::new();
            TableMeta { compression, ..meta() }.encode(&mut bytes);
            bytes
        };
        let before = encoded(None);
        assert_eq!(TableMeta::decode(&before), Ok(meta()));
        for (compression, field) in [
            (Compression::None, [17, 2, 0, 0]),
            (Compression::Lz4, [17, 2, 1, 0]),
            (Compression::Zstd(19), [17, 2, 2, 19]),
        ] {
            let bytes = encoded(Some(compression));
            assert_eq!(bytes, [&before[..], &field].concat());
            assert_eq!(TableMeta::decode(&bytes).unwrap().compression, Some(compression));
        }
    }

    fn expiring() -> TableMeta {
        let [min, median, max] = [300, 301, 302].map(Moment::from_millis);
        TableMeta { expiries: Expiries { count: 2, min, median, max }, ..meta() }
    }

    #[test]
    fn expiries_are_encoded_after_the_older_fields_and_must_be_in_order() {
        let (mut before, mut bytes) = (Vec::new(), Vec::new());
        meta().encode(&mut before);
        expiring().encode(&mut bytes);
        let fields = [20, 1, 2, 21, 2, 0xAC, 2, 22, 2, 0xAD, 2, 23, 2, 0xAE, 2];
        assert_eq!(bytes, [&before[..], &fields].concat());
        assert_eq!(TableMeta::decode(&bytes), Ok(expiring()));
        for (place, value) in [(2, 121), (2, 0), (5, 0xAE), (9, 0xAF)] {
            let mut damaged = bytes.clone();
            damaged[before.len() + place] = value;
            assert!(TableMeta::decode(&damaged).is_err(), "{value} at {place}");
        }
        let line = "000042 [a..m) #3..#9 120 entries 1 range deletes 2 expire @300..@302 2.1 MiB";
        assert_eq!(expiring().to_string(), line);
    }

    #[test]
    fn a_table_has_expired_if_all_its_entries_are_puts_that_have() {
        let all = TableMeta { entries: 2, range_deletes: 0, ..expiring() };
        let (before, at) = (Moment::from_millis(301), Moment::from_millis(302));
        assert!(all.is_expired_at(at) && !all.is_expired_at(before));
        assert!(!TableMeta { entries: 3, ..all.clone() }.is_expired_at(at));
        assert!(!TableMeta { range_deletes: 1, ..all }.is_expired_at(at));
        assert!(!TableMeta::default().is_expired_at(Moment::MAX));
    }

    #[test]
    fn a_compression_of_a_newer_flagstone_is_not_known_and_a_broken_one_refused() {
        let with = |field: &[u8]| {
            let mut bytes = Vec::new();
            meta().encode(&mut bytes);
            bytes.extend_from_slice(field);
            TableMeta::decode(&bytes)
        };
        assert_eq!(with(&[17, 3, 9, 1, 4]), Ok(meta()));
        assert!(with(&[17, 0]).is_err() && with(&[17, 2, 1, 1]).is_err());
    }

    #[test]
    fn damaged_bytes_are_refused_or_read_but_never_panic() {
        let mut bytes = Vec::new();
        TableMeta { compression: Some(Compression::Zstd(3)), ..expiring() }.encode(&mut bytes);
        for at in 0..bytes.len() {
            for flip in 1..=255 {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let _ = TableMeta::decode(&damaged);
            }
        }
    }

    #[test]
    fn a_field_of_a_newer_flagstone_is_skipped_if_its_tag_is_even() {
        let mut bytes = Vec::new();
        meta().encode(&mut bytes);
        bytes.extend_from_slice(&[98, 2, 7, 7]);
        assert_eq!(TableMeta::decode(&bytes), Ok(meta()));
        let newer = Undecoded::Newer { at: bytes.len(), what: "table field", number: 99 };
        bytes.extend_from_slice(&[99, 2, 7, 7]);
        assert_eq!(TableMeta::decode(&bytes), Err(newer));
    }

    #[test]
    fn an_exclusive_end_does_not_belong_to_the_table() {
        let meta = meta();
        let next = TableMeta { smallest: b"m".to_vec(), largest: b"z".to_vec(), ..meta.clone() };
        assert!(!meta.overlaps_table(&next) && !next.overlaps_table(&meta));
        let inclusive = TableMeta { largest_exclusive: false, ..meta };
        assert!(inclusive.overlaps_table(&next) && next.overlaps_table(&inclusive));
    }

    #[test]
    fn it_shows_on_one_line() {
        let line = "000042 [a..m) #3..#9 120 entries 1 range deletes 2.1 MiB";
        assert_eq!(meta().to_string(), line);
        for (compression, word) in [(Compression::None, "plain"), (Compression::Zstd(1), "zstd 1")]
        {
            let meta = TableMeta { compression: Some(compression), ..meta() };
            assert_eq!(meta.to_string(), format!("{line} {word}"));
        }
    }
}
