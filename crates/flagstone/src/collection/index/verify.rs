//! Compares indexes with their documents, in both directions, as of one snapshot.

use super::show::{shown_components, shown_key};
use super::verify_remote;
use crate::collection::stored::Stored;
use crate::index::{DocumentEntries, Ends, IndexState, Refusal, index_of, parts, value_of};
use flagstone_base::key::KeyRange;
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_doc::View;
use flagstone_engine::{Keyspace, Snapshot};
use std::fmt;

/// What a verification of indexes has compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexVerifyReport {
    /// The number of indexes.
    pub indexes: u64,
    /// The number of documents that were read, once for each index.
    pub documents: u64,
    /// The number of entries.
    pub entries: u64,
}

impl fmt::Display for IndexVerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { indexes, documents, entries } = self;
        write!(f, "{indexes} indexes, {documents} documents, {entries} entries: all of them agree")
    }
}

/// Verifies all complete indexes of a collection: each has just the entries of its documents. One
/// that is dropped meanwhile is left out.
///
/// # Errors
/// Corruption that names index, value and key for the first difference; Io, Closed.
pub(crate) fn verify(stored: &Stored) -> Result<IndexVerifyReport> {
    if let Some(remote) = stored.remote() {
        return verify_remote::verify(stored, remote);
    }
    let (keyspace, mut report) = (stored.keyspace()?, IndexVerifyReport::default());
    for owned in stored.engine().owned(keyspace) {
        let Some(index) = index_of(&owned) else { continue };
        // The snapshot is taken after the index was complete.
        if index.usable_from().is_none() {
            continue;
        }
        // An index goes with its collection.
        let is_gone = |one: &Keyspace| one.is_dropped() || keyspace.is_dropped();
        let (snapshot, mut more) = (owned.snapshot(), report);
        match (Verify { stored, owned: &owned, index, snapshot }).run(&mut more) {
            Ok(()) => report = more,
            Err(error) if error.kind() == ErrorKind::InvalidInput && is_gone(&owned) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(report)
}

struct Verify<'a> {
    stored: &'a Stored,
    owned: &'a Keyspace,
    index: &'a IndexState,
    snapshot: Snapshot,
}

impl Verify<'_> {
    fn run(&self, report: &mut IndexVerifyReport) -> Result<()> {
        let mut expected = 0;
        let mut scan = self.snapshot.scan(self.stored.keyspace()?, KeyRange::ALL)?;
        while scan.advance()? {
            expected += self.check_document(scan.key(), scan.value_bytes())?;
            report.documents += 1;
        }
        let mut entries = 0;
        let mut scan = self.snapshot.scan(self.owned, KeyRange::ALL)?;
        while scan.advance()? {
            entries += 1;
        }
        // Each expected entry is there. If there are no others, these are all.
        if entries != expected {
            self.find_surplus()?;
            return Err(self.corrupt(format_args!("{entries} entries: expected {expected}")));
        }
        report.indexes += 1;
        report.entries += entries;
        Ok(())
    }

    /// Checks that the index has the entries of a document. Returns how many.
    fn check_document(&self, key: &[u8], document: &[u8]) -> Result<u64> {
        let entries = self.entries_of(key, document)?;
        let expiry = self.snapshot.expiry(self.stored.keyspace()?, key)?;
        let mut value = Vec::new();
        for (entry, flags) in entries.iter() {
            value.clear();
            value_of(&self.index.definition, flags, key, &mut value);
            let found = self.snapshot.get(self.owned, entry)?;
            if found.as_deref() != Some(&value) {
                let what = if found.is_some() { "another" } else { "no" };
                return Err(self.wrong(entry, key, format_args!("{what} entry")));
            }
            if self.snapshot.expiry(self.owned, entry)? != expiry {
                return Err(self.wrong(entry, key, format_args!("an entry of another expiry")));
            }
        }
        Ok(entries.iter().len() as u64)
    }

    fn entries_of(&self, key: &[u8], document: &[u8]) -> Result<DocumentEntries> {
        let damaged = |malformed| self.stored.corrupt("a stored document", malformed);
        let root = View::of(document, self.stored.names()).map_err(damaged)?;
        DocumentEntries::of(&self.index.definition, &root, key, None).map_err(|refusal| {
            match refusal {
                Refusal::Malformed(malformed) => damaged(malformed),
                Refusal::Unfit(error) => Error::new(ErrorKind::Corruption, error.to_string()),
            }
        })
    }

    /// Returns the error for the first entry whose document does not have it.
    fn find_surplus(&self) -> Result<()> {
        let definition = &self.index.definition;
        let mut scan = self.snapshot.scan(self.owned, KeyRange::ALL)?;
        while scan.advance()? {
            let (entry, value) = (scan.key(), scan.value_bytes());
            let (directions, is_unique) = (definition.directions(), definition.is_unique);
            let mut ends = Ends::default();
            let parts = parts((entry, value), directions, is_unique, b"", &mut ends)
                .map_err(|malformed| self.corrupt(format_args!("an entry, {malformed}")))?;
            let key = parts.primary_key;
            let has_it = match self.snapshot.get(self.stored.keyspace()?, key)? {
                None => false,
                Some(document) => self.entries_of(key, &document)?.iter().any(|(e, _)| e == entry),
            };
            if !has_it {
                return Err(self.wrong(entry, key, format_args!("an entry that it does not have")));
            }
        }
        Ok(())
    }

    #[cold]
    fn wrong(&self, entry: &[u8], key: &[u8], what: fmt::Arguments<'_>) -> Error {
        let value = shown_components(&self.index.definition, entry);
        self.corrupt(format_args!("the document of key {} has {what} for {value}", shown_key(key)))
    }

    #[cold]
    fn corrupt(&self, what: fmt::Arguments<'_>) -> Error {
        let (index, collection) = (&self.index.definition.name, self.stored.name());
        let text = format!("index {index:?} of {collection:?}: {what}");
        Error::new(ErrorKind::Corruption, text)
    }
}
