//! The report of a repair: what it did, and what is lost.

use flagstone_base::SeqNo;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// A part of the damaged database that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The name of the file.
    pub file: String,
    /// The range of bytes in the file; empty when the file is missing.
    pub bytes: Range<u64>,
    /// The keyspace whose entries were there, if known.
    pub keyspace: Option<String>,
    /// The first and the last key of the lost part, both included, if it is part of a table;
    /// without the second: all keys from the first on.
    pub keys: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// The first SeqNo of the lost part and the first one after it, if it is part of the log;
    /// without the second: the end is unknown.
    pub seqnos: Option<(SeqNo, Option<SeqNo>)>,
    /// Whether this may be no loss: the end of a log or manifest that a crash cut off before it was
    /// acknowledged.
    pub may_be_torn: bool,
    /// A text that says what is wrong.
    pub what: String,
}

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// The directory of the repaired database.
    pub dir: PathBuf,
    /// The newest SeqNo in it.
    pub seqno: SeqNo,
    /// The number of tables that were kept unchanged.
    pub tables_kept: u64,
    /// The size of the kept tables, in bytes.
    pub bytes_kept: u64,
    /// The number of tables that were written, from parts of damaged tables, the log, or whole
    /// keyspaces.
    pub tables_written: u64,
    /// The number of entries in the tables that were written.
    pub entries_written: u64,
    /// The number of records of the log that were read.
    pub log_records: u64,
    /// The names of the keyspaces whose tables the manifest does not list: they were rebuilt from
    /// everything found.
    pub rebuilt: Vec<String>,
    /// Everything that could not be read.
    pub losses: Vec<Loss>,
    /// Remarks that the owner of the database should read.
    pub notes: Vec<String>,
    /// The new names of the files that a repair in place has renamed.
    pub set_aside: Vec<String>,
}

impl RepairReport {
    /// Returns whether everything could be read, except for ends that a crash may have cut off.
    pub fn is_lossless(&self) -> bool {
        self.losses.iter().all(|loss| loss.may_be_torn)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if !self.bytes.is_empty() {
            write!(f, ", bytes {} to {}", self.bytes.start, self.bytes.end)?;
        }
        if let Some(keyspace) = &self.keyspace {
            write!(f, ", keyspace {keyspace:?}")?;
        }
        match &self.keys {
            Some((from, Some(to))) => {
                write!(f, ", keys {} to {}", from.escape_ascii(), to.escape_ascii())?;
            }
            Some((from, None)) => write!(f, ", keys from {} on", from.escape_ascii())?,
            None => {}
        }
        match self.seqnos {
            Some((from, Some(to))) => write!(f, ", writes from {from} to before {to}")?,
            Some((from, None)) => write!(f, ", writes from {from} on")?,
            None => {}
        }
        let torn = if self.may_be_torn { " (perhaps only cut short by a crash)" } else { "" };
        write!(f, ": {}{torn}", self.what)
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} tables of {} bytes kept, {} written with {} entries, {} records of the log read",
            self.tables_kept,
            self.bytes_kept,
            self.tables_written,
            self.entries_written,
            self.log_records
        )?;
        for name in &self.rebuilt {
            writeln!(f, "rebuilt: keyspace {name:?}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        for loss in &self.losses {
            writeln!(f, "lost: {loss}")?;
        }
        for name in &self.set_aside {
            writeln!(f, "set aside: {name}")?;
        }
        write!(f, "{} at {}", self.dir.display(), self.seqno)
    }
}
