//! How far a load came: a mark of each writer, in a keyspace of the database. A mark is committed
//! together with the documents before it, so a load that continues puts each document once.

use crate::error::LoadError;
use flagstone::{Batch, Database, Keyspace, KeyspaceOptions, Routing};

/// A place in the inputs: the number of the input, and an offset in its text; of tables with typed
/// columns, a number of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The number of the input, from 0.
    pub input: usize,
    /// What is before the place in this input.
    pub offset: u64,
}

/// The marks of one load.
#[derive(Debug)]
pub struct Marks {
    keyspace: Keyspace,
    /// The keys of the marks begin with it: the name of the collection and a zero byte.
    prefix: Vec<u8>,
    /// For each writer, the documents before this place were loaded earlier.
    loaded: Vec<Position>,
    continues: bool,
}

/// The keyspace of the marks. Its name cannot be that of a collection in use: those hold documents.
const KEYSPACE: &str = "flagstone.loads";

impl Marks {
    /// Opens the marks of the load of `inputs` into `collection` that was stopped, if there is one,
    /// or begins new ones. `settings` are the other settings that must be the same.
    ///
    /// # Errors
    /// Usage when the load that was stopped had other inputs or settings. Those of the database.
    pub fn open(
        database: &Database,
        collection: &str,
        settings: &[(&str, String)],
        writers: u16,
    ) -> Result<Self, LoadError> {
        let options = KeyspaceOptions::new().routing(Routing::Hash(1));
        let keyspace = match database.existing_keyspace(KEYSPACE)? {
            Some(keyspace) => keyspace,
            None => database.keyspace_with(KEYSPACE, options)?,
        };
        let prefix = [collection.as_bytes(), b"\0"].concat();
        let Some(known) = keyspace.get(&prefix)? else {
            let text: String =
                settings.iter().map(|(name, value)| format!("{name}\t{value}\n")).collect();
            keyspace.put(&prefix, format!("writers\t{writers}\n{text}"))?;
            let loaded = vec![Position::default(); usize::from(writers)];
            return Ok(Self { keyspace, prefix, loaded, continues: false });
        };
        let known = String::from_utf8_lossy(&known).into_owned();
        let mut lines = known.lines().filter_map(|line| line.split_once('\t'));
        let writers = lines.next().and_then(|(_, count)| count.parse().ok()).unwrap_or(writers);
        let known: Vec<(&str, &str)> = lines.collect();
        let now: Vec<(&str, &str)> =
            settings.iter().map(|(name, value)| (*name, &**value)).collect();
        if let Some(at) = (0..known.len().max(now.len())).find(|at| known.get(*at) != now.get(*at))
        {
            let show = |side: Option<&(&str, &str)>| {
                side.map_or("nothing".to_owned(), |(name, value)| format!("{name} {value}"))
            };
            let (known, now) = (show(known.get(at)), show(now.get(at)));
            return Err(LoadError::Usage(format!(
                "a load into {collection} was stopped that had {known}: found {now}; \
                 without --resume the load begins at the start"
            )));
        }
        let mut marks = Self { keyspace, prefix, loaded: Vec::new(), continues: true };
        marks.loaded = (0..writers).map(|writer| marks.read(writer)).collect::<Result<_, _>>()?;
        Ok(marks)
    }

    fn key(&self, writer: u16) -> Vec<u8> {
        [&self.prefix[..], &writer.to_be_bytes()].concat()
    }

    fn read(&self, writer: u16) -> Result<Position, LoadError> {
        let Some(mark) = self.keyspace.get(self.key(writer))? else {
            return Ok(Position::default());
        };
        let bad = || {
            let text = format!(
                "keyspace {KEYSPACE:?}: expected the number of an input and an offset, found {}",
                mark.escape_ascii()
            );
            LoadError::Io(text)
        };
        let text = std::str::from_utf8(&mark).map_err(|_not_utf8| bad())?;
        let (input, offset) = text.split_once(' ').ok_or_else(bad)?;
        match (input.parse(), offset.parse()) {
            (Ok(input), Ok(offset)) => Ok(Position { input, offset }),
            _ => Err(bad()),
        }
    }

    /// Returns the number of writers of the load, which decides the writer of each key.
    pub(crate) const fn writers(&self) -> usize {
        self.loaded.len()
    }

    /// Returns whether there was a load that was stopped.
    pub const fn continue_one(&self) -> bool {
        self.continues
    }

    /// Returns the place up to which the load that was stopped has come.
    pub(crate) fn end(&self) -> Position {
        self.loaded.iter().max().copied().unwrap_or_default()
    }

    /// Returns the first place whose document may not be loaded yet.
    pub fn start(&self) -> Position {
        self.loaded.iter().min().copied().unwrap_or_default()
    }

    /// Returns whether the document at `place`, which belongs to `writer`, was loaded earlier.
    pub(crate) fn is_loaded(&self, writer: usize, place: Position) -> bool {
        self.loaded.get(writer).is_some_and(|loaded| place < *loaded)
    }

    /// Puts into `batch` that the documents of `writer` before `place` are loaded with it.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put(&self, batch: &mut Batch, writer: usize, place: Position) -> flagstone::Result<()> {
        let Position { input, offset } = place;
        batch.put(&self.keyspace, self.key(writer as u16), format!("{input} {offset}"))
    }
}

/// Removes the marks of loads into `collection`: the next load begins at the start.
///
/// # Errors
/// Those of the database.
pub fn remove(database: &Database, collection: &str) -> Result<(), LoadError> {
    let Some(keyspace) = database.existing_keyspace(KEYSPACE)? else { return Ok(()) };
    let start = [collection.as_bytes(), b"\0"].concat();
    let end = [collection.as_bytes(), b"\x01"].concat();
    if keyspace.get(&start)?.is_some() {
        keyspace.delete_range(start..end)?;
    }
    let is_empty = keyspace.scan_all().next().is_none();
    drop(keyspace);
    if is_empty {
        database.drop_keyspace(KEYSPACE)?;
    }
    Ok(())
}
