//! The content of keyspaces as the engine sees it: a text of the catalog, and the objects that
//! belong to it.
//!
//! The engine stores bytes. The meaning of the bytes, documents for example, is known to the layer
//! above it, which gives the engine a [`ContentFactory`]. Content may define things that are needed
//! to read stored values; today these are names of fields. The engine logs such definitions before
//! the writes that use them, keeps them in the manifest, and passes them back when the database is
//! opened.

pub use crate::catalog::KeyspaceContent;
use crate::fold::Fold;
use flagstone_base::codec::{put_bytes, put_varint};
use flagstone_base::{Decoder, KeyspaceId, Malformed, Result};
use flagstone_env::sync::atomic::{AtomicU32, Ordering};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The content of an owned keyspace without entries: batches that write to its owner keep the
/// values that the keys had before, for readers of changes.
pub const OLD_VALUES: &str = "old values";

/// A keyspace whose content is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// The number of the keyspace, never assigned again.
    pub id: KeyspaceId,
    /// The name of the keyspace, unique among those of its owner.
    pub name: &'a str,
    /// The content of the keyspace.
    pub content: &'a KeyspaceContent,
    /// The name of the keyspace's fold, if it has one.
    pub fold: Option<&'a str>,
    /// Set if another keyspace owns this one.
    pub owned: Option<OwnedBy<'a>>,
}

/// What the catalog says of an owned keyspace.
#[derive(Clone, Copy, Debug)]
pub struct OwnedBy<'a> {
    /// The keyspace that owns it. Its content was opened before.
    pub owner: KeyspaceId,
    /// The bytes that the layer above keeps with the keyspace.
    pub note: &'a [u8],
    /// A repair may have lost entries of the keyspace or of its owner.
    pub is_doubtful: bool,
}

/// The layer above the engine: it knows the contents of keyspaces.
pub trait ContentFactory: Send + Sync {
    /// Creates the objects that belong to a keyspace. Called once for each keyspace when the
    /// database is opened, and when a keyspace is created.
    ///
    /// # Errors
    /// InvalidInput for a fold that is not registered, Unsupported for content that this version
    /// does not know.
    fn open(&self, keyspace: Described<'_>) -> Result<OpenContent>;

    /// Returns whether keyspaces of this content have a table of definitions of this kind.
    fn defines(&self, content: &KeyspaceContent, kind: DefinitionKind) -> bool;

    /// Guesses content and fold of a keyspace whose catalog is lost, for a repair. `fold` is what
    /// the caller knows of its fold.
    fn guess(
        &self,
        has_definitions: bool,
        fold: Option<&str>,
    ) -> (KeyspaceContent, Option<&'static str>);
}

/// The objects that belong to the content of one keyspace.
pub struct OpenContent {
    /// Folds the merge operands of the keyspace.
    pub fold: Option<Arc<dyn Fold>>,
    /// The definitions that are needed to read values: one table of each kind, ascending by kind.
    pub definitions: Vec<DefinitionTable>,
    /// Kept for the layer above; the engine does not use it.
    pub attachment: Arc<dyn Any + Send + Sync>,
    /// Bytes above every key, if the content has such. Without them a removal of all keys needs the
    /// largest possible key, which takes 64 KiB.
    pub above_keys: Option<&'static [u8]>,
    /// Returns a key as messages show it: [`escaped`] unless the content knows better.
    pub key_text: fn(&[u8]) -> String,
}

/// Returns the bytes of a key as text.
pub fn escaped(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

/// Identifies a table of definitions of a keyspace. Stored in the log and the manifest.
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

/// An append-only table of definitions that are needed to read values. Ids are 0, 1, 2..
pub trait DefinitionStore: Send + Sync {
    /// Calls `visit` with each definition from the id `first` on, in the order of the ids.
    fn since(&self, first: u32, visit: &mut dyn FnMut(&[u8]));

    /// Restores the definition `id` from the log or the manifest. Ids come in order, and may come
    /// twice.
    ///
    /// # Errors
    /// Corruption if the definition is impossible, or differs from the present one of `id`.
    fn restore(&self, id: u32, bytes: &[u8]) -> Result<()>;
}

/// One table of definitions, and how much of it is logged and stored.
pub struct DefinitionTable {
    pub(crate) kind: DefinitionKind,
    table: Arc<dyn DefinitionStore>,
    /// The number of definitions. The table raises it, and the engine reads it with every commit.
    len: Arc<std::sync::atomic::AtomicU32>,
    /// The number of definitions that are known to be in the log or the manifest.
    logged: AtomicU32,
    /// The number of definitions that are in the manifest.
    in_manifest: AtomicU32,
}

impl DefinitionTable {
    /// Combines a table with the counter in which it keeps its length.
    pub fn new(
        kind: DefinitionKind,
        table: Arc<dyn DefinitionStore>,
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

    /// Returns whether there are definitions that the manifest does not hold.
    pub(crate) fn is_due(&self) -> bool {
        self.len() > self.in_manifest()
    }

    /// Notes that the first `len` definitions are in the log.
    pub(crate) fn note_logged(&self, len: u32) {
        self.logged.fetch_max(len, Ordering::AcqRel);
    }

    /// Notes that the first `len` definitions are in the synced manifest.
    pub(crate) fn note_in_manifest(&self, len: u32) {
        self.in_manifest.fetch_max(len, Ordering::AcqRel);
        self.note_logged(len);
    }

    /// The definitions with ids from `first` on, below `end`.
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

    pub(crate) fn all(&self) -> Vec<Vec<u8>> {
        self.range(0, u32::MAX)
    }

    /// Restores definitions that were read: `items`, with ids from `first` on.
    ///
    /// # Errors
    /// Same as [`DefinitionStore::restore`].
    pub(crate) fn restore(&self, first: u32, items: &[Vec<u8>]) -> Result<()> {
        let ids = (0..).map(|at| first.saturating_add(at));
        ids.zip(items).try_for_each(|(id, item)| self.table.restore(id, item))
    }
}

/// Definitions that got ids in a keyspace: `first_id`, `first_id + 1`, ..
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DefinitionRecord {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) kind: DefinitionKind,
    pub(crate) first_id: u32,
    pub(crate) items: Vec<Vec<u8>>,
}

impl DefinitionRecord {
    /// Appends the bytes that [`DefinitionRecord::decode`] reads, the same in the log and in the
    /// manifest.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.keyspace.0));
        put_varint(out, u64::from(self.kind.0));
        put_varint(out, u64::from(self.first_id));
        self.items.iter().for_each(|item| put_bytes(out, item));
    }

    /// Decodes a definition that is all of `bytes`.
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

impl fmt::Display for DefinitionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} from {}:", self.keyspace, self.kind, self.first_id)?;
        self.items.iter().try_for_each(|item| write!(f, " {:?}", DefinitionText(item)))
    }
}

/// Shows a definition in a text: most definitions are text themselves.
pub(crate) struct DefinitionText<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for DefinitionText<'_> {
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
        let definition = DefinitionRecord {
            keyspace: KeyspaceId(1),
            kind: DefinitionKind::NAMES,
            first_id: 2,
            items: vec![b"id".to_vec(), "é".into()],
        };
        let mut bytes = Vec::new();
        definition.encode(&mut bytes);
        assert_eq!(bytes, b"\x01\x01\x02\x02id\x02\xC3\xA9");
        assert_eq!(definition.to_string(), "keyspace 1 names from 2: \"id\" \"é\"");
        assert_eq!(DefinitionRecord::decode(&bytes), Ok(definition));
        assert!(DefinitionRecord::decode(b"\x01\xFF\x02\x02\x02id").is_err(), "no kind");
        assert!(DefinitionRecord::decode(b"\x01\x01\x02\x03id").is_err(), "cut short");
    }
}
