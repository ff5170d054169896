//! The part of a catalog record that says which keyspace owns this one.

use flagstone_base::KeyspaceId;

/// The longest note of an owned keyspace, in bytes.
pub const NOTE_BYTES_MAX: usize = 64 << 10;

/// An owned keyspace: part of another one, such as an index of a collection. It is renamed with its
/// owner, and dropped with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedRecord {
    /// The keyspace that owns this one. Its number is smaller.
    pub(crate) owner: KeyspaceId,
    /// Bytes that the layer above keeps with the keyspace.
    pub(crate) note: Vec<u8>,
    /// A repair may have lost entries of this keyspace or of its owner, so that they do not agree.
    pub(crate) is_doubtful: bool,
}

impl OwnedRecord {
    /// Checks the record of the keyspace `id`. The error says what was expected.
    pub(super) fn check(&self, id: KeyspaceId) -> Result<(), &'static str> {
        if self.owner.0 == 0 || self.owner >= id {
            return Err("an owner with a smaller id");
        }
        if self.note.len() > NOTE_BYTES_MAX {
            return Err("a note of at most 65,536 bytes");
        }
        Ok(())
    }
}
