//! A copy of a database that is kept by the recipe of the guide to changes, keyed by the names of
//! keyspaces and collections.
//!
//! ```text
//! take the position --> scan --> sync --> apply what is delivered --> equal to the database
//! a gap, an ingest, an operand: the same again
//! ```
//! What is read from the database may be something that a crash takes back, until a sync that comes
//! after it. So the copy takes a position over only after that sync.

use flagstone::changes::{Change, ChangeKind, ChangeToken, Changes, ChangesFrom, Happened};
use flagstone::report::KeyspaceInfo;
use flagstone::{Database, ErrorKind, Moment, Result, Space, Value};
use flagstone_doc::sort_key::{self, Direction};
use std::collections::BTreeMap;

/// The entries of one keyspace by their stored keys. A document is its JSON.
type EntryMap = BTreeMap<Vec<u8>, (Vec<u8>, Option<Moment>)>;

/// A copy of a database, and the position up to which it is one.
#[derive(Clone, Debug, Default)]
pub struct Copy {
    token: Option<ChangeToken>,
    /// The moment by which the last scan judged expiries, or a little later. What had expired by
    /// then is not in the copy, though a later open may find it alive: its clock may have been set
    /// back.
    judged: Moment,
    entries: BTreeMap<String, EntryMap>,
    /// The gaps that were delivered.
    pub gaps: u64,
    /// How often the copy was begun from the start.
    pub scans: u64,
}

/// What a delivery says of the entries that it changes.
#[derive(PartialEq, Eq)]
enum Known {
    All,
    /// The database must be read.
    Nothing,
}

impl Copy {
    /// Continues the copy with everything that is known to be durable, and begins it where there is
    /// none. If its position is too old, or what comes after it cannot be read, it begins again,
    /// and the error is returned with it.
    ///
    /// # Errors
    /// Errors of the database other than these.
    pub fn follow(&mut self, db: &Database) -> Result<Option<flagstone::Error>> {
        match self.try_follow(db) {
            Err(error) if matches!(error.kind(), ErrorKind::TooOld | ErrorKind::Corruption) => {
                *self = Self { gaps: self.gaps, scans: self.scans, ..Self::default() };
                self.try_follow(db)?;
                Ok(Some(error))
            }
            done => done.map(|()| None),
        }
    }

    fn try_follow(&mut self, db: &Database) -> Result<()> {
        // A copy that was read in part is not one: only a whole step is taken over.
        let mut next = self.clone();
        let mut changes = match self.token {
            Some(token) => db.changes(ChangesFrom::After(token))?,
            None => {
                next.scans += 1;
                next.begin(db)?
            }
        };
        while let Some(delivery) = changes.poll()? {
            if next.apply(&delivery.happened)? == Known::Nothing {
                changes = next.begin(db)?;
            }
        }
        next.token = Some(changes.token());
        *self = next;
        Ok(())
    }

    /// Reads everything, and returns the reader of what comes after the position before that.
    fn begin(&mut self, db: &Database) -> Result<Changes> {
        let changes = db.changes(ChangesFrom::Now)?;
        self.entries = contents(db)?;
        self.judged = self.judged.max(db.now());
        db.sync()?;
        Ok(changes)
    }

    /// Applies what happened, if that is known.
    fn apply(&mut self, happened: &Happened) -> Result<Known> {
        match happened {
            Happened::Commit(batch) => {
                for change in batch.changes() {
                    if self.change(&change)? == Known::Nothing {
                        return Ok(Known::Nothing);
                    }
                }
            }
            Happened::Gap => {
                self.gaps += 1;
                return Ok(Known::Nothing);
            }
            Happened::Ingested { .. } => return Ok(Known::Nothing),
            Happened::Dropped { keyspace } => {
                self.entries.remove(keyspace);
            }
            Happened::Renamed { from, to } => {
                if let Some(entries) = self.entries.remove(from) {
                    self.entries.insert(to.clone(), entries);
                }
            }
            other => panic!("{other:?}"),
        }
        Ok(Known::All)
    }

    fn change(&mut self, change: &Change<'_>) -> Result<Known> {
        let entries = self.entries.entry(change.keyspace()).or_default();
        let key = change.key_bytes().to_vec();
        match change.kind() {
            ChangeKind::Put => {
                let value = match change.document()? {
                    Some(document) => json_of(&document.to_value()),
                    None => change.value_bytes().to_vec(),
                };
                entries.insert(key, (value, change.expiry()));
            }
            ChangeKind::Delete => {
                entries.remove(&key);
            }
            ChangeKind::DeleteRange => {
                let end = change.end_bytes().unwrap_or_default();
                entries.retain(|found, _| !(key.as_slice()..end).contains(&found.as_slice()));
            }
            // An operand that is applied twice would count twice: the result is read.
            _ => return Ok(Known::Nothing),
        }
        Ok(Known::All)
    }

    /// Compares the copy with the database, whose entries are judged by its clock. Keyspaces
    /// without entries count as none.
    ///
    /// # Errors
    /// What is different; or an error of the database.
    pub fn check(&self, db: &Database) -> std::result::Result<(), String> {
        let found = contents(db).map_err(|error| error.to_string())?;
        let now = db.now().max(self.judged);
        let left = |all: &BTreeMap<String, EntryMap>| -> BTreeMap<String, EntryMap> {
            let is_there = |expiry: &Option<Moment>| expiry.is_none_or(|moment| moment > now);
            let mut all = all.clone();
            all.values_mut().for_each(|entries| entries.retain(|_, (_, e)| is_there(e)));
            all.retain(|_, entries| !entries.is_empty());
            all
        };
        let (copy, found) = (left(&self.entries), left(&found));
        if copy == found {
            return Ok(());
        }
        let names: std::collections::BTreeSet<_> = copy.keys().chain(found.keys()).collect();
        let name = names.into_iter().find(|name| copy.get(*name) != found.get(*name)).unwrap();
        let (of_copy, of_db) = (copy.get(name), found.get(name));
        let empty = EntryMap::new();
        let (a, b) = (of_copy.unwrap_or(&empty), of_db.unwrap_or(&empty));
        let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
        let key = keys.into_iter().find(|key| a.get(*key) != b.get(*key)).unwrap();
        let show = |entry: Option<&(Vec<u8>, Option<Moment>)>| match entry {
            None => "absent".to_owned(),
            Some((value, expiry)) => {
                let shown = value[..value.len().min(40)].escape_ascii();
                format!("{shown} ({} bytes, {expiry:?})", value.len())
            }
        };
        Err(format!(
            "the copy of {name:?} ({} entries, {} in the database) has {} at key {}, the database \
             has {}",
            a.len(),
            b.len(),
            show(a.get(key)),
            key.escape_ascii(),
            show(b.get(key))
        ))
    }
}

/// Returns everything in a database.
fn contents(db: &Database) -> Result<BTreeMap<String, EntryMap>> {
    let mut all = BTreeMap::new();
    for info in db.keyspaces().iter().filter(|info| info.owner.is_none()) {
        all.insert(info.name.clone(), read_keyspace(db, info)?);
    }
    Ok(all)
}

fn read_keyspace(db: &Database, info: &KeyspaceInfo) -> Result<EntryMap> {
    if info.content != "documents" {
        let keyspace = db.keyspace(&info.name)?;
        let entry = |entry: Result<(flagstone::Slice, flagstone::Slice)>| {
            let (key, value) = entry?;
            let expiry = if info.expires { keyspace.expiry(&key)? } else { None };
            Ok((key.to_vec(), (value.to_vec(), expiry)))
        };
        return keyspace.scan(..).map(entry).collect();
    }
    let collection = db.collection(&info.name)?;
    let entry = |entry: Result<(Value, flagstone::Document)>| {
        let (key, document) = entry?;
        let expiry = if info.expires { collection.expiry(key.clone())? } else { None };
        let mut stored = Vec::new();
        sort_key::encode(&key, Direction::Ascending, &mut stored);
        Ok((stored, (json_of(&document.to_value()), expiry)))
    };
    collection.scan(..).map(entry).collect()
}

/// The text of a document, in which the order of fields does not matter.
fn json_of(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}
