//! What the plan of a query rests on: the catalog that was known when it was made.
//!
//! A query does not read the catalog before it begins. After its first pages, while it fetches the
//! documents that they lead to, it reads the version of the catalog. If the version is the known
//! one, the catalog has not changed since before the query began: the plan was right, and pages
//! without rows, which tell no epoch, belong to no dropped index and no old generation.

use crate::ground::{Ground, View};
use crate::store::{Freshness, Rows, RowsRequest};
use flagstone_base::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The premise of one query.
pub(crate) struct Premise {
    ground: Arc<Ground>,
    version: i64,
    /// 1 plus the number of reads of pages so far; 0 once the premise is settled. Later pages do
    /// not rest on it: they look at the catalog themselves.
    open: AtomicU64,
}

impl Premise {
    /// Returns the premise of a query that begins.
    pub(crate) fn new(ground: &Arc<Ground>, view: &View) -> Self {
        let (ground, version) = (Arc::clone(ground), view.version);
        Self { ground, version, open: AtomicU64::new(1) }
    }

    /// Called before pages are read. Settles the premise before the second read of pages, so that a
    /// long query learns early that it must begin again.
    pub(crate) fn before_pages(&self) -> Result<()> {
        if self.open.load(Ordering::Acquire) > 1 { self.settle() } else { Ok(()) }
    }

    /// Notes that pages were read. Returns whether they rest on the premise: it is not settled yet.
    pub(crate) fn covers_pages(&self) -> bool {
        let one_more = |open| (open > 0).then_some(open + 1);
        self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    /// See [`Remote::settle`](flagstone::remote::Remote::settle).
    pub(crate) fn settle(&self) -> Result<()> {
        loop {
            let open = self.open.load(Ordering::Acquire);
            if open == 0 {
                return Ok(());
            }
            let version = self.ground.store.version(&self.ground.name, Freshness::Settled)?;
            self.settled(open, version)?;
        }
    }

    /// Called after a look at the catalog for another reason.
    pub(crate) fn check(&self, now: &View) -> Result<()> {
        let is_open = self.open.load(Ordering::Acquire) > 0;
        if is_open && now.version > self.version { Err(self.changed()) } else { Ok(()) }
    }

    /// Reads rows, and settles the premise meanwhile.
    pub(crate) fn rows(&self, requests: &[RowsRequest]) -> Result<Vec<Result<Rows>>> {
        let (store, open) = (&self.ground.store, self.open.load(Ordering::Acquire));
        if open == 0 {
            return Ok(store.rows(requests));
        }
        let (rows, version) = store.rows_and_version(requests, &self.ground.name);
        self.settled(open, version?)?;
        Ok(rows)
    }

    /// Settles the premise if `version` is the known one. `open` is what it was before the version
    /// was read.
    fn settled(&self, open: u64, version: Option<i64>) -> Result<()> {
        if version.is_some_and(|version| version <= self.version) {
            // Unless other pages were read meanwhile.
            let _open = self.open.compare_exchange(open, 0, Ordering::AcqRel, Ordering::Acquire);
            return Ok(());
        }
        let _newest = self.ground.reload(Freshness::Settled)?;
        Err(self.changed())
    }

    #[cold]
    fn changed(&self) -> Error {
        Error::invalid(format!(
            "the indexes or the layout of collection {:?} were changed while it was read: run the \
             query again",
            self.ground.name
        ))
    }
}
