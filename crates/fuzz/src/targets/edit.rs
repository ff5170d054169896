//! A tree edit with its tables: what decodes is encoded to the same bytes again.

use super::{bounded, note};
use flagstone_base::{Compression, FileNumber, SeqNo, TreeId};
use flagstone_sst::TableMeta;
use flagstone_tree::TreeEdit;

pub(super) fn body(bytes: &[u8]) {
    match bounded(bytes.len(), 400, "an edit", || TreeEdit::decode(bytes)) {
        Ok(edit) => {
            note(format_args!("{} {}", edit.added.len().min(2), edit.removed.is_empty()));
            let mut again = Vec::new();
            edit.encode(&mut again);
            assert_eq!(TreeEdit::decode(&again).as_ref(), Ok(&edit), "{edit}");
        }
        Err(wrong) => {
            assert!(wrong.at() <= bytes.len(), "{wrong}");
            note(wrong);
        }
    }
    if let Ok(meta) = TableMeta::decode(bytes) {
        let mut again = Vec::new();
        meta.encode(&mut again);
        assert_eq!(TableMeta::decode(&again).as_ref(), Ok(&meta), "{meta}");
        assert!(meta.overlaps_table(&meta) || meta.smallest == meta.largest, "{meta}");
        note(meta.seqnos().0 > meta.seqnos().1);
    }
}

fn meta(number: u64) -> TableMeta {
    TableMeta {
        number: FileNumber(number),
        bytes: 4096,
        tail_bytes: 300,
        smallest: b"apple".to_vec(),
        largest: b"pear".to_vec(),
        largest_exclusive: number.is_multiple_of(2),
        seqno_min: SeqNo::new(3),
        seqno_max: SeqNo::new(900),
        entries: 70,
        range_deletes: 1,
        checksum: 0xDEAD_BEEF,
        global_seqno: number.is_multiple_of(3).then(|| SeqNo::new(8)),
        compression: Some(Compression::Zstd(3)),
        ..TableMeta::default()
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut edit = TreeEdit::new(TreeId(3));
    edit.added = vec![(0, meta(42)), (6, meta(300))];
    edit.removed = vec![FileNumber(7), FileNumber(1000)];
    edit.flushed_through = Some(SeqNo::new(900));
    edit.watermark = SeqNo::new(5);
    let (mut whole, mut small, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    edit.encode(&mut whole);
    TreeEdit::new(TreeId(1)).encode(&mut small);
    meta(9).encode(&mut alone);
    vec![whole, small, alone]
}
