//! `copy`: collections from a directory or a cluster into another one.

use super::compare::{Named, Pair};
use super::end::{self, End};
use super::load::progress_of;
use crate::args::CopyArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::note;
use crate::units::{counted, grouped, show_bytes};
use flagstone::Collection;
use flagstone::internal::index_of;
use flagstone::report::IndexInfo;
use flagstone_load::{Copied, Copy, LoadError, bytes_about};
use std::ops::ControlFlow;
use std::time::Instant;

pub(super) fn run(args: &CopyArgs) -> Result<(), Failure> {
    end::check("copy", &args.from, &args.to)?;
    let from = End::to_read(&args.from, args.memory)?;
    let started = Instant::now();
    let copied = found(args, &from).and_then(|all| {
        interrupt::listen()?;
        let to = End::to_write(&args.to, args.memory)?;
        let copied = Copying { args, from: &from, to: &to }.run(all, started);
        // It is closed in any case, so that the next command has nothing to replay.
        let closed = to.close();
        copied.and(closed)
    });
    let closed = from.close();
    copied.and(closed)
}

/// Finds the collections, and says what is left out.
fn found(args: &CopyArgs, from: &End) -> Result<Vec<(String, Collection)>, Failure> {
    let names = match &args.collections[..] {
        [] => {
            let others = from.keyspaces();
            if !others.is_empty() {
                note(&format!("keyspaces of a program are not copied: {}", others.join(", ")));
            }
            from.names()?
        }
        named => {
            let mut names = named.to_vec();
            names.sort_unstable();
            names.dedup();
            names
        }
    };
    let found = names.into_iter().map(|name| match from.existing(&name)? {
        Some(collection) => Ok((name, collection)),
        None => {
            let text = format!("there is no collection {name:?} in {}", from.shown);
            Err(Failure::NotFound(text))
        }
    });
    found.collect()
}

/// A copy, and what it needs.
struct Copying<'a> {
    args: &'a CopyArgs,
    from: &'a End,
    to: &'a End,
}

/// A collection that is copied.
struct One {
    name: String,
    from: Collection,
    to: Collection,
    /// The indexes that the target gets.
    indexes: Vec<IndexInfo>,
    bytes: u64,
}

impl Copying<'_> {
    fn run(&self, all: Vec<(String, Collection)>, started: Instant) -> Result<(), Failure> {
        let Self { args, from, to } = *self;
        let mut plain = Vec::new();
        let mut planned = Vec::new();
        for (name, collection) in all {
            if let Some(target) = to.existing(&name)? {
                let copy = self.of(&collection, &target, 0);
                copy.check().map_err(|error| self.refused(error))?;
            }
            let indexes = self.indexes(&name, &collection, &mut plain)?;
            planned.push((name, collection, indexes));
        }
        self.check_plain(&plain)?;
        to.warn()?;
        let mut all = Vec::new();
        for (name, collection, indexes) in planned {
            let bytes = bytes_about(&collection, from.at.as_ref())?;
            let target = to.created(&name, bytes, from.options(&name))?;
            all.push(One { name, from: collection, to: target, indexes, bytes });
        }
        let (mut documents, mut bytes) = (0, 0);
        for one in &all {
            let copied = self.copy(one)?;
            (documents, bytes) = (documents + copied.documents, bytes + copied.bytes);
            // Also what was dropped since.
            self.create_indexes(one)?;
            if !copied.was_complete {
                self.of(&one.from, &one.to, one.bytes).finish()?;
            }
        }
        note(&format!(
            "{} copied from {} to {}: {}, {} in {:.1} s",
            counted(all.len() as u64, "collection"),
            from.shown,
            to.shown,
            counted(documents, "document"),
            show_bytes(bytes),
            started.elapsed().as_secs_f64()
        ));
        if !args.verify {
            return Ok(());
        }
        let named = |one: One| -> Named { (one.name, (Some(one.from), Some(one.to))) };
        let named: Vec<Named> = all.into_iter().map(named).collect();
        Pair { first: from, second: to }.compare(&named, &mut progress_of(args.progress))
    }

    /// Returns the indexes that the target gets. Those that it cannot have as they are come to
    /// `plain`.
    fn indexes(
        &self,
        name: &str,
        collection: &Collection,
        plain: &mut Vec<String>,
    ) -> Result<Vec<IndexInfo>, Failure> {
        let existing = match self.to.existing(name)? {
            Some(target) => target.indexes(),
            None => Vec::new(),
        };
        let mut indexes = collection.indexes();
        for index in &mut indexes {
            if self.to.is_cluster() && index.expires_after.is_some() {
                plain.push(format!("{name}.{} (documents expire by it)", index.name));
                index.expires_after = None;
            }
            let known = existing.iter().find(|known| known.name == index.name);
            if let Some(known) = known.filter(|known| definition(known) != definition(index)) {
                return Err(Failure::Usage(format!(
                    "{} has an index {name}.{} with another definition: {known}",
                    self.to.shown, index.name
                )));
            }
        }
        Ok(indexes)
    }

    /// Refuses indexes that the target cannot have, or says what it gets instead.
    fn check_plain(&self, plain: &[String]) -> Result<(), Failure> {
        if plain.is_empty() {
            return Ok(());
        }
        let (indexes, to) = (plain.join(", "), &self.to.shown);
        if self.args.collections.is_empty() {
            return Err(Failure::Usage(format!(
                "a cluster cannot keep {indexes}: name the collections to copy them with plain \
                 indexes in their place"
            )));
        }
        note(&format!("{to} gets plain indexes in the place of {indexes}: their documents last"));
        Ok(())
    }

    fn of<'o>(&'o self, from: &'o Collection, to: &'o Collection, bytes: u64) -> Copy<'o> {
        Copy {
            from,
            at: self.from.at.as_ref(),
            source: self.from.identity(from),
            to,
            database: &self.to.database,
            bytes: Some(bytes),
        }
    }

    /// Says where what a copy refuses is.
    fn refused(&self, error: LoadError) -> Failure {
        match error {
            LoadError::Usage(text) => Failure::Usage(format!("{}: {text}", self.to.shown)),
            error => error.into(),
        }
    }

    fn copy(&self, one: &One) -> Result<Copied, Failure> {
        let copy = self.of(&one.from, &one.to, one.bytes);
        let copied = copy.run(&mut progress_of(self.args.progress));
        let copied = copied.map_err(|error| self.refused(error))?;
        if copied.was_complete {
            self.note_known(&one.name, "copied before, to its end");
            return Ok(copied);
        }
        if let Some(key) = &copied.resumed_behind {
            self.note_known(&one.name, &format!("continued behind key {key}"));
        }
        let (documents, bytes) = (counted(copied.documents, "document"), show_bytes(copied.bytes));
        let seconds = copied.took.as_secs_f64();
        note(&format!("{}: {documents}, {bytes} in {seconds:.1} s", one.name));
        if copied.is_interrupted {
            return Err(stopped());
        }
        Ok(copied)
    }

    /// Says what an earlier copy has done. Nothing tells whether a cluster has changed since.
    fn note_known(&self, name: &str, done: &str) {
        note(&format!("{name}: {done}{}", unseen(self.from.is_cluster())));
    }

    fn create_indexes(&self, one: &One) -> Result<(), Failure> {
        let known = one.to.indexes();
        for info in &one.indexes {
            if known.iter().any(|known| known.name == info.name && known.is_ready) {
                continue;
            }
            let (started, mut entries) = (Instant::now(), 0);
            let watch = |progress: flagstone::report::BuildProgress| {
                entries = progress.entries;
                if interrupt::is_asked() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            if one.to.create_index_with(&info.name, index_of(info)?, watch)?.is_break() {
                return Err(stopped());
            }
            let (name, entries) = (&one.name, grouped(entries));
            let seconds = started.elapsed().as_secs_f64();
            note(&format!("{name}: index {} of {entries} entries in {seconds:.1} s", info.name));
        }
        Ok(())
    }
}

/// What is said of the documents that an earlier copy has read.
const fn unseen(is_cluster: bool) -> &'static str {
    if is_cluster {
        "; a cluster has no version, so what changed there since is not copied: --verify finds it, \
         and a copy into a new target has it"
    } else {
        ""
    }
}

/// What an index is, without what it has.
pub(super) fn definition(info: &IndexInfo) -> IndexInfo {
    let mut info = info.clone();
    (info.is_ready, info.entries, info.documents_done, info.uses) = (false, 0, 0, 0);
    info
}

fn stopped() -> Failure {
    let text = "stopped before the end; run it again to go on";
    Failure::Interrupted(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::unseen;

    #[test]
    fn a_copy_of_a_cluster_that_goes_on_says_what_it_has_not_read() {
        assert!(unseen(true).contains("what changed there since is not copied: --verify finds it"));
        assert_eq!(unseen(false), "");
    }
}
