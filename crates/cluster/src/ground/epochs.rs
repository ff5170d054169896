//! Epochs of buckets: how they follow the catalog.

use super::core::{Ground, View, epoch_of, place};
use super::generations::pass_fence;
use crate::backoff::Backoff;
use crate::catalog::Buckets;
use crate::side_by_side::side_by_side;
use crate::store::Freshness;
use flagstone_base::{Error, ErrorKind, Result};
use std::sync::Arc;

/// How often an epoch is tried to be set.
const TRIES: u32 = 100;

/// Brings the epoch of a bucket and what is known of the catalog into agreement: raises the epoch,
/// or reads the catalog again. Returns what is known then. If the collection does not have these
/// `buckets`, nothing is done.
///
/// # Errors
/// InvalidInput if the collection was dropped; those of the store.
pub(crate) fn settle(ground: &Ground, bucket: u32, buckets: &Buckets) -> Result<Arc<View>> {
    let mut backoff = Backoff::of(TRIES);
    let mut last_error = None;
    loop {
        match step(ground, bucket, buckets) {
            Ok(Some(view)) => return Ok(view),
            Ok(None) => {}
            // It is tried again whether it happened or not.
            Err(error) if error.kind() == ErrorKind::Unknown => last_error = Some(error),
            Err(error) => return Err(error),
        }
        if !backoff.again() {
            let place = place(&ground.name, ground.view().partition(bucket));
            let last_error = last_error.map(|error| format!(": {error}")).unwrap_or_default();
            let text = format!("the epoch of {place} could not be set{last_error}: try again");
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
    }
}

/// One attempt. Returns what is known if it agrees with the bucket.
fn step(ground: &Ground, bucket: u32, buckets: &Buckets) -> Result<Option<Arc<View>>> {
    let view = ground.view();
    if view.note.rows.buckets != *buckets {
        return Ok(Some(view));
    }
    let partition = view.partition(bucket);
    match epoch_of(&*ground.store, partition)? {
        Some(epoch) if epoch == view.note.epoch => return Ok(Some(view)),
        Some(epoch) if epoch < 0 => drop(pass_fence(ground, partition.generation)?),
        Some(epoch) if epoch > view.note.epoch => {
            drop(ground.reload(Freshness::Serial)?);
        }
        older => drop(ground.store.set_epoch(partition, older, view.note.epoch)?),
    }
    Ok(None)
}

/// Brings the epochs of all buckets into agreement with the catalog. Afterwards no batch is applied
/// that was made under an older one.
///
/// # Errors
/// As [`settle`].
pub(crate) fn raise_all(ground: &Ground) -> Result<()> {
    let view = ground.view();
    let buckets = &view.note.rows.buckets;
    let all = (0..buckets.count()).collect();
    side_by_side(all, |bucket| settle(ground, bucket, buckets).map(drop))
}
