//! Compares the options a caller asks for with those a keyspace was created with.
//!
//! Routing and content are fixed at creation, and so is the fold but for its version. Table options
//! say how new tables are written: an edit may change them.

use super::record::{KeyspaceContent, KeyspaceRecord};
use super::routing_text::RoutingText;
use crate::options::{KeyspaceOptions, Routing};
use flagstone_base::{Error, Result};
use std::fmt;

/// Returns why the keyspace of `record` cannot be opened as one of `content` with `options`, or
/// `None` if it can. The text names the keyspace's value and the one asked for.
pub(crate) fn mismatch(
    record: &KeyspaceRecord,
    options: &KeyspaceOptions,
    content: &KeyspaceContent,
) -> Option<String> {
    content_mismatch(record, content).or_else(|| {
        let (has, asked) = difference(record, options)?;
        Some(format!("keyspace {:?} has {has}: it was opened with {asked}", record.name))
    })
}

/// Finds the first option that `asked` sets to another value. Returns the keyspace's value and that
/// of `asked`, each with the name of the option.
fn difference(record: &KeyspaceRecord, asked: &KeyspaceOptions) -> Option<(String, String)> {
    let has = record.options();
    let routing = asked.routing.clone().map(Routing::stored);
    differing(&has.routing, &routing, |routing| RoutingText(routing).to_string())
        .or_else(|| {
            let has = (Some(has.fold.as_deref()), asked.fold.as_deref().map(Some));
            differing(&has.0, &has.1, |fold| FoldText(*fold).to_string())
        })
        .or_else(|| asked.difference(&record.tables))
}

/// Returns `record` with the table options that `options` sets.
///
/// # Errors
/// InvalidInput, which names both values, if `options` sets routing or fold to another value.
pub(crate) fn altered(
    record: &KeyspaceRecord,
    options: &KeyspaceOptions,
) -> Result<KeyspaceRecord> {
    let altered = KeyspaceRecord { tables: options.over(record.tables), ..record.clone() };
    match difference(&altered, options) {
        None => Ok(altered),
        Some((has, asked)) => Err(Error::invalid(format!(
            "keyspace {:?} has {has}, which is fixed at creation: it cannot get {asked}",
            record.name
        ))),
    }
}

/// Returns why the keyspace of `record` cannot be opened as one of `content`, or `None` if it can.
pub(crate) fn content_mismatch(
    record: &KeyspaceRecord,
    content: &KeyspaceContent,
) -> Option<String> {
    let differs = record.content != *content;
    differs.then(|| {
        let KeyspaceRecord { name, content: has, .. } = record;
        format!("keyspace {name:?} holds {has}: it was opened for {content}")
    })
}

/// Returns both values of an option as text, if `asked` sets it to another value.
fn differing<T: PartialEq>(
    has: &Option<T>,
    asked: &Option<T>,
    show: impl Fn(&T) -> String,
) -> Option<(String, String)> {
    let (has, asked) = (has.as_ref()?, asked.as_ref()?);
    (has != asked).then(|| (show(has), show(asked)))
}

struct FoldText<'a>(Option<&'a str>);

impl fmt::Display for FoldText<'_> {
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
    use flagstone_base::{Compression, KeyspaceId, TreeId};

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
                mismatch(&record, &options, &bytes).unwrap(),
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
            mismatch(&record, &new(), &KeyspaceContent::of("documents")).unwrap(),
            "keyspace \"k\" holds bytes: it was opened for documents"
        );
    }

    #[test]
    fn what_is_not_set_is_not_compared() {
        let created = options(Routing::Hash(4)).block_bytes(4096).fold("sum");
        let record = record(&created);
        let bytes = KeyspaceContent::of("bytes");
        for asked in [KeyspaceOptions::new(), created, KeyspaceOptions::new().block_bytes(4096)] {
            assert_eq!(mismatch(&record, &asked, &bytes), None, "{asked:?}");
        }
    }
}
