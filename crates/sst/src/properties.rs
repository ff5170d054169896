//! The properties of a table, its last section: content, build options, and the places of the other
//! sections.

use crate::meta::TableMeta;
use flagstone_base::codec::put_varint;
use flagstone_base::fields::{FieldReader, FieldWriter, narrow, number};
use flagstone_base::{Decoder, KeyspaceId, Malformed, TreeId, Undecoded};

/// The properties that a table records about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// Bounds, SeqNos and counts. `bytes`, `tail_bytes`, `checksum` and `global_seqno` are zero
    /// here, because they are known only after the file is finished.
    pub content: TableMeta,
    /// The keyspace that the table was written for.
    pub keyspace: KeyspaceId,
    /// The keyspace that owns this keyspace; 0 if none does.
    pub owner: KeyspaceId,
    /// The tree that the table was written for.
    pub tree: TreeId,
    /// The hash seed of the keyspace.
    pub hash_seed: u64,
    /// The number of the [`crate::FilterKey`] that the filter was built with.
    pub filter_key: u8,
    /// The number of data blocks.
    pub data_blocks: u64,
    /// Bytes of the data blocks before compression.
    pub data_bytes_raw: u64,
    /// Bytes of the largest stored block before compression. A reader allocates no more for one
    /// block.
    pub block_bytes_max: u64,
    /// The sample covers one key in two to this power. `None` in a table of an older flagstone,
    /// which has no sample.
    pub sample_shift: Option<u8>,
    /// The stored bytes that the dictionary of the data blocks left of 1,024 raw ones when it was
    /// trained; 0 if the table has no dictionary.
    pub dictionary_share: u32,
    /// The places of the sections.
    pub(crate) sections: Sections,
}

/// The place of a stored block: its offset, and its length with its trailer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Handle {
    /// The offset after the last byte, or `None` if it overflows.
    pub(crate) const fn end(self) -> Option<u64> {
        self.offset.checked_add(self.len)
    }
}

/// The places of the sections after the data blocks; `None` for a section that the table does not
/// have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sections {
    pub(crate) range_deletes: Option<Handle>,
    pub(crate) attachments: Option<Handle>,
    pub(crate) sample: Option<Handle>,
    /// The dictionary of the data blocks.
    pub(crate) dictionary: Option<Handle>,
    /// The whole filter, in the tail of an older table.
    pub(crate) filter: Option<Handle>,
    /// The filter parts, between the data blocks and the tail.
    pub(crate) filter_parts: Option<FilterParts>,
    /// The whole index, or the top of an index in parts.
    pub(crate) index: Option<Handle>,
    /// All parts of an index in parts, before the tail.
    pub(crate) index_parts: Option<Handle>,
}

/// The place of the filter parts (`parts.rs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FilterParts {
    /// The offset of the first part.
    pub(crate) offset: u64,
    /// The number of filter blocks in all parts.
    pub(crate) blocks: u32,
}

const FIELDS: FieldReader = FieldReader::of("table property");

const CONTENT: u64 = 1;
const KEYSPACE: u64 = 2;
const TREE: u64 = 3;
const HASH_SEED: u64 = 4;
const FILTER_KEY: u64 = 5;
const DATA_BLOCKS: u64 = 6;
const DATA_BYTES_RAW: u64 = 7;
const BLOCK_BYTES_MAX: u64 = 8;
const SAMPLE_SHIFT: u64 = 9;
const OWNER: u64 = 10;
const DICTIONARY_SHARE: u64 = 11;
const SECTION_RANGE_DELETES: u64 = 32;
const SECTION_ATTACHMENTS: u64 = 33;
const SECTION_FILTER: u64 = 34;
const SECTION_INDEX: u64 = 35;
const FILTER_PARTS: u64 = 36;
const SECTION_SAMPLE: u64 = 37;
const INDEX_PARTS: u64 = 38;
const SECTION_DICTIONARY: u64 = 39;

impl Properties {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut content = Vec::new();
        self.content.encode(&mut content);
        let mut fields = FieldWriter::new(out);
        fields.bytes(CONTENT, &content);
        fields.number_unless_zero(KEYSPACE, u64::from(self.keyspace.0));
        fields.number_unless_zero(TREE, u64::from(self.tree.0));
        fields.number_unless_zero(HASH_SEED, self.hash_seed);
        fields.number_unless_zero(FILTER_KEY, u64::from(self.filter_key));
        fields.number_unless_zero(DATA_BLOCKS, self.data_blocks);
        fields.number_unless_zero(DATA_BYTES_RAW, self.data_bytes_raw);
        fields.number_unless_zero(BLOCK_BYTES_MAX, self.block_bytes_max);
        if let Some(shift) = self.sample_shift {
            fields.number(SAMPLE_SHIFT, u64::from(shift));
        }
        fields.number_unless_zero(OWNER, u64::from(self.owner.0));
        fields.number_unless_zero(DICTIONARY_SHARE, u64::from(self.dictionary_share));
        for (tag, handle) in [
            (SECTION_RANGE_DELETES, self.sections.range_deletes),
            (SECTION_ATTACHMENTS, self.sections.attachments),
            (SECTION_FILTER, self.sections.filter),
            (SECTION_INDEX, self.sections.index),
        ] {
            if let Some(handle) = handle {
                fields.bytes(tag, &pair(handle.offset, handle.len));
            }
        }
        if let Some(parts) = self.sections.filter_parts {
            fields.bytes(FILTER_PARTS, &pair(parts.offset, u64::from(parts.blocks)));
        }
        for (tag, handle) in [
            (SECTION_SAMPLE, self.sections.sample),
            (INDEX_PARTS, self.sections.index_parts),
            (SECTION_DICTIONARY, self.sections.dictionary),
        ] {
            if let Some(handle) = handle {
                fields.bytes(tag, &pair(handle.offset, handle.len));
            }
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Undecoded> {
        let mut properties = Self::default();
        FIELDS.read(bytes, |tag, field| properties.set(tag, field))?;
        Ok(properties)
    }

    fn set(&mut self, tag: u64, field: &[u8]) -> Result<bool, Undecoded> {
        match tag {
            CONTENT => self.content = TableMeta::decode(field)?,
            KEYSPACE => self.keyspace = KeyspaceId(narrow(field)?),
            TREE => self.tree = TreeId(narrow(field)?),
            HASH_SEED => self.hash_seed = number(field)?,
            FILTER_KEY => self.filter_key = narrow(field)?,
            SAMPLE_SHIFT => self.sample_shift = Some(narrow(field)?),
            OWNER => self.owner = KeyspaceId(narrow(field)?),
            DATA_BLOCKS => self.data_blocks = number(field)?,
            DATA_BYTES_RAW => self.data_bytes_raw = number(field)?,
            BLOCK_BYTES_MAX => self.block_bytes_max = number(field)?,
            SECTION_RANGE_DELETES => self.sections.range_deletes = Some(handle(field)?),
            SECTION_ATTACHMENTS => self.sections.attachments = Some(handle(field)?),
            SECTION_FILTER => self.sections.filter = Some(handle(field)?),
            SECTION_INDEX => self.sections.index = Some(handle(field)?),
            FILTER_PARTS => self.sections.filter_parts = Some(filter_parts(field)?),
            SECTION_SAMPLE => self.sections.sample = Some(handle(field)?),
            INDEX_PARTS => self.sections.index_parts = Some(handle(field)?),
            SECTION_DICTIONARY => self.sections.dictionary = Some(handle(field)?),
            DICTIONARY_SHARE => self.dictionary_share = narrow(field)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn pair(first: u64, second: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(20);
    put_varint(&mut bytes, first);
    put_varint(&mut bytes, second);
    bytes
}

fn handle(field: &[u8]) -> Result<Handle, Malformed> {
    let mut decoder = Decoder::new(field);
    let offset = decoder.varint("the offset of a section")?;
    let len = decoder.varint("the length of a section")?;
    decoder.finish("the end of a section's place")?;
    Ok(Handle { offset, len })
}

fn filter_parts(field: &[u8]) -> Result<FilterParts, Malformed> {
    let mut decoder = Decoder::new(field);
    let offset = decoder.varint("the offset of a filter")?;
    let blocks = decoder.varint_u32("the number of filter blocks")?;
    decoder.finish("the end of a filter's place")?;
    if blocks == 0 || offset > u64::MAX / 2 {
        return Err(Malformed { at: 0, expected: "a filter of at least one block" });
    }
    Ok(FilterParts { offset, blocks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_come_back_and_no_mutation_panics() {
        let properties = Properties {
            content: TableMeta {
                smallest: b"a".to_vec(),
                largest: b"b".to_vec(),
                ..TableMeta::default()
            },
            keyspace: KeyspaceId(3),
            owner: KeyspaceId(2),
            tree: TreeId(4),
            hash_seed: u64::MAX,
            filter_key: 255,
            data_blocks: 1,
            data_bytes_raw: 2,
            block_bytes_max: 3,
            sample_shift: Some(4),
            dictionary_share: 200,
            sections: Sections {
                index: Some(Handle { offset: u64::MAX, len: 7 }),
                filter_parts: Some(FilterParts { offset: 64, blocks: 513 }),
                sample: Some(Handle { offset: 7, len: 99 }),
                index_parts: Some(Handle { offset: 8, len: 98 }),
                dictionary: Some(Handle { offset: 9, len: 97 }),
                ..Sections::default()
            },
        };
        let mut bytes = Vec::new();
        properties.encode(&mut bytes);
        assert_eq!(Properties::decode(&bytes), Ok(properties));
        for at in 0..bytes.len() {
            for flip in 1..=255 {
                let mut broken = bytes.clone();
                broken[at] ^= flip;
                let _ = Properties::decode(&broken);
            }
        }
    }
}
