//! The place of a commit in the line of publication.

use crate::health::Health;
use crate::history::{History, PublishTicket};
use flagstone_base::{Error, ErrorKind};

/// The place of a commit in the line of publication. All later commits wait for it. If the commit
/// panics, its place is given up and the database is poisoned, since nobody knows what the commit
/// has written.
pub(crate) struct InFlight<'a> {
    health: &'a Health,
    history: &'a History,
    place: Option<PublishTicket>,
}

impl<'a> InFlight<'a> {
    #[inline]
    pub(super) const fn new(
        health: &'a Health,
        history: &'a History,
        place: PublishTicket,
    ) -> Self {
        Self { health, history, place: Some(place) }
    }

    /// Publishes a commit whose entries are in memtables or tables, or that has none. Returns when
    /// they are visible.
    #[inline]
    pub(crate) fn publish(mut self) {
        if let Some(place) = self.place.take() {
            self.history.publisher.finish(place);
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.health.poison(&Error::new(ErrorKind::Poisoned, "a commit panicked"));
            self.history.publisher.finish(place);
        }
    }
}
