//! A change of a tree's shape, and its bytes in the manifest (`docs/format/edit.md`).
//!
//! ```text
//! edit    = tagged fields of crate base
//! tag 1   tree             varint; always present
//! tag 2   table added      level u8 | table meta; once a table
//! tag 3   tables removed   varint*
//! tag 4   flushed through  varint SeqNo
//! tag 5   watermark        varint SeqNo; absent = 0
//! tag 7   expired through  varint milliseconds since 1970; absent = 0
//! tag 8   untraced through varint SeqNo; absent = the watermark
//! ```

use flagstone_base::codec::put_varint;
use flagstone_base::fields::{FieldReader, FieldWriter, narrow, number};
use flagstone_base::{Decoder, FileNumber, Malformed, Moment, SeqNo, TreeId, Undecoded};
use flagstone_sst::TableMeta;
use std::fmt;

const TREE: u64 = 1;
const ADDED: u64 = 2;
const REMOVED: u64 = 3;
const FLUSHED_THROUGH: u64 = 4;
const WATERMARK: u64 = 5;
const EXPIRED_THROUGH: u64 = 7;
const UNTRACED_THROUGH: u64 = 8;

const FIELDS: FieldReader = FieldReader::of("tree edit field").repeating(ADDED);

/// Tables that are added to and removed from a tree at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeEdit {
    /// The tree that the edit changes.
    pub tree: TreeId,
    /// New tables and their levels. A table that the same edit removes is moved.
    pub added: Vec<(u8, TableMeta)>,
    /// Removed tables.
    pub removed: Vec<FileNumber>,
    /// Every write of this tree up to this SeqNo is in tables now; replay skips them. `None` if the
    /// edit does not change that.
    pub flushed_through: Option<SeqNo>,
    /// A reader at a SeqNo below the watermark that is not registered may miss versions in the new
    /// tables.
    pub watermark: SeqNo,
    /// Entries that have expired at this moment are missing, or tombstones, in the new tables. A
    /// reader that judges by an earlier moment may miss them.
    pub expired_through: Moment,
    /// Writes up to this SeqNo may have left no trace: neither an entry of their key nor a deleted
    /// range that is as new. `None` if nothing is known but the watermark.
    pub untraced_through: Option<SeqNo>,
}

impl TreeEdit {
    /// Creates an edit of `tree` that changes nothing yet.
    pub fn new(tree: TreeId) -> Self {
        Self { tree, ..Self::default() }
    }

    /// Gives the tables of an ingest their SeqNo. Every write of the tree up to it must be in
    /// tables.
    pub fn set_seqno(&mut self, seqno: SeqNo) {
        self.added.iter_mut().for_each(|(_, meta)| meta.global_seqno = Some(seqno));
        self.flushed_through = Some(seqno);
    }

    /// Gives the tables of an ingest the SeqNo of a floor. `flushed` is what the tree was flushed
    /// through before, and may be newer.
    pub fn set_seqno_below(&mut self, floor: SeqNo, flushed: SeqNo) {
        self.set_seqno(floor);
        self.flushed_through = self.flushed_through.filter(|through| *through > flushed);
    }

    /// Writes up to this SeqNo may have left no trace.
    pub fn untraced(&self) -> SeqNo {
        self.untraced_through.unwrap_or(self.watermark)
    }

    /// Appends the edit as tagged fields to `out`. The fields do not tell where they end, so a
    /// caller that appends more must write their length first.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut field = Vec::new();
        let mut fields = FieldWriter::new(out);
        fields.number(TREE, u64::from(self.tree.0));
        for (level, meta) in &self.added {
            field.clear();
            field.push(*level);
            meta.encode(&mut field);
            fields.bytes(ADDED, &field);
        }
        if !self.removed.is_empty() {
            field.clear();
            self.removed.iter().for_each(|number| put_varint(&mut field, number.0));
            fields.bytes(REMOVED, &field);
        }
        if let Some(seqno) = self.flushed_through {
            fields.number(FLUSHED_THROUGH, seqno.get());
        }
        fields.number_unless_zero(WATERMARK, self.watermark.get());
        fields.number_unless_zero(EXPIRED_THROUGH, self.expired_through.millis());
        if let Some(seqno) = self.untraced_through {
            fields.number(UNTRACED_THROUGH, seqno.get());
        }
    }

    /// Decodes what [`TreeEdit::encode`] appended, which must be all of `bytes`.
    ///
    /// # Errors
    /// Malformed bytes, a missing tree, or a field that only a newer flagstone knows and that must
    /// not be skipped.
    pub fn decode(bytes: &[u8]) -> Result<Self, Undecoded> {
        let mut edit = Self::default();
        let mut has_tree = false;
        FIELDS.read(bytes, |tag, field| {
            has_tree |= tag == TREE;
            edit.set(tag, field)
        })?;
        if !has_tree {
            return Err(Malformed { at: bytes.len(), expected: "the tree of an edit" }.into());
        }
        Ok(edit)
    }

    fn set(&mut self, tag: u64, field: &[u8]) -> Result<bool, Undecoded> {
        let mut decoder = Decoder::new(field);
        match tag {
            TREE => self.tree = TreeId(narrow(field)?),
            ADDED => {
                let level = decoder.u8("the level of a table")?;
                let meta = TableMeta::decode(decoder.rest()).map_err(|wrong| wrong.moved(1))?;
                self.added.push((level, meta));
            }
            REMOVED => {
                while !decoder.is_done() {
                    let number = decoder.varint("the number of a removed table")?;
                    self.removed.push(FileNumber(number));
                }
            }
            FLUSHED_THROUGH => self.flushed_through = Some(seqno(field)?),
            WATERMARK => self.watermark = seqno(field)?,
            EXPIRED_THROUGH => self.expired_through = Moment::from_millis(number(field)?),
            UNTRACED_THROUGH => self.untraced_through = Some(seqno(field)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn seqno(field: &[u8]) -> Result<SeqNo, Malformed> {
    let value = number(field)?;
    if value > SeqNo::MAX.get() {
        return Err(Malformed { at: 0, expected: "a SeqNo of 56 bits" });
    }
    Ok(SeqNo::new(value))
}

/// For example `tree 3 +L0 000042 [a..m] ... -000017 flushed through #9 watermark #7`.
impl fmt::Display for TreeEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.tree)?;
        for (level, meta) in &self.added {
            write!(f, " +L{level} {meta}")?;
        }
        for number in &self.removed {
            write!(f, " -{number}")?;
        }
        if let Some(seqno) = self.flushed_through {
            write!(f, " flushed through {seqno}")?;
        }
        if self.watermark > SeqNo::ZERO {
            write!(f, " watermark {}", self.watermark)?;
        }
        if self.expired_through > Moment::ZERO {
            write!(f, " expired through {}", self.expired_through)?;
        }
        if let Some(seqno) = self.untraced_through {
            write!(f, " untraced through {seqno}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit() -> TreeEdit {
        let meta = TableMeta {
            number: FileNumber(42),
            bytes: 4096,
            tail_bytes: 512,
            smallest: b"a".to_vec(),
            largest: b"m".to_vec(),
            seqno_min: SeqNo::new(3),
            seqno_max: SeqNo::new(9),
            entries: 7,
            checksum: 0x0102_0304,
            ..TableMeta::default()
        };
        TreeEdit {
            tree: TreeId(3),
            added: vec![(0, meta)],
            removed: vec![FileNumber(17), FileNumber(300)],
            flushed_through: Some(SeqNo::new(9)),
            watermark: SeqNo::new(7),
            expired_through: Moment::from_millis(300),
            untraced_through: Some(SeqNo::new(6)),
        }
    }

    #[test]
    fn the_bytes_of_an_edit_never_change() {
        let mut bytes = Vec::new();
        edit().encode(&mut bytes);
        let meta_len = {
            let mut meta = Vec::new();
            edit().added[0].1.encode(&mut meta);
            meta.len()
        };
        assert_eq!(bytes[..6], [1, 1, 3, 2, meta_len as u8 + 1, 0]);
        let tail = &bytes[6 + meta_len..];
        assert_eq!(tail, [3, 3, 17, 0xAC, 2, 4, 1, 9, 5, 1, 7, 7, 2, 0xAC, 2, 8, 1, 6]);
        assert_eq!(TreeEdit::decode(&bytes), Ok(edit()));
    }

    #[test]
    fn damaged_bytes_are_refused_or_read_but_never_panic() {
        let mut bytes = Vec::new();
        edit().encode(&mut bytes);
        for at in 0..bytes.len() {
            let _ = TreeEdit::decode(&bytes[..at]);
            for value in 0..=255 {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = TreeEdit::decode(&damaged);
            }
        }
        assert!(TreeEdit::decode(&[]).is_err());
    }

    #[test]
    fn an_unknown_field_is_refused_if_its_tag_is_odd() {
        let mut bytes = Vec::new();
        edit().encode(&mut bytes);
        bytes.extend_from_slice(&[10, 1, 9]);
        assert_eq!(TreeEdit::decode(&bytes), Ok(edit()));
        let newer = Undecoded::Newer { at: bytes.len(), what: "tree edit field", number: 11 };
        bytes.extend_from_slice(&[11, 1, 9]);
        assert_eq!(TreeEdit::decode(&bytes), Err(newer));
    }

    #[test]
    fn it_shows_on_one_line() {
        assert_eq!(
            edit().to_string(),
            "tree 3 +L0 000042 [a..m] #3..#9 7 entries 4.0 KiB -000017 -000300 \
             flushed through #9 watermark #7 expired through @300 untraced through #6"
        );
    }
}
