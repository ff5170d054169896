//! Can damage hurt a whole database? A small one that has every feature is damaged in every way
//! there is, opened, read and verified. The answer is right, or an error that names file and
//! offset; never a panic, never wrong data.
//!
//! The oracle is the history of what readers saw: after each commit everything is read. Damage to
//! the two ends that cannot be anchored (the last synced record of the log, the last frame of the
//! manifest) may take the database back to an earlier moment of that history, and to nothing else.

mod bytes;
mod files;
mod victim;

use crate::support::small_with;
use flagstone::internal::env::MemDisk;
use flagstone::internal::env::names::{CURRENT, FileKind, Name, parse};
use flagstone::{Database, Durability, Error, ErrorKind, Options, Result, Space};
use flagstone_testkit::World;
use std::collections::BTreeMap;
use std::ops::Range;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// What readers see of a database: each keyspace with its entries; those of a collection as text.
/// One without entries is as good as none: damage to the last frame of the manifest may take its
/// creation, and spare later commits.
type Image = BTreeMap<String, Entries>;

/// A database to be damaged.
struct Victim {
    image: MemDisk,
    /// What readers saw after each commit.
    history: Vec<Image>,
    /// Files as they were some time before.
    past: Vec<(String, Vec<u8>)>,
}

/// What could be read of a database, until the first error of each scan.
struct Reads {
    entries: BTreeMap<String, (Entries, bool)>,
    /// What was read key by key, for keys that were ever there.
    gets: Vec<(String, Vec<u8>, Option<Vec<u8>>)>,
    errors: Vec<Error>,
}

fn options() -> Options {
    small_with(Durability::Group)
}

/// The entries of one keyspace, up to the first error.
fn entries(db: &Database, name: &str, is_collection: bool) -> (Entries, Option<Error>) {
    let mut found = Entries::new();
    let mut scan = || -> Result<()> {
        if is_collection {
            for entry in db.space(name).existing().collection()?.unwrap().scan(..) {
                let (key, document) = entry?;
                found
                    .push((key.to_string().into_bytes(), document.to_json().unwrap().into_bytes()));
            }
            return Ok(());
        }
        for entry in keyspace(db, name)?.scan(..) {
            let (key, value) = entry?;
            found.push((key.to_vec(), value.to_vec()));
        }
        Ok(())
    };
    let error = scan().err();
    (found, error)
}

fn keyspace(db: &Database, name: &str) -> Result<flagstone::Keyspace> {
    let info = db.keyspaces().into_iter().find(|info| info.name == name).unwrap();
    db.space(name).options(info.options).keyspace()
}

/// Everything in a database without damage.
fn image(db: &Database) -> Image {
    let of = |info: flagstone::report::KeyspaceInfo| {
        let (entries, error) = entries(db, &info.name, info.content == "documents");
        assert!(error.is_none(), "{error:?}");
        (info.name, entries)
    };
    db.keyspaces().into_iter().map(of).filter(|(_, entries)| !entries.is_empty()).collect()
}

impl Reads {
    fn of(db: &Database, newest: &Image) -> Self {
        let (mut all, mut gets, mut errors) = (BTreeMap::new(), Vec::new(), Vec::new());
        for info in db.keyspaces() {
            let (found, error) = entries(db, &info.name, info.content == "documents");
            all.insert(info.name.clone(), (found, error.is_none()));
            errors.extend(error);
            for (key, _) in newest.get(&info.name).into_iter().flatten() {
                let got = if info.content == "documents" {
                    let key: i64 = std::str::from_utf8(key).unwrap().parse().unwrap();
                    let found =
                        db.space(&info.name).existing().collection().unwrap().unwrap().get(key);
                    found.map(|d| d.map(|d| d.to_json().unwrap().into_bytes()))
                } else {
                    let found = keyspace(db, &info.name).and_then(|kv| kv.get(key));
                    found.map(|value| value.map(|value| value.to_vec()))
                };
                match got {
                    Ok(value) => gets.push((info.name.clone(), key.clone(), value)),
                    Err(error) => errors.push(error),
                }
            }
        }
        Self { entries: all, gets, errors }
    }

    /// Whether all that was read is what `image` holds.
    fn fit(&self, image: &Image) -> bool {
        let none = Entries::new();
        let scans = image.keys().all(|name| self.entries.contains_key(name))
            && self.entries.iter().all(|(name, (found, is_whole))| {
                let expected = image.get(name).unwrap_or(&none);
                if *is_whole { found == expected } else { expected.starts_with(found) }
            });
        scans
            && self.gets.iter().all(|(name, key, value)| {
                let entries = image.get(name).unwrap_or(&none);
                let expected = entries.iter().find(|(k, _)| k == key).map(|(_, v)| v);
                expected == value.as_ref()
            })
    }
}

/// The error is of a kind for damage and names one of the files, and where in it.
fn check_error(error: &Error, damage: &str, names: &[&str]) {
    let (kind, text) = (error.kind(), error.to_string());
    assert!(matches!(kind, ErrorKind::Corruption | ErrorKind::Unsupported), "{damage}: {error:?}");
    assert!(names.iter().any(|name| text.contains(name)), "{damage}: no file in: {text}");
    let tells_where = text.contains("offset ") || text.contains("missing");
    // `CURRENT` is a line of text; a file of another format is refused as a whole.
    let is_whole = text.contains(CURRENT) || kind == ErrorKind::Unsupported;
    assert!(tells_where || is_whole, "{damage}: no offset in: {text}");
}

impl Victim {
    /// How many moments its history has.
    fn moments(&self) -> usize {
        self.history.len()
    }

    fn newest(&self) -> usize {
        self.moments() - 1
    }

    fn files(&self, kind: FileKind) -> Vec<(String, Vec<u8>)> {
        let files = World::on(self.image.clone(), 1).contents();
        let is = |name: &str| matches!(parse(name), Name::Numbered(k, _) if k as u8 == kind as u8);
        let found: Vec<_> = files.into_iter().filter(|(name, _)| is(name)).collect();
        assert!(!found.is_empty());
        found
    }

    /// The disk with some files changed; `None` is a file removed.
    fn damaged(&self, changes: &[(&str, Option<&[u8]>)]) -> World {
        let mem = self.image.kill();
        for (name, content) in changes {
            match content {
                Some(content) => mem.put_content(&World::path(name), content),
                None => flagstone::internal::env::Disk::remove(&mem, &World::path(name)).unwrap(),
            }
        }
        World::on(mem, 5)
    }

    /// Opens what was damaged for reading, reads and verifies it: an error names one of `names`, or
    /// what is there is a moment of history that is `least` at the earliest. Returns whether
    /// anything was refused.
    fn judge(&self, world: &World, damage: &str, names: &[&str], least: usize) -> bool {
        let session = match world.open_read_only(&options()) {
            Ok(session) => session,
            Err(error) => {
                check_error(&error, damage, names);
                return true;
            }
        };
        let reads = Reads::of(&session.db, &self.history[self.newest()]);
        reads.errors.iter().for_each(|error| check_error(error, damage, names));
        let moment = (least..self.moments()).rev().find(|at| reads.fit(&self.history[*at]));
        if moment.is_none() {
            let earlier = (0..least).rev().find(|at| reads.fit(&self.history[*at]));
            panic!(
                "{damage}: what is read is moment {earlier:?} of history, expected {least} to {}",
                self.newest()
            );
        }
        match session.db.verify() {
            Err(error) => check_error(&error, damage, names),
            Ok(_) => assert!(reads.errors.is_empty(), "{damage}: verify found nothing"),
        }
        !reads.errors.is_empty()
    }

    /// As [`Victim::judge`], and then the database is opened for writing, twice: a refusal writes
    /// nothing, and what was found once stays.
    fn judge_and_write(&self, world: &World, damage: &str, names: &[&str], least: usize) {
        self.judge(world, damage, names, least);
        let files = || {
            let mut files = world.contents();
            files.retain(|(name, _)| name != "LOCK");
            files
        };
        let before = files();
        let session = match world.open(&options()) {
            Ok(session) => session,
            Err(error) => {
                check_error(&error, damage, names);
                assert!(files() == before, "{damage}: a refusal wrote something");
                return;
            }
        };
        let reads = Reads::of(&session.db, &self.history[self.newest()]);
        if !reads.errors.is_empty() {
            return;
        }
        let found = image(&session.db);
        session.db.flush().unwrap();
        drop(session);
        let again = World::on(world.mem.kill(), 7);
        assert!(image(&again.open(&options()).unwrap().db) == found, "{damage}: it changed");
    }
}

/// Returns the ranges of the records at the end of the log, and whether each is a batch.
fn records(victim: &Victim, segment: &str) -> Vec<(Range<usize>, bool)> {
    use flagstone_wal::inspect::{Finding, Inspector};
    let found = Inspector::open(&victim.image, &World::path(segment)).unwrap();
    let record = |finding| match finding {
        Ok(Finding::Record(at, header)) => {
            let range = at as usize..(at + header.framed_len()) as usize;
            Some((range, header.kind == flagstone_wal::RecordKind(1)))
        }
        _ => None,
    };
    found.filter_map(record).collect()
}

/// Where the frames of a manifest begin.
fn frames(victim: &Victim, manifest: &str) -> Vec<usize> {
    let mut text = String::new();
    flagstone::internal::inspect::file_on(&victim.image, &World::path(manifest), &mut text)
        .unwrap();
    let offset = |line: &str| line.strip_prefix("offset ")?.split(':').next()?.parse().ok();
    let frames: Vec<usize> = text.lines().filter_map(offset).collect();
    assert!(frames.len() > 1, "{text}");
    frames
}

/// The newest segment that holds records.
fn newest_segment(victim: &Victim) -> (String, Vec<u8>) {
    let mut segments = victim.files(FileKind::Wal);
    segments.retain(|(name, _)| !records(victim, name).is_empty());
    segments.pop().unwrap()
}
