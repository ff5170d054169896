//! One edit: an atomic change of the database, stored in one frame of the manifest.

use crate::catalog::{CatalogCounters, KeyspaceRecord};
use crate::content::DefinitionRecord;
use crate::history::HistoryId;
use crate::options::ChangeRetention;
use flagstone_base::codec::{put_u64, put_varint};
use flagstone_base::fields::{FieldReader, FieldWriter, items, narrow, number};
use flagstone_base::{
    Decoder, FileNumber, KeyspaceId, Malformed, Moment, SeqNo, TreeId, Undecoded,
};
use flagstone_tree::TreeEdit;
use flagstone_wal::NewestKept;
use std::fmt;

/// One edit. Fields that are not set change nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Edit {
    /// The keyspaces that the edit creates.
    pub(crate) keyspaces_created: Vec<KeyspaceRecord>,
    /// The new records of keyspaces whose name, table options or expiry mark change.
    pub(crate) keyspaces_altered: Vec<KeyspaceRecord>,
    /// The keyspaces that the edit drops, with their trees, tables and definitions.
    pub(crate) keyspaces_dropped: Vec<KeyspaceId>,
    /// The tables added to and removed from trees, applied one after another.
    pub(crate) tables: Vec<TreeEdit>,
    /// New definitions. A definition may be repeated if it is equal.
    pub(crate) definitions: Vec<DefinitionRecord>,
    /// The largest SeqNo that may have been assigned.
    pub(crate) last_seqno: Option<SeqNo>,
    /// The smallest file number that was not assigned.
    pub(crate) next_file: Option<FileNumber>,
    /// The oldest segment of the write-ahead log that recovery needs.
    pub(crate) wal_from: Option<FileNumber>,
    /// The database was closed with everything in tables.
    pub(crate) clean_close: bool,
    /// No SeqNo above this one was assigned.
    pub(crate) seqno_ceiling: Option<SeqNo>,
    /// The files in which the write-ahead log may begin segments.
    pub(crate) log_files: Vec<FileNumber>,
    /// The history to which the writes belong.
    pub(crate) history: Option<HistoryId>,
    /// The clock by which entries expire has reached this moment.
    pub(crate) moment: Option<Moment>,
    /// How long changes are kept for readers.
    pub(crate) retention: Option<ChangeRetention>,
    /// The newest segment of the log before `wal_from`, if it was kept for readers of changes.
    pub(crate) newest_kept: Option<NewestKept>,
    /// Unlogged writes up to this SeqNo are in tables. Set only while changes are kept.
    pub(crate) unlogged_through: Option<SeqNo>,
    /// The next numbers of the catalog; set only by a snapshot.
    pub(crate) counters: Option<CatalogCounters>,
}

const FIELDS: FieldReader = FieldReader::of("manifest field");

// All tags are odd, so a reader refuses those it does not know. A later field that may be skipped
// gets an even tag.
const COUNTERS: u64 = 1;
const KEYSPACES_CREATED: u64 = 3;
const KEYSPACES_ALTERED: u64 = 5;
const KEYSPACES_DROPPED: u64 = 7;
const TABLES: u64 = 9;
const DEFINITIONS: u64 = 11;
const LAST_SEQNO: u64 = 13;
const NEXT_FILE: u64 = 15;
const WAL_FROM: u64 = 17;
const CLEAN_CLOSE: u64 = 19;
const SEQNO_CEILING: u64 = 21;
const HISTORY: u64 = 23;
const LOG_FILES: u64 = 25;
const MOMENT: u64 = 27;
const RETENTION: u64 = 29;
const NEWEST_KEPT: u64 = 31;
const UNLOGGED_THROUGH: u64 = 33;

impl Edit {
    /// Appends the edit to `out`, as tagged fields.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldWriter::new(out);
        if let Some(counters) = self.counters {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, u64::from(counters.next_keyspace.0));
            put_varint(&mut bytes, u64::from(counters.next_tree.0));
            put_varint(&mut bytes, counters.epoch);
            fields.bytes(COUNTERS, &bytes);
        }
        fields.list(KEYSPACES_CREATED, &self.keyspaces_created, KeyspaceRecord::encode);
        fields.list(KEYSPACES_ALTERED, &self.keyspaces_altered, KeyspaceRecord::encode);
        fields.list(KEYSPACES_DROPPED, &self.keyspaces_dropped, |id, out| {
            put_varint(out, u64::from(id.0));
        });
        fields.list(TABLES, &self.tables, TreeEdit::encode);
        fields.list(DEFINITIONS, &self.definitions, DefinitionRecord::encode);
        if let Some(seqno) = self.last_seqno {
            fields.number(LAST_SEQNO, seqno.get());
        }
        if let Some(file) = self.next_file {
            fields.number(NEXT_FILE, file.0);
        }
        if let Some(file) = self.wal_from {
            fields.number(WAL_FROM, file.0);
        }
        if self.clean_close {
            fields.bytes(CLEAN_CLOSE, &[]);
        }
        if let Some(seqno) = self.seqno_ceiling {
            fields.number(SEQNO_CEILING, seqno.get());
        }
        if let Some(history) = self.history {
            fields.bytes(HISTORY, &history.0.to_le_bytes());
        }
        fields.list(LOG_FILES, &self.log_files, |file, out| put_varint(out, file.0));
        if let Some(moment) = self.moment {
            fields.number(MOMENT, moment.millis());
        }
        if let Some(retention) = self.retention {
            let ((bytes, age), mut field) = (retention.parts(), Vec::new());
            put_varint(&mut field, bytes);
            if let Some(age) = age {
                put_varint(&mut field, age);
            }
            fields.bytes(RETENTION, &field);
        }
        if let Some(NewestKept { number, end, salt }) = self.newest_kept {
            let mut field = Vec::new();
            put_varint(&mut field, number.0);
            put_varint(&mut field, end);
            put_u64(&mut field, salt);
            fields.bytes(NEWEST_KEPT, &field);
        }
        if let Some(seqno) = self.unlogged_through {
            fields.number(UNLOGGED_THROUGH, seqno.get());
        }
    }

    /// Decodes all of `bytes`, as [`Edit::encode`] wrote them. Whether the edit fits the state is
    /// checked by [`apply`](super::ManifestState::apply).
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Undecoded> {
        let mut edit = Self::default();
        FIELDS.read(bytes, |tag, field| edit.set(tag, field))?;
        Ok(edit)
    }

    fn set(&mut self, tag: u64, field: &[u8]) -> Result<bool, Undecoded> {
        match tag {
            COUNTERS => self.counters = Some(decode_counters(field)?),
            KEYSPACES_CREATED => self.keyspaces_created = items(field, KeyspaceRecord::decode)?,
            KEYSPACES_ALTERED => self.keyspaces_altered = items(field, KeyspaceRecord::decode)?,
            KEYSPACES_DROPPED => self.keyspaces_dropped = items(field, decode_id)?,
            TABLES => self.tables = items(field, TreeEdit::decode)?,
            DEFINITIONS => {
                self.definitions = items(field, |item| Ok(DefinitionRecord::decode(item)?))?
            }
            LAST_SEQNO => self.last_seqno = Some(decode_seqno(field)?),
            NEXT_FILE => self.next_file = Some(FileNumber(number(field)?)),
            WAL_FROM => self.wal_from = Some(FileNumber(number(field)?)),
            CLEAN_CLOSE if field.is_empty() => self.clean_close = true,
            CLEAN_CLOSE => {
                return Err(Malformed { at: 0, expected: "an empty field" }.into());
            }
            SEQNO_CEILING => self.seqno_ceiling = Some(decode_seqno(field)?),
            HISTORY => self.history = Some(decode_history(field)?),
            LOG_FILES => self.log_files = items(field, |item| Ok(FileNumber(number(item)?)))?,
            RETENTION => self.retention = Some(decode_retention(field)?),
            NEWEST_KEPT => self.newest_kept = Some(decode_newest_kept(field)?),
            UNLOGGED_THROUGH => self.unlogged_through = Some(decode_seqno(field)?),
            MOMENT => self.moment = Some(Moment::from_millis(number(field)?)),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn decode_counters(field: &[u8]) -> Result<CatalogCounters, Undecoded> {
    let mut decoder = Decoder::new(field);
    let next_keyspace = KeyspaceId(decoder.varint_u32("the next keyspace id")?);
    let next_tree = TreeId(decoder.varint_u32("the next tree id")?);
    let epoch = decoder.varint("the epoch of the catalog")?;
    decoder.finish("the end of the counters")?;
    Ok(CatalogCounters { next_keyspace, next_tree, epoch })
}

fn decode_retention(field: &[u8]) -> Result<ChangeRetention, Undecoded> {
    let mut decoder = Decoder::new(field);
    let bytes = decoder.varint("the bytes of kept changes")?;
    let age =
        if decoder.is_done() { None } else { Some(decoder.varint("the age of kept changes")?) };
    decoder.finish("the end of the retention")?;
    Ok(ChangeRetention::of_parts(bytes, age))
}

fn decode_newest_kept(field: &[u8]) -> Result<NewestKept, Undecoded> {
    let mut decoder = Decoder::new(field);
    let number = FileNumber(decoder.varint("the newest kept segment")?);
    let end = decoder.varint("the end of the newest kept segment")?;
    let salt = decoder.u64("the salt of the newest kept segment")?;
    decoder.finish("the end of the newest kept segment")?;
    Ok(NewestKept { number, end, salt })
}

fn decode_id(item: &[u8]) -> Result<KeyspaceId, Undecoded> {
    Ok(KeyspaceId(narrow(item)?))
}

fn decode_seqno(field: &[u8]) -> Result<SeqNo, Undecoded> {
    let value = number(field)?;
    if value > SeqNo::MAX.get() {
        return Err(Malformed { at: 0, expected: "a SeqNo of 56 bits" }.into());
    }
    Ok(SeqNo::new(value))
}

fn decode_history(field: &[u8]) -> Result<HistoryId, Undecoded> {
    let mut decoder = Decoder::new(field);
    let history = HistoryId(decoder.u64("a history id")?);
    decoder.finish("the end of the history id")?;
    Ok(history)
}

/// Writes one line for each thing that changes.
impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for record in &self.keyspaces_created {
            writeln!(f, "created {record}")?;
        }
        for record in &self.keyspaces_altered {
            writeln!(f, "altered {record}")?;
        }
        for id in &self.keyspaces_dropped {
            writeln!(f, "dropped {id}")?;
        }
        for tables in &self.tables {
            writeln!(f, "{tables}")?;
        }
        for definition in &self.definitions {
            writeln!(f, "{definition}")?;
        }
        if let Some(seqno) = self.last_seqno {
            writeln!(f, "last SeqNo {seqno}")?;
        }
        if let Some(file) = self.next_file {
            writeln!(f, "next file {file}")?;
        }
        if let Some(file) = self.wal_from {
            writeln!(f, "log needed from {file}")?;
        }
        if let Some(CatalogCounters { next_keyspace, next_tree, epoch }) = self.counters {
            writeln!(f, "next {next_keyspace}, next {next_tree}, epoch {epoch}")?;
        }
        if let Some(seqno) = self.seqno_ceiling {
            writeln!(f, "no SeqNo above {seqno}")?;
        }
        if let Some(history) = self.history {
            writeln!(f, "history {:016x}", history.0)?;
        }
        if let Some(moment) = self.moment {
            writeln!(f, "entries expire through {moment}")?;
        }
        if let Some(retention) = self.retention {
            writeln!(f, "changes kept: {retention}")?;
        }
        if let Some(NewestKept { number, end, .. }) = self.newest_kept {
            writeln!(f, "newest kept segment {number} ends at {end}")?;
        }
        if let Some(seqno) = self.unlogged_through {
            writeln!(f, "unlogged writes in tables through {seqno}")?;
        }
        if !self.log_files.is_empty() {
            write!(f, "log may use")?;
            self.log_files.iter().try_for_each(|file| write!(f, " {file}"))?;
            writeln!(f)?;
        }
        if self.clean_close { writeln!(f, "closed cleanly") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::support::{keyspace, table};
    use super::*;
    use crate::content::DefinitionKind;

    fn edit() -> Edit {
        let mut tables = TreeEdit::new(TreeId(1));
        tables.added = vec![(0, table(8)), (3, table(9))];
        tables.removed = vec![FileNumber(5)];
        tables.flushed_through = Some(SeqNo::new(77));
        Edit {
            keyspaces_created: vec![keyspace(1, "a", 1), keyspace(2, "b", 2)],
            keyspaces_altered: vec![keyspace(1, "a", 1)],
            keyspaces_dropped: vec![KeyspaceId(2)],
            tables: vec![tables],
            ..small_edit()
        }
    }

    fn small_edit() -> Edit {
        let items = vec![b"id".to_vec(), "ü".into()];
        Edit {
            definitions: vec![DefinitionRecord {
                keyspace: KeyspaceId(1),
                kind: DefinitionKind::NAMES,
                first_id: 3,
                items,
            }],
            last_seqno: Some(SeqNo::new(300)),
            next_file: Some(FileNumber(10)),
            wal_from: Some(FileNumber(7)),
            clean_close: true,
            seqno_ceiling: Some(SeqNo::new(1 << 24)),
            history: Some(HistoryId(0x1122_3344_5566_7788)),
            log_files: vec![FileNumber(7), FileNumber(300)],
            moment: Some(Moment::from_millis(300)),
            retention: Some(ChangeRetention::of_parts(300, Some(7))),
            newest_kept: Some(NewestKept {
                number: FileNumber(6),
                end: 300,
                salt: 0x1122_3344_5566_7788,
            }),
            unlogged_through: Some(SeqNo::new(299)),
            counters: Some(CatalogCounters {
                next_keyspace: KeyspaceId(3),
                next_tree: TreeId(4),
                epoch: 5,
            }),
            ..Edit::default()
        }
    }

    fn encoded(edit: &Edit) -> Vec<u8> {
        let mut bytes = Vec::new();
        edit.encode(&mut bytes);
        bytes
    }

    #[test]
    fn an_edit_decodes_to_itself_and_an_empty_one_takes_no_bytes() {
        for edit in [edit(), small_edit(), Edit::default()] {
            assert_eq!(Edit::decode(&encoded(&edit)), Ok(edit));
        }
        assert!(encoded(&Edit::default()).is_empty());
    }

    #[test]
    fn an_edit_has_golden_bytes() {
        let golden = [
            &[1, 3, 3, 4, 5][..],
            &[11, 10, 9, 1, 1, 3, 2, b'i', b'd', 2, 0xC3, 0xBC],
            &[13, 2, 0xAC, 2],
            &[15, 1, 10],
            &[17, 1, 7],
            &[19, 0],
            &[21, 4, 0x80, 0x80, 0x80, 8],
            &[23, 8, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11],
            &[25, 5, 1, 7, 2, 0xAC, 2],
            &[27, 2, 0xAC, 2],
            &[29, 3, 0xAC, 2, 7],
            &[31, 11, 6, 0xAC, 2, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11],
            &[33, 2, 0xAB, 2],
        ];
        assert_eq!(encoded(&small_edit()), golden.concat());
        let dropped = Edit { keyspaces_dropped: vec![KeyspaceId(2)], ..Edit::default() };
        assert_eq!(encoded(&dropped), [7, 2, 1, 2]);
    }

    #[test]
    fn damaged_edits_never_panic_and_a_cut_one_is_refused_or_shorter() {
        let bytes = encoded(&edit());
        for at in 0..bytes.len() {
            if let Ok(cut) = Edit::decode(&bytes[..at]) {
                assert_ne!(cut, edit());
            }
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let _any = Edit::decode(&damaged);
            }
        }
    }

    #[test]
    fn an_edit_shows_what_changes_line_by_line() {
        let text = small_edit().to_string();
        assert_eq!(
            text,
            "keyspace 1 names from 3: \"id\" \"ü\"\nlast SeqNo #300\nnext file 000010\n\
             log needed from 000007\nnext keyspace 3, next tree 4, epoch 5\n\
             no SeqNo above #16777216\nhistory 1122334455667788\nentries expire through @300\n\
             changes kept: 300 bytes, 0.007 s\nnewest kept segment 000006 ends at 300\n\
             unlogged writes in tables through #299\nlog may use 000007 000300\nclosed cleanly\n"
        );
    }
}
