//! The log of a damaged database: entries that are not in tables yet are gathered and written as
//! tables.

use super::output::{RepairOutput, RepairOutputs};
use crate::commit::record::{self, LogNote, LoggedOp, Refusal};
use crate::content::DefinitionRecord;
use flagstone_base::sorted::{SortedMap, sort_by};
use flagstone_base::{Decoder, EntryRef, KeyspaceId, Kind, Malformed, Result, SeqNo};
use flagstone_base::{Trailer, TreeId};
use flagstone_wal::Record;

/// The bytes of log entries that are gathered before they are written as tables.
pub(super) const GATHERED_BYTES: usize = 32 << 20;

/// Where an operation of the log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RepairTarget {
    /// L0 of a tree that is trusted.
    Tree(TreeId),
    /// The sources of a keyspace that is rebuilt.
    Rebuilt(KeyspaceId),
}

/// An entry of the log.
pub(super) struct LogEntry {
    key: Vec<u8>,
    trailer: Trailer,
    value: Vec<u8>,
}

impl LogEntry {
    fn as_entry(&self) -> EntryRef<'_> {
        EntryRef { key: &self.key, trailer: self.trailer, value: &self.value }
    }
}

/// Log entries that wait to be written.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) by_target: SortedMap<RepairTarget, Vec<LogEntry>>,
    pub(super) bytes: usize,
}

impl Gathered {
    pub(super) fn add(&mut self, target: RepairTarget, seqno: SeqNo, op: &LoggedOp<'_>) {
        let (key, value) = (op.key.to_vec(), op.value.to_vec());
        self.bytes += key.len() + value.len() + 64;
        let entry = LogEntry { key, trailer: op.at(seqno).trailer, value };
        self.by_target.get_or_insert_with(target, Vec::new).push(entry);
    }
}

/// Writes entries in order. Of two entries with the same key and SeqNo, only the first is written.
pub(super) fn write(
    outputs: &mut RepairOutputs<'_>,
    owner: super::output::TableOwner<'_>,
    mut entries: Vec<LogEntry>,
) -> Result<RepairOutput> {
    sort_by(&mut entries, |a, b| a.as_entry().order(&b.as_entry()));
    let mut output = outputs.begin(owner)?;
    let mut last: Option<(&[u8], SeqNo)> = None;
    for entry in entries.iter().map(LogEntry::as_entry) {
        if entry.kind() == Kind::RangeDelete {
            output.delete_range(entry.key, entry.value, entry.seqno())?;
            continue;
        }
        if last == Some((entry.key, entry.seqno())) {
            continue;
        }
        last = Some((entry.key, entry.seqno()));
        output.add(entry)?;
    }
    Ok(output)
}

/// The decoded contents of a record of the log.
pub(super) enum Decoded<'a> {
    Operations(Vec<(SeqNo, LoggedOp<'a>)>),
    Definition(DefinitionRecord),
    /// A record kind, or flags of an operation, that only a newer flagstone knows.
    Unknown,
}

pub(super) fn decode<'a>(record: &Record<'a>) -> Result<Decoded<'a>, Malformed> {
    match record.kind {
        record::DEFINITION => Ok(Decoded::Definition(DefinitionRecord::decode(record.payload)?)),
        record::BATCH => {
            let mut decoder = Decoder::new(record.payload);
            let mut operations = Vec::new();
            for at in 0..record.count {
                let seqno = record.first_seqno.plus(u64::from(at));
                match record::read_op(&mut decoder) {
                    Ok(op) => operations.push((seqno, op)),
                    Err(Refusal::Malformed(malformed)) => return Err(malformed),
                    Err(Refusal::Flags { .. }) => return Ok(Decoded::Unknown),
                }
            }
            record::read_olds(&mut decoder, record.count, |_op, _old| {})?;
            Ok(Decoded::Operations(operations))
        }
        kind => match LogNote::decode(kind, record.payload) {
            // Only readers of changes need it.
            Some(note) => note.map(|_note| Decoded::Operations(Vec::new())),
            None => Ok(Decoded::Unknown),
        },
    }
}
