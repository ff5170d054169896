//! A stand-in for the edit of a tree, until the crate `flagstone-tree` brings it.

use crate::catalog::{FieldWriter, items, number, read_fields};
use flagstone_base::codec::put_varint;
use flagstone_base::{FileNumber, Malformed, SeqNo, TreeId};
pub(crate) use flagstone_sst::TableMeta;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeEdit {
    pub(crate) tree: TreeId,
    pub(crate) added: Vec<(u8, TableMeta)>,
    pub(crate) removed: Vec<FileNumber>,
    pub(crate) flushed_through: Option<SeqNo>,
    pub(crate) watermark: SeqNo,
}

impl TreeEdit {
    pub(crate) fn new(tree: TreeId) -> Self {
        Self {
            tree,
            added: Vec::new(),
            removed: Vec::new(),
            flushed_through: None,
            watermark: SeqNo::ZERO,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldWriter::new(out);
        fields.number(1, u64::from(self.tree.0));
        fields.list(3, &self.added, |(level, meta), out| {
            out.push(*level);
            meta.encode(out);
        });
        fields.list(5, &self.removed, |number, out| put_varint(out, number.0));
        if let Some(seqno) = self.flushed_through {
            fields.number(7, seqno.get());
        }
        fields.number(9, self.watermark.get());
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let wrong = Malformed { at: 0, expected: "a tree edit" };
        let mut edit = Self::new(TreeId(0));
        read_fields(bytes, |tag, field| {
            match tag {
                1 => edit.tree = TreeId(u32::try_from(number(field)?).map_err(|_large| wrong)?),
                3 => {
                    edit.added = items(field, |item| {
                        let (level, meta) = item.split_first().ok_or(wrong)?;
                        Ok((*level, TableMeta::decode(meta)?))
                    })?;
                }
                5 => edit.removed = items(field, |item| Ok(FileNumber(number(item)?)))?,
                7 => edit.flushed_through = Some(SeqNo::new(number(field)?)),
                9 => edit.watermark = SeqNo::new(number(field)?),
                _ => return Ok(false),
            }
            Ok(true)
        })
        .map_err(|_any| wrong)?;
        Ok(edit)
    }
}

impl fmt::Display for TreeEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} +{} -{}", self.tree, self.added.len(), self.removed.len())
    }
}
