//! What a user chose, to a record and back; and whether a later choice agrees with the first.
//!
//! Routing, content and fold are fixed at creation. The options of tables say how tables are written
//! from now on: an edit may change them.

use super::record::{KeyspaceContent, KeyspaceRecord};
use crate::options::{KeyspaceOptions, Routing};
use crate::partition::{Route, hash_start};
use flagstone_base::{KeyspaceId, TreeId};
use flagstone_sst::TableOptions;
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
        let route = match options.routing_of_new() {
            Routing::Hash(partitions) => {
                let n = usize::from(partitions);
                Route::Hash { starts: (0..n).map(|i| hash_start(i, n)).collect(), seed }
            }
            Routing::Range(bounds) => Route::Range { bounds, seed },
        };
        let trees = (tree_first.0..).take(route.partitions()).map(TreeId).collect();
        Self {
            id,
            name: name.to_owned(),
            trees,
            route,
            content,
            fold: options.fold.clone(),
            tables: options.over(TableOptions::default()),
        }
    }

    /// How its keys are spread.
    pub(crate) fn routing(&self) -> Routing {
        match &self.route {
            Route::Hash { starts, .. } => {
                Routing::Hash(u16::try_from(starts.len()).unwrap_or(u16::MAX))
            }
            Route::Range { bounds, .. } => Routing::Range(bounds.clone()),
        }
    }

    /// The options that make such a keyspace. All are set, the fold only if there is one.
    pub(crate) fn options(&self) -> KeyspaceOptions {
        let fixed = KeyspaceOptions {
            routing: Some(self.routing()),
            fold: self.fold.clone(),
            ..KeyspaceOptions::new()
        };
        fixed.tables(self.tables)
    }

    /// Why the keyspace cannot be opened as one of `content` with what `options` set, if it cannot: the text names what
    /// the keyspace has and what was asked for.
    pub(crate) fn mismatch(
        &self,
        options: &KeyspaceOptions,
        content: &KeyspaceContent,
    ) -> Option<String> {
        self.content_mismatch(content).or_else(|| {
            let (has, asked) = self.difference(options)?;
            Some(format!("keyspace {:?} has {has}: it was opened with {asked}", self.name))
        })
    }

    /// The first option that `asked` sets to another value: the keyspace's value and that of `asked`, each with the name
    /// of the option.
    fn difference(&self, asked: &KeyspaceOptions) -> Option<(String, String)> {
        let has = self.options();
        differing(&has.routing, &asked.routing, |routing| Routed(routing).to_string())
            .or_else(|| {
                let has = (Some(has.fold.as_deref()), asked.fold.as_deref().map(Some));
                differing(&has.0, &has.1, |fold| Folded(*fold).to_string())
            })
            .or_else(|| asked.difference(&self.tables))
    }

    /// Why the keyspace cannot be opened as one of `content`, if it cannot.
    pub(crate) fn content_mismatch(&self, content: &KeyspaceContent) -> Option<String> {
        let differs = self.content != *content;
        differs.then(|| {
            format!("keyspace {:?} holds {}: it was opened for {content}", self.name, self.content)
        })
    }
}

/// Both values of an option, shown, if `asked` sets it and it differs.
fn differing<T: PartialEq>(
    has: &Option<T>,
    asked: &Option<T>,
    show: impl Fn(&T) -> String,
) -> Option<(String, String)> {
    let (has, asked) = (has.as_ref()?, asked.as_ref()?);
    (has != asked).then(|| (show(has), show(asked)))
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
        KeyspaceOptions::new().routing(routing)
    }

    fn record(options: &KeyspaceOptions) -> KeyspaceRecord {
        KeyspaceRecord::new(KeyspaceId(1), "k", TreeId(5), KeyspaceContent::of("bytes"), options, 9)
    }

    #[test]
    fn options_come_back_from_a_record() {
        let bounds = vec![b"g".to_vec()];
        for routing in [Routing::Hash(1), Routing::Hash(256), Routing::Range(bounds)] {
            let record = record(&options(routing.clone()).block_bytes(4096));
            let all = record.options();
            assert_eq!((all.routing, all.block_bytes), (Some(routing.clone()), Some(4096)));
            assert_eq!(all.compression, Some(Compression::Lz4));
            assert_eq!(record.route.seed(), 9);
            assert_eq!(record.trees[0], TreeId(5));
            assert_eq!(record.trees.len(), routing.partitions());
        }
    }

    #[test]
    fn every_option_that_is_set_must_agree_and_both_values_are_named() {
        let record = record(&options(Routing::Hash(4)));
        let bytes = KeyspaceContent::of("bytes");
        let refused = |options: KeyspaceOptions, text: &str| {
            assert_eq!(
                record.mismatch(&options, &bytes).unwrap(),
                format!("keyspace \"k\" {text}")
            );
        };
        refused(
            options(Routing::Range(vec![b"g".to_vec(), b"p".to_vec()])),
            "has 4 hash partitions: it was opened with 3 key ranges cut at g p",
        );
        let new = KeyspaceOptions::new;
        refused(new().fold("sum"), "has no fold: it was opened with fold \"sum\"");
        refused(
            new().compression(Compression::None),
            "has compression lz4: it was opened with compression none",
        );
        refused(
            new().bottom_compression(Compression::Zstd(7)),
            "has bottom_compression zstd 1: it was opened with bottom_compression zstd 7",
        );
        refused(
            new().block_bytes(4096),
            "has block_bytes 16384: it was opened with block_bytes 4096",
        );
        refused(new().filter_bits(0), "has filter_bits 10: it was opened with filter_bits 0");
        assert_eq!(
            record.mismatch(&new(), &KeyspaceContent::of("documents")).unwrap(),
            "keyspace \"k\" holds bytes: it was opened for documents"
        );
    }

    #[test]
    fn what_is_not_set_is_not_compared() {
        let created = options(Routing::Hash(4)).block_bytes(4096).fold("sum");
        let record = record(&created);
        let bytes = KeyspaceContent::of("bytes");
        for asked in [KeyspaceOptions::new(), created, KeyspaceOptions::new().block_bytes(4096)] {
            assert_eq!(record.mismatch(&asked, &bytes), None, "{asked:?}");
        }
    }
}
