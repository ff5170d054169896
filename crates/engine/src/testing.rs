//! Engines for the tests of this crate, whose keyspaces hold bytes.

use crate::change::WantedContent;
use crate::content::{
    ContentFactory, DefinitionKind, DefinitionStore, DefinitionTable, Described, KeyspaceContent,
    OpenContent, escaped,
};
use crate::event::Listener;
use crate::fold::{AddI64, Append, Fold};
use crate::{
    Batch, Config, Durability, Engine, Environment, Keyspace, KeyspaceOptions, Options, Wait,
};
use flagstone_base::{Error, Result};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// The contents of test keyspaces: bytes with the folds of this crate, or `named`, bytes with a
/// table of definitions.
pub(crate) struct Contents;

/// A table of definitions that tests fill.
#[derive(Default)]
pub(crate) struct Table {
    /// The owner of the keyspace, its note and its doubt when it was opened.
    pub(crate) owned: Option<(u32, Vec<u8>, bool)>,
    items: Mutex<Vec<Vec<u8>>>,
    len: Arc<AtomicU32>,
}

impl Table {
    pub(crate) fn define(&self, item: &str) {
        let mut items = self.items.lock().unwrap();
        items.push(item.into());
        self.len.store(items.len() as u32, Ordering::Release);
    }
}

struct TestDefinitions(Arc<Table>);

impl DefinitionStore for TestDefinitions {
    fn since(&self, first: u32, visit: &mut dyn FnMut(&[u8])) {
        self.0.items.lock().unwrap().iter().skip(first as usize).for_each(|item| visit(item));
    }

    fn restore(&self, id: u32, bytes: &[u8]) -> Result<()> {
        let mut items = self.0.items.lock().unwrap();
        match items.get(id as usize) {
            Some(item) => assert_eq!(item, bytes),
            None => {
                assert_eq!(items.len(), id as usize);
                items.push(bytes.to_vec());
            }
        }
        self.0.len.store(items.len() as u32, Ordering::Release);
        Ok(())
    }
}

impl ContentFactory for Contents {
    fn open(&self, keyspace: Described<'_>) -> Result<OpenContent> {
        let fold: Option<Arc<dyn Fold>> = match keyspace.fold {
            None => None,
            Some("add-i64/1") => Some(Arc::new(AddI64)),
            Some("append/1") => Some(Arc::new(Append)),
            Some("panics/1") => Some(Arc::new(Panics)),
            Some("count/1") => Some(Arc::new(Count)),
            Some(other) => return Err(Error::invalid(format!("no fold {other:?}"))),
        };
        let owned = keyspace.owned.map(|by| (by.owner.0, by.note.to_vec(), by.is_doubtful));
        let table = Arc::new(Table { owned, ..Table::default() });
        let definitions = match keyspace.content.as_str() {
            "named" => {
                let shown = Arc::new(TestDefinitions(Arc::clone(&table)));
                let len = Arc::clone(&table.len);
                vec![DefinitionTable::new(DefinitionKind::NAMES, shown, len)]
            }
            _ => Vec::new(),
        };
        Ok(OpenContent {
            fold,
            definitions,
            attachment: table,
            above_keys: None,
            key_text: escaped,
        })
    }

    fn defines(&self, content: &KeyspaceContent, _kind: DefinitionKind) -> bool {
        content.as_str() == "named"
    }

    fn guess(
        &self,
        has_definitions: bool,
        _fold: Option<&str>,
    ) -> (KeyspaceContent, Option<&'static str>) {
        (KeyspaceContent::of(if has_definitions { "named" } else { "bytes" }), None)
    }
}

/// A fold that counts operands and cannot combine them.
struct Count;

impl Fold for Count {
    fn name(&self) -> &'static str {
        "count/1"
    }

    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let before = base.map_or(0, |base| u64::from_le_bytes(base.try_into().unwrap()));
        Some((before + operands.len() as u64).to_le_bytes().to_vec())
    }
}

struct Panics;

impl Fold for Panics {
    fn name(&self) -> &'static str {
        "panics/1"
    }

    fn fold(&self, _key: &[u8], _base: Option<&[u8]>, _operands: &[&[u8]]) -> Option<Vec<u8>> {
        panic!("a fold of the user's")
    }
}

/// Collects the configuration that a test opens an engine with.
pub(crate) struct Builder(Config);

impl Builder {
    pub(crate) fn at(dir: impl AsRef<Path>) -> Self {
        Self(Config::new(dir.as_ref(), Arc::new(Contents)))
    }

    pub(crate) fn options(mut self, options: Options) -> Self {
        self.0.options = options;
        self
    }

    pub(crate) fn memory_budget(mut self, bytes: u64) -> Self {
        self.0.options.memory_budget = bytes;
        self
    }

    pub(crate) fn memtable_bytes(mut self, bytes: u64) -> Self {
        self.0.options.memtable_bytes = Some(bytes);
        self
    }

    pub(crate) fn direct_reads(mut self, direct: bool) -> Self {
        self.0.options.direct_reads = direct;
        self
    }

    pub(crate) fn scrub_bytes_per_second(mut self, bytes: u64) -> Self {
        self.0.options.scrub_bytes_per_second = bytes;
        self
    }

    pub(crate) fn durability(mut self, durability: Durability) -> Self {
        self.0.options.durability = durability;
        self
    }

    pub(crate) fn listener(mut self, listener: impl Listener + 'static) -> Self {
        self.0.listeners.push(Arc::new(listener));
        self
    }

    pub(crate) fn environment(mut self, environment: Environment) -> Self {
        self.0.environment = environment;
        self
    }

    pub(crate) fn open(self) -> Result<Engine> {
        Engine::open(self.0)
    }

    pub(crate) fn open_read_only(self) -> Result<Engine> {
        Engine::open_read_only(self.0)
    }
}

/// Opens the engine in `dir` with default options.
pub(crate) fn open(dir: impl AsRef<Path>) -> Result<Engine> {
    Builder::at(dir).open()
}

/// Like [`open`], for reading only.
pub(crate) fn open_read_only(dir: impl AsRef<Path>) -> Result<Engine> {
    Builder::at(dir).open_read_only()
}

fn bytes() -> WantedContent<'static> {
    WantedContent {
        content: KeyspaceContent::of("bytes"),
        fold_if_new: None,
        dictionary_if_new: false,
    }
}

impl Engine {
    pub(crate) fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.keyspace_of(name, &bytes(), None)
    }

    pub(crate) fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.keyspace_of(name, &bytes(), Some(&options))
    }

    pub(crate) fn keyspaces_with(
        &self,
        names: impl IntoIterator<Item = String>,
        options: &KeyspaceOptions,
    ) -> Result<Vec<Keyspace>> {
        let names: Vec<String> = names.into_iter().collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.keyspaces_of(&names, &bytes(), Some(options))
    }

    /// A keyspace with a table of definitions.
    pub(crate) fn named(&self, name: &str) -> Result<(Keyspace, Arc<Table>)> {
        let content = WantedContent {
            content: KeyspaceContent::of("named"),
            fold_if_new: None,
            dictionary_if_new: false,
        };
        let keyspace = self.keyspace_of(name, &content, None)?;
        let table = Arc::clone(keyspace.attachment()).downcast().unwrap();
        Ok((keyspace, table))
    }

    pub(crate) fn commit(&self, batch: Batch) -> Result<()> {
        self.commit_with(batch, self.options().durability)
    }

    pub(crate) fn commit_with(&self, batch: Batch, durability: Durability) -> Result<()> {
        self.start(&batch, durability, Wait::Yes)?.wait()
    }

    pub(crate) fn compact(&self) -> Result<()> {
        self.compact_with(|_progress| std::ops::ControlFlow::Continue(())).map(|_all| ())
    }
}
