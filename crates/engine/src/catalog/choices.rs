//! What a user chose, to a record and back; and whether a later choice agrees with the first.
//!
//! Routing, content and fold are fixed at creation. Compression, block size and filter bits say
//! only how tables are written from now on, so they may change.

use super::record::{KeyspaceContent, KeyspaceRecord};
use crate::options::{KeyspaceOptions, Routing};
use crate::partition::{Route, hash_start};
use flagstone_base::{KeyspaceId, TreeId};
use std::fmt;

impl KeyspaceRecord {
    /// The record of a new keyspace, whose trees are numbered from `tree_first` on.
    pub(crate) fn new(
        id: KeyspaceId,
        name: &str,
        tree_first: TreeId,
        content: KeyspaceContent,
        options: &KeyspaceOptions,
        seed: u64,
    ) -> Self {
        let route = match &options.routing {
            Routing::Hash(partitions) => {
                let n = usize::from(*partitions);
                Route::Hash { starts: (0..n).map(|i| hash_start(i, n)).collect(), seed }
            }
            Routing::Range(bounds) => Route::Range { bounds: bounds.clone(), seed },
        };
        let trees = (tree_first.0..).take(route.partitions()).map(TreeId).collect();
        Self {
            id,
            name: name.to_owned(),
            trees,
            route,
            content,
            fold: options.fold.clone(),
            compression: options.compression,
            bottom_compression: options.bottom_compression,
            block_bytes: options.block_bytes,
            filter_bits: options.filter_bits,
        }
    }

    /// The options that make such a keyspace.
    pub(crate) fn options(&self) -> KeyspaceOptions {
        let routing = match &self.route {
            Route::Hash { starts, .. } => {
                Routing::Hash(u16::try_from(starts.len()).unwrap_or(u16::MAX))
            }
            Route::Range { bounds, .. } => Routing::Range(bounds.clone()),
        };
        KeyspaceOptions {
            routing,
            compression: self.compression,
            bottom_compression: self.bottom_compression,
            block_bytes: self.block_bytes,
            filter_bits: self.filter_bits,
            fold: self.fold.clone(),
        }
    }

    /// The same keyspace with what may change taken from `options`.
    pub(crate) fn with_options(&self, options: &KeyspaceOptions) -> Self {
        Self {
            compression: options.compression,
            bottom_compression: options.bottom_compression,
            block_bytes: options.block_bytes,
            filter_bits: options.filter_bits,
            ..self.clone()
        }
    }

    /// Why the keyspace cannot be opened with these options as one of `content`, if it cannot: the
    /// text names what it has and what was asked for.
    pub(crate) fn mismatch(
        &self,
        options: &KeyspaceOptions,
        content: &KeyspaceContent,
        fold_if_new: Option<&str>,
    ) -> Option<String> {
        if let Some(text) = self.content_mismatch(content) {
            return Some(text);
        }
        let name = &self.name;
        let routing = self.options().routing;
        if routing != options.routing {
            let (has, asked) = (Routed(&routing), Routed(&options.routing));
            return Some(format!("keyspace {name:?} has {has}: it was opened with {asked}"));
        }
        // One that would get a fold unasked may have another, or none if it is old.
        let takes_any = fold_if_new.is_some() && options.fold.is_none();
        if self.fold != options.fold && !takes_any {
            let (has, asked) = (Folded(self.fold.as_deref()), Folded(options.fold.as_deref()));
            return Some(format!("keyspace {name:?} has {has}: it was opened with {asked}"));
        }
        None
    }

    /// Why the keyspace cannot be opened as one of `content`, if it cannot.
    pub(crate) fn content_mismatch(&self, content: &KeyspaceContent) -> Option<String> {
        let differs = self.content != *content;
        differs.then(|| {
            format!("keyspace {:?} holds {}: it was opened for {content}", self.name, self.content)
        })
    }
}

/// Shows a routing in an error text.
pub(super) struct Routed<'a>(pub(super) &'a Routing);

impl fmt::Display for Routed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 4;
        let bounds = match self.0 {
            Routing::Hash(1) => return f.write_str("1 hash partition"),
            Routing::Hash(n) => return write!(f, "{n} hash partitions"),
            Routing::Range(bounds) if bounds.is_empty() => return f.write_str("1 key range"),
            Routing::Range(bounds) => bounds,
        };
        write!(f, "{} key ranges cut at", bounds.len() + 1)?;
        for bound in bounds.iter().take(SHOWN) {
            write!(f, " {}", bound[..bound.len().min(32)].escape_ascii())?;
        }
        if bounds.len() > SHOWN { f.write_str(" ..") } else { Ok(()) }
    }
}

struct Folded<'a>(Option<&'a str>);

impl fmt::Display for Folded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(fold) => write!(f, "fold {fold:?}"),
            None => f.write_str("no fold"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_base::Compression;

    fn options(routing: Routing) -> KeyspaceOptions {
        KeyspaceOptions { routing, ..KeyspaceOptions::default() }
    }

    fn record(options: &KeyspaceOptions) -> KeyspaceRecord {
        KeyspaceRecord::new(KeyspaceId(1), "k", TreeId(5), KeyspaceContent::of("bytes"), options, 9)
    }

    #[test]
    fn options_come_back_from_a_record() {
        let bounds = vec![b"g".to_vec()];
        for routing in [Routing::Hash(1), Routing::Hash(256), Routing::Range(bounds)] {
            let options = options(routing);
            let record = record(&options);
            assert_eq!(record.options(), options);
            assert_eq!(record.route.seed(), 9);
            assert_eq!(record.trees[0], TreeId(5));
            assert_eq!(record.trees.len(), options.routing.partitions());
        }
    }

    #[test]
    fn what_is_fixed_at_creation_must_agree_and_both_are_named() {
        let record = record(&options(Routing::Hash(4)));
        let ranges = options(Routing::Range(vec![b"g".to_vec(), b"p".to_vec()]));
        assert_eq!(
            record.mismatch(&ranges, &KeyspaceContent::of("bytes"), None).unwrap(),
            "keyspace \"k\" has 4 hash partitions: it was opened with 3 key ranges cut at g p"
        );
        let folded = KeyspaceOptions { fold: Some("sum".into()), ..options(Routing::Hash(4)) };
        assert_eq!(
            record.mismatch(&folded, &KeyspaceContent::of("bytes"), None).unwrap(),
            "keyspace \"k\" has no fold: it was opened with fold \"sum\""
        );
        assert_eq!(
            record
                .mismatch(&options(Routing::Hash(4)), &KeyspaceContent::of("documents"), None)
                .unwrap(),
            "keyspace \"k\" holds bytes: it was opened for documents"
        );
    }

    #[test]
    fn how_tables_are_written_may_change() {
        let record = record(&options(Routing::Hash(4)));
        let changed = KeyspaceOptions {
            compression: Compression::None,
            bottom_compression: Compression::Lz4,
            block_bytes: 4096,
            filter_bits: 0,
            ..options(Routing::Hash(4))
        };
        assert_eq!(record.mismatch(&changed, &KeyspaceContent::of("bytes"), None), None);
        assert_eq!(record.with_options(&changed).options(), changed);
    }
}
