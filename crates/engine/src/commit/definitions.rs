//! The definitions that a batch uses go to the log right before it.

use super::batch::Write;
use super::record;
use crate::content::DefinitionRecord;
use flagstone_base::{Result, SeqNo};
use flagstone_wal::{Log, Lsn, NewRecord, payload_checksum as checksum_of};
use smallvec::SmallVec;

/// Definitions of a keyspace that are not known to be in the log.
pub(super) struct NewDefinitions {
    /// The index of the keyspace in the batch, and that of its table of definitions.
    pub(super) table: (usize, usize),
    payload: Vec<u8>,
    /// The length of the table, these definitions included.
    pub(super) len: u32,
}

/// The most SeqNos that a write takes: one for each operation, and one for each table of
/// definitions.
#[inline]
pub(super) fn seqnos_wanted(write: &Write<'_>) -> u64 {
    let tables = write.keyspaces.iter().map(|keyspace| keyspace.definitions.len());
    (write.ops.len() + tables.sum::<usize>()) as u64
}

/// Collects the definitions that must be in the log before the batch. Mostly there are none.
#[inline]
pub(super) fn definitions_of(write: &Write<'_>) -> Vec<NewDefinitions> {
    let mut found = Vec::new();
    for (at, keyspace) in write.keyspaces.iter().enumerate() {
        for (place, table) in keyspace.definitions.iter().enumerate() {
            let (logged, len) = (table.logged(), table.len());
            if logged < len {
                let definition = DefinitionRecord {
                    keyspace: keyspace.id,
                    kind: table.kind,
                    first_id: logged,
                    items: table.range(logged, len),
                };
                let mut payload = Vec::new();
                definition.encode(&mut payload);
                found.push(NewDefinitions { table: (at, place), payload, len });
            }
        }
    }
    found
}

/// Enqueues the definitions, each with a SeqNo from `first` on, and then the batch. They go
/// together: the log must never hold a batch without the definitions that it uses.
pub(super) fn enqueue(
    log: &Log,
    first: SeqNo,
    definitions: &[NewDefinitions],
    write: &Write<'_>,
    payload_checksum: u32,
) -> Result<Lsn> {
    let count = write.ops.len() as u32;
    let batch = |first_seqno| NewRecord {
        kind: record::BATCH,
        first_seqno,
        count,
        payload: write.payload,
        shared: write.shared,
        payload_checksum,
    };
    if definitions.is_empty() {
        return log.enqueue_together(&[batch(first)]);
    }
    let records = definitions.iter().zip(0..).map(|(definition, i)| NewRecord {
        kind: record::DEFINITION,
        first_seqno: first.plus(i),
        count: 1,
        payload: &definition.payload,
        shared: None,
        payload_checksum: checksum_of(&definition.payload),
    });
    let last = batch(first.plus(definitions.len() as u64));
    let records: SmallVec<[NewRecord<'_>; 2]> = records.chain([last]).collect();
    log.enqueue_together(&records)
}
