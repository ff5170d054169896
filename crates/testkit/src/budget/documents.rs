//! Documents of almost 16 MiB are put, patched, read, scanned and parsed. A budget of 64 MiB allows
//! no longer ones in a batch.

use super::meter::Meter;
use super::work::{ChildPlace, entries, noise};
use flagstone::{Document, Json, KeyspaceOptions, Patch, Routing, Space};

/// The length of a document's text.
const TEXT: usize = (16 << 20) - (64 << 10);
/// The number of threads that put.
const THREADS: u64 = 2;

pub(super) fn documents(place: &ChildPlace, meter: &mut Meter) {
    let count = place.sized(200, 8);
    let db = place.open();
    let options = KeyspaceOptions::new().routing(Routing::Hash(4));
    let documents = db.space("documents").options(options).collection().expect("a collection");
    let texts: Vec<Vec<u8>> = (0..THREADS).map(json).collect();
    let made: Vec<Document> =
        texts.iter().map(|text| Document::from_json(text).expect("a document")).collect();
    // A thread holds only its texts and documents while it puts them.
    let ours = (THREADS as usize * 2 * TEXT) as u64;
    meter.hold(ours);
    meter.phase("put by two threads", || {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (documents, made) = (&documents, &made[thread as usize]);
                scope.spawn(move || {
                    (0..count / THREADS)
                        .for_each(|n| documents.put(n * THREADS + thread, made).expect("a put"));
                });
            }
        });
    });
    drop(made);
    meter.hold(ours / 2);
    meter.phase("put as JSON", || {
        (0..count / 4).for_each(|n| documents.put(n, Json(&texts[0])).expect("a put"));
    });
    // The closure gets a decoded document: the old text and the new one.
    meter.hold(ours / 2 + 2 * TEXT as u64);
    meter.phase("update", || {
        for n in 0..count / 4 {
            documents.update(n, |document| document.set("m", 1)).expect("an update");
        }
    });
    drop(texts);
    meter.hold(0);
    meter.phase("patch", || {
        (0..count * 4).for_each(|n| {
            documents.patch(n % count, &Patch::new().inc("n", 1)).expect("a patch");
        });
    });
    // The caller holds the document that it reads.
    meter.hold(TEXT as u64);
    meter.phase("get", || {
        for n in 0..count {
            let document = documents.get(n).expect("a get").expect("a document");
            assert_eq!(document.int("n").unwrap(), 4);
        }
    });
    meter.phase("read a part", || {
        (0..count).for_each(|n| {
            assert!(documents.get_path(n, "n").expect("a get").is_some());
        });
    });
    meter.phase("scan", || {
        assert_eq!(entries(documents.scan(..)), count);
    });
    meter.hold(0);
    meter.phase("compact", || db.compact().expect("a compaction"));
    meter.hold(TEXT as u64);
    meter.phase("scan backwards", || {
        let scan = documents.scan(..).rev();
        assert_eq!(entries(scan), count);
    });
    drop(documents);
    meter.hold(0);
    meter.phase("close", || db.close().expect("a close"));
}

/// Returns `{"n":0,"text":".."}` with a text that compresses to three quarters.
fn json(n: u64) -> Vec<u8> {
    let mut noise_bytes = vec![0; TEXT - 64];
    noise(&mut noise_bytes, n, 0);
    noise_bytes.iter_mut().for_each(|byte| *byte = b'0' + (*byte & 63).min(43));
    // The text has no quote and no backslash: only '0'..='['.
    [&br#"{"n":0,"text":""#[..], &noise_bytes, b"\"}"].concat()
}
