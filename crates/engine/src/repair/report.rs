//! What a repair did, and what is lost.

use flagstone_base::SeqNo;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// Something that a repair could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The name of the file.
    pub file: String,
    /// Where in it; empty when the file is missing.
    pub bytes: Range<u64>,
    /// The keyspace whose entries stood there, if it is one's and that is known.
    pub keyspace: Option<String>,
    /// Between which keys, both included, if the part is one of a table; without the second: from the first on.
    pub keys: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// From which SeqNo on, and below which, if the part is one of the log; without the second: nobody knows.
    pub seqnos: Option<(SeqNo, Option<SeqNo>)>,
    /// Whether it may be no loss at all: the end of a log or manifest that a crash cut short before anybody was promised it.
    pub may_be_torn: bool,
    /// What is wrong.
    pub what: String,
}

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Where the repaired database lies.
    pub dir: PathBuf,
    /// The newest SeqNo in it.
    pub seqno: SeqNo,
    /// Tables taken over as they are, and their bytes.
    pub tables_kept: u64,
    /// Their bytes.
    pub bytes_kept: u64,
    /// Tables written, of parts of damaged ones, of the log, or of whole keyspaces.
    pub tables_written: u64,
    /// Entries in them.
    pub entries_written: u64,
    /// Records of the log that were read.
    pub log_records: u64,
    /// Keyspaces whose tables the manifest does not tell, so that they were rebuilt of everything found, by name.
    pub rebuilt: Vec<String>,
    /// What could not be read.
    pub losses: Vec<Loss>,
    /// What else its owner should know.
    pub notes: Vec<String>,
    /// In a repair in place: the files that were renamed, by their new names.
    pub set_aside: Vec<String>,
}

impl RepairReport {
    /// Whether everything could be read.
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
