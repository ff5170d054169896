//! Documents that are written otherwise than by drivers, and that these must be able to read.

use crate::bson::{UNMEASURED, takes_more};
use crate::failure::NOT_FOR_DRIVERS;
use crate::wire::DOCUMENT_BYTES_MAX;
use flagstone::Collection;
use flagstone::internal::{DocumentCheck, checked};

/// Returns a handle of a collection through which no document is written that no driver could read,
/// but by a patch that is written without a read.
pub(crate) fn for_drivers(collection: &Collection) -> Collection {
    let check = |root: &flagstone::View<'_>| {
        if takes_more(root, DOCUMENT_BYTES_MAX) {
            let text = format!("a document larger than 16 MiB as BSON {NOT_FOR_DRIVERS}");
            return Err(flagstone::Error::invalid(text));
        }
        Ok(())
    };
    checked(collection, DocumentCheck { above: UNMEASURED, check })
}
