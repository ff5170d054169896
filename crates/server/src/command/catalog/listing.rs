//! What commands about databases and collections share: lists, sizes.

use crate::bson::BsonWriter;
use crate::command::args::Args;
use crate::command::id::Incoming;
use crate::command::name::Namespace;
use crate::command::read::put_count;
use crate::command::service::{Service, now_millis};
use crate::failure::{Code, Failure, Outcome};
use flagstone::Document;
use flagstone::doc::DateTime;
use flagstone::query::Matcher;
use flagstone_pipeline::Condition;
use std::collections::BTreeMap;

/// Returns the collections that drivers may see, with the names of their keyspaces.
pub(in crate::command) fn collections(service: &Service) -> Outcome<Vec<(Namespace, String)>> {
    let names = service.home.names()?.into_iter();
    Ok(names.filter_map(|name| Some((Namespace::of_keyspace(&name)?, name))).collect())
}

/// Returns the bytes of each collection of a database. Those of a cluster are not known.
pub(super) fn sizes(service: &Service) -> BTreeMap<String, Sizes> {
    let mut sizes: BTreeMap<String, Sizes> = BTreeMap::new();
    for stats in service.db.stats().keyspaces {
        let tables: u64 = stats.levels.iter().map(|level| level.bytes).sum();
        let bytes = tables + stats.memtable_bytes;
        match stats.info.owner {
            Some(owner) => sizes.entry(owner).or_default().indexes += bytes,
            None => {
                let raw = stats.levels.iter().map(|level| level.raw_bytes);
                let of = sizes.entry(stats.info.name).or_default();
                of.documents += bytes;
                of.raw = raw.fold(stats.memtable_bytes, u64::saturating_add);
            }
        }
    }
    sizes
}

/// Bytes on disk and in memory.
#[derive(Clone, Copy, Default)]
pub(super) struct Sizes {
    pub(super) documents: u64,
    /// Of documents, before compression.
    pub(super) raw: u64,
    pub(super) indexes: u64,
}

/// What tests the documents of lists, such as names of databases: the filter of a command.
pub(super) struct Matching {
    matcher: Matcher,
    condition: Option<Condition>,
}

impl Matching {
    /// Parses the filter of a command; `None` without one.
    pub(super) fn parse(args: &Args<'_>) -> Outcome<Option<Self>> {
        let Some(filter) = args.filled_map("filter")? else { return Ok(None) };
        let (plain, condition) = Condition::split(&filter.to_value()?)?;
        Ok(Some(Self {
            matcher: flagstone::Filter::of_driver(&plain, None)?.compile()?,
            condition,
        }))
    }

    fn holds(&self, document: &Document) -> Outcome<bool> {
        let root = document.root();
        let holds = match &self.condition {
            Some(condition) => {
                let now = DateTime::from_micros(now_millis().saturating_mul(1000));
                condition.holds(&root.to_value()?, now)?
            }
            None => true,
        };
        Ok(holds && self.matcher.matches(&root)?)
    }
}

/// A list of documents, of those that a filter matches.
pub(super) struct Listing<'m> {
    pub(super) matching: Option<&'m Matching>,
    pub(super) documents: Vec<Vec<u8>>,
}

impl Listing<'_> {
    /// Adds the document that `put` writes, if it matches.
    pub(super) fn add(
        &mut self,
        run_incoming: &mut Incoming,
        put: impl FnOnce(&mut BsonWriter<'_>) -> Outcome,
    ) -> Outcome {
        let mut bson = Vec::new();
        let mut out = BsonWriter::new(&mut bson);
        out.begin();
        put(&mut out)?;
        out.end()?;
        let is_in = match self.matching {
            Some(matching) => matching.holds(&run_incoming.any(&bson)?)?,
            None => true,
        };
        if is_in {
            self.documents.push(bson);
        }
        Ok(())
    }
}

/// Returns what sizes are divided by.
pub(super) fn scale(args: &Args<'_>) -> Outcome<u64> {
    match args.count("scale")? {
        Some(0) => Err(Failure::new(Code::BadValue, "scale: expected 1 or more")),
        scale => Ok(scale.unwrap_or(1)),
    }
}

/// Appends a size.
pub(super) fn put_size(reply: &mut BsonWriter<'_>, name: &str, bytes: u64, scale: u64) -> Outcome {
    put_count(reply, name, bytes / scale)
}
