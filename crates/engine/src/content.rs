//! What an application makes of a keyspace, as the engine sees it: a text of the catalog, and what belongs to it.
//!
//! The engine stores bytes. What the bytes are, documents for example, is known to the layer above it, which gives the
//! engine a [`ContentFactory`]. Its content may define things that stored values need to be read: names of fields
//! today. The engine logs such definitions before the writes that use them, keeps them in the manifest and gives them
//! back when the database is opened.

pub use crate::catalog::KeyspaceContent;
use crate::fold::Fold;
use flagstone_base::codec::{put_bytes, put_varint};
use flagstone_base::{Decoder, KeyspaceId, Malformed, Result};
use flagstone_env::sync::atomic::{AtomicU32, Ordering};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A keyspace whose content is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it holds.
    pub content: &'a KeyspaceContent,
    /// The name of its fold.
    pub fold: Option<&'a str>,
}

/// The layer above the engine: it knows what keyspaces hold.
pub trait ContentFactory: Send + Sync {
    /// Makes what belongs to a keyspace: called once for each when the database is opened, and when one is created.
    ///
    /// # Errors
    /// InvalidInput for a fold that is not registered, Unsupported for content that this version does not know.
    fn open(&self, keyspace: Described<'_>) -> Result<Content>;

    /// Whether keyspaces of this content have a table of definitions of this kind.
    fn defines(&self, content: &KeyspaceContent, kind: DefinitionKind) -> bool;

    /// The likeliest content and fold of a keyspace of which the catalog is lost: for a repair.
    /// `fold` is what the caller knows of its fold.
    fn guess(
        &self,
        has_definitions: bool,
        fold: Option<&str>,
    ) -> (KeyspaceContent, Option<&'static str>);
}

/// What belongs to the content of one keyspace.
pub struct Content {
    /// Folds its merge operands.
    pub fold: Option<Arc<dyn Fold>>,
    /// What its values need to be read, one table of each kind, ascending by kind.
    pub definitions: Vec<DefinitionTable>,
    /// For the layer above: the engine keeps it and does not look into it.
    pub attachment: Arc<dyn Any + Send + Sync>,
}

/// Which table of definitions of a keyspace; stored in the log and the manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionKind(pub u8);

impl DefinitionKind {
    /// Names of fields. Tables of the keyspace carry a copy of them.
    pub const NAMES: Self = Self(1);
}

impl fmt::Display for DefinitionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NAMES => f.write_str("names"),
            Self(kind) => write!(f, "definitions of kind {kind}"),
        }
    }
}

/// An append-only table of what values need to be read. Ids are 0, 1, 2..
pub trait Definitions: Send + Sync {
    /// Gives those from `first` on to `visit`, in the order of their ids.
    fn since(&self, first: u32, visit: &mut dyn FnMut(&[u8]));

    /// Defines `id` again, from the log or the manifest. Ids come in order, and may come twice.
    ///
    /// # Errors
    /// Corruption for one that cannot be, or that differs from what `id` is.
    fn restore(&self, id: u32, bytes: &[u8]) -> Result<()>;
}

/// One table of definitions, and how far it is logged and stored.
pub struct DefinitionTable {
    pub(crate) kind: DefinitionKind,
    table: Arc<dyn Definitions>,
    /// How many are defined: the table raises it, the engine reads it with every commit.
    len: Arc<std::sync::atomic::AtomicU32>,
    /// This many are known to be in the log or the manifest.
    logged: AtomicU32,
    /// This many are in the manifest.
    in_manifest: AtomicU32,
}

impl DefinitionTable {
    /// A table, and where it keeps how many it has.
    pub fn new(
        kind: DefinitionKind,
        table: Arc<dyn Definitions>,
        len: Arc<std::sync::atomic::AtomicU32>,
    ) -> Self {
        let (logged, in_manifest) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { kind, table, len, logged, in_manifest }
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn logged(&self) -> u32 {
        self.logged.load(Ordering::Acquire)
    }

    pub(crate) fn in_manifest(&self) -> u32 {
        self.in_manifest.load(Ordering::Acquire)
    }

    /// Whether some are defined that the manifest does not hold.
    pub(crate) fn is_due(&self) -> bool {
        self.len() > self.in_manifest()
    }

    /// The first `len` of them are in the log.
    pub(crate) fn note_logged(&self, len: u32) {
        self.logged.fetch_max(len, Ordering::AcqRel);
    }

    /// The first `len` of them are in the synced manifest.
    pub(crate) fn note_in_manifest(&self, len: u32) {
        self.in_manifest.fetch_max(len, Ordering::AcqRel);
        self.note_logged(len);
    }

    /// Those from `first` on, up to `end`.
    pub(crate) fn range(&self, first: u32, end: u32) -> Vec<Vec<u8>> {
        let mut items = Vec::new();
        let most = end.saturating_sub(first) as usize;
        self.table.since(first, &mut |item| {
            if items.len() < most {
                items.push(item.to_vec());
            }
        });
        items
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Vec<u8>> {
        self.range(0, u32::MAX)
    }

    /// Defines again what was read: `items` from `first` on.
    ///
    /// # Errors
    /// As [`Definitions::restore`].
    pub(crate) fn restore(&self, first: u32, items: &[Vec<u8>]) -> Result<()> {
        let ids = (0..).map(|at| first.saturating_add(at));
        ids.zip(items).try_for_each(|(id, item)| self.table.restore(id, item))
    }
}

/// Definitions that got ids in a keyspace: `first_id`, `first_id + 1`, ..
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) kind: DefinitionKind,
    pub(crate) first_id: u32,
    pub(crate) items: Vec<Vec<u8>>,
}

impl Definition {
    /// Appends what [`Definition::decode`] reads: the same bytes in the log and in the manifest.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.keyspace.0));
        put_varint(out, u64::from(self.kind.0));
        put_varint(out, u64::from(self.first_id));
        self.items.iter().for_each(|item| put_bytes(out, item));
    }

    /// Reads all of `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let keyspace = KeyspaceId(decoder.varint_u32("a keyspace id")?);
        let at = decoder.position();
        let kind = u8::try_from(decoder.varint("a kind of definitions")?)
            .map_err(|_too_large| Malformed { at, expected: "a kind of definitions, 0 to 255" })?;
        let first_id = decoder.varint_u32("the id of a definition")?;
        let mut items = Vec::new();
        while !decoder.is_done() {
            items.push(decoder.bytes("a definition")?.to_vec());
        }
        Ok(Self { keyspace, kind: DefinitionKind(kind), first_id, items })
    }
}

impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} from {}:", self.keyspace, self.kind, self.first_id)?;
        self.items.iter().try_for_each(|item| write!(f, " {:?}", Shown(item)))
    }
}

/// Shows a definition in a text: most are text themselves.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(self.0) {
            Ok(text) => write!(f, "{text:?}"),
            Err(_not_text) => write!(f, "\"{}\"", self.0.escape_ascii()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_has_its_golden_bytes_and_comes_back() {
        let definition = Definition {
            keyspace: KeyspaceId(1),
            kind: DefinitionKind::NAMES,
            first_id: 2,
            items: vec![b"id".to_vec(), "é".into()],
        };
        let mut bytes = Vec::new();
        definition.encode(&mut bytes);
        assert_eq!(bytes, b"\x01\x01\x02\x02id\x02\xC3\xA9");
        assert_eq!(definition.to_string(), "keyspace 1 names from 2: \"id\" \"é\"");
        assert_eq!(Definition::decode(&bytes), Ok(definition));
        assert!(Definition::decode(b"\x01\xFF\x02\x02\x02id").is_err(), "no kind");
        assert!(Definition::decode(b"\x01\x01\x02\x03id").is_err(), "cut short");
    }
}
