//! `verify --against`, and what `copy --verify` does in the end: compares collections.

use super::copy::definition;
use super::end::{self, End};
use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::units::{counted, grouped};
use flagstone::internal::env::{Clock, SystemClock};
use flagstone::report::IndexInfo;
use flagstone::{Collection, Moment};
use flagstone_load::{Comparison, Count, Watcher, What, compare};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

/// `verify DB --against OTHER`.
pub(super) fn run(args: &VerifyArgs, other: &Path) -> Result<(), Failure> {
    end::check("verify --against", &args.database, other)?;
    let first = End::to_read(&args.database, args.memory)?;
    let second = End::to_read(other, args.memory)?;
    let compared = (|| {
        let names = match &args.collections[..] {
            [] => first.names()?,
            named => named.to_vec(),
        };
        let mut names = names;
        if args.collections.is_empty() {
            names.extend(second.names()?);
            names.sort_unstable();
            names.dedup();
        }
        let mut found = Vec::new();
        for name in names {
            let pair = (first.existing(&name)?, second.existing(&name)?);
            if let (None, None) = &pair {
                let text = format!("neither {} nor {} has", first.shown, second.shown);
                return Err(Failure::NotFound(format!("{text} a collection {name:?}")));
            }
            found.push((name, pair));
        }
        let progress = &mut Progress::on_terminal();
        Pair { first: &first, second: &second }.compare(&found, progress)
    })();
    let closed = first.close().and(second.close());
    compared.and(closed)
}

/// The two places.
#[derive(Clone, Copy)]
pub(super) struct Pair<'e> {
    pub(super) first: &'e End,
    pub(super) second: &'e End,
}

/// A collection of both places, by its name. Either may have none.
pub(super) type Named = (String, (Option<Collection>, Option<Collection>));

impl Pair<'_> {
    /// Compares collections, and prints what differs.
    pub(super) fn compare(self, all: &[Named], progress: &mut Progress) -> Result<(), Failure> {
        let (mut output, mut differing) = (Output::new(), Vec::new());
        for (name, (one, other)) in all {
            let found = self.compare_one(one.as_ref(), other.as_ref(), progress)?;
            if found.differing == 0 {
                // What expires while both are read may be in one count alone.
                let documents = counted(found.documents.0, "document");
                output.line(&format!("{name}: {documents}, checksum {:016x}", found.sum))?;
            } else {
                self.draw(name, &found, &mut output)?;
            }
            let indexes = self.indexes(one.as_ref(), other.as_ref());
            for index in &indexes {
                output.line(&format!("{name}: index {index}"))?;
            }
            if found.differing > 0 || !indexes.is_empty() {
                differing.push(name.as_str());
            }
        }
        output.flush()?;
        if differing.is_empty() {
            return Ok(());
        }
        let names = differing.join(", ");
        let (first, second) = (&self.first.shown, &self.second.shown);
        Err(Failure::Check(format!("{first} and {second} differ: {names}")))
    }

    /// Says which indexes differ. A cluster has plain ones in the place of those by which documents
    /// expire. One that is not ready is as good as none.
    fn indexes(self, one: Option<&Collection>, other: Option<&Collection>) -> Vec<String> {
        let has_plain = self.first.is_cluster() || self.second.is_cluster();
        let of = |side: Option<&Collection>| -> BTreeMap<String, IndexInfo> {
            let all = side.map_or_else(Vec::new, Collection::indexes).into_iter();
            let defined = all.filter(|info| info.is_ready).map(|info| {
                let mut defined = definition(&info);
                defined.expires_after = defined.expires_after.filter(|_| !has_plain);
                (info.name, defined)
            });
            defined.collect()
        };
        let (ours, theirs) = (of(one), of(other));
        let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        let differing = names.into_iter().filter_map(|name| {
            Some(match (ours.get(name), theirs.get(name)) {
                (Some(mine), Some(other)) if mine == other => return None,
                (Some(_), None) => format!("{name} is only in {}", self.first.shown),
                (None, _) => format!("{name} is only in {}", self.second.shown),
                (Some(_), Some(_)) => {
                    format!("{name} has another definition in {}", self.second.shown)
                }
            })
        });
        differing.collect()
    }

    fn compare_one(
        self,
        one: Option<&Collection>,
        other: Option<&Collection>,
        progress: &mut Progress,
    ) -> Result<Comparison, Failure> {
        let started = Instant::now();
        let mut read = Count::default();
        progress.start(None);
        let now = || Moment::since_1970(SystemClock::default().wall());
        let mut watch = |documents| {
            read.documents = documents;
            progress.tick(started.elapsed(), read);
            interrupt::check()
        };
        let found = compare(self.first.side(one), self.second.side(other), &now, &mut watch);
        progress.end(started.elapsed(), read);
        found
    }

    fn draw(self, name: &str, found: &Comparison, output: &mut Output) -> Result<(), Failure> {
        let (first, second) = (&self.first.shown, &self.second.shown);
        output.line(&format!(
            "{name}: {} in {first}, {} in {second}; {} in {} of 4,096 ranges of keys",
            counted(found.documents.0, "document"),
            grouped(found.documents.1),
            if found.differing == 1 {
                "1 differs".to_owned()
            } else {
                format!("{} differ", grouped(found.differing))
            },
            grouped(found.ranges)
        ))?;
        for difference in &found.first {
            let what = match difference.what {
                What::OnlyFirst => format!("is only in {first}"),
                What::OnlySecond => format!("is only in {second}"),
                What::Document => "differs".to_owned(),
                What::Expiry => "expires at another moment".to_owned(),
            };
            output.line(&format!("  {} {what}", difference.key))?;
        }
        Ok(())
    }
}
