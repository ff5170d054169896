//! The encoders of each thread. An encoder remembers the field names of its last documents and
//! keeps its buffers.

use flagstone_doc::Encoder;
use std::cell::RefCell;
use std::thread::LocalKey;

thread_local! {
    /// For the documents of collections, whose names are ids of a table.
    static OF_COLLECTIONS: RefCell<Encoder> = RefCell::new(Encoder::new());
    /// For self-contained documents. An encoder forgets its names when the table changes, so these
    /// have an encoder of their own.
    static SELF_CONTAINED: RefCell<Encoder> = RefCell::new(Encoder::new());
}

/// Calls `encode` with the encoder of this thread for documents of collections.
pub(crate) fn for_collections<R>(encode: impl FnOnce(&mut Encoder) -> R) -> R {
    with(&OF_COLLECTIONS, encode)
}

/// Calls `encode` with the encoder of this thread for self-contained documents.
pub(crate) fn self_contained<R>(encode: impl FnOnce(&mut Encoder) -> R) -> R {
    with(&SELF_CONTAINED, encode)
}

fn with<R>(
    encoder: &'static LocalKey<RefCell<Encoder>>,
    encode: impl FnOnce(&mut Encoder) -> R,
) -> R {
    encoder.with(|encoder| match encoder.try_borrow_mut() {
        Ok(mut encoder) => encode(&mut encoder),
        // The `Serialize` of a value that is being encoded encodes another value.
        Err(_borrowed) => encode(&mut Encoder::new()),
    })
}
