//! Tells listeners of damaged tables, and which keys they hold.

use crate::event::{DamagedTable, Event};
use crate::shared::Shared;
use flagstone_base::{Error, TreeId};
use flagstone_tree::{Damage, Tree};

impl Shared {
    /// Tells of the tables that were found damaged since the last call; whether one was quarantined in `tree`.
    pub(crate) fn tell_damages(&self, tree: Option<TreeId>) -> bool {
        let mut is_quarantined = false;
        for damage in self.trees.damages.take() {
            is_quarantined |= damage.is_quarantined && Some(damage.tree) == tree;
            let table = self.damaged_table(&damage);
            self.tell(&match damage.is_quarantined {
                false => Event::TableDamaged(table),
                true => Event::TableQuarantined(table),
            });
        }
        is_quarantined
    }

    /// An error of a read, after what it found is told.
    #[cold]
    pub(crate) fn told(&self, error: Error) -> Error {
        self.tell_damages(None);
        error
    }

    fn damaged_table(&self, damage: &Damage) -> DamagedTable {
        let (keyspace, partition) = self.place_of(damage.tree);
        DamagedTable {
            file: self.trees.table_path(damage.meta.number),
            keyspace,
            partition,
            smallest: damage.meta.smallest.clone(),
            largest: damage.meta.largest.clone(),
            error: damage.error.clone(),
        }
    }

    /// The keyspace of a tree by name, empty if it was dropped, and which of its partitions the tree is.
    pub(super) fn part_of(&self, tree: &Tree) -> (String, usize) {
        let Some(keyspace) = self.keyspace_of(tree) else { return (String::new(), 0) };
        let partition = keyspace.trees.iter().position(|other| other.id() == tree.id());
        (keyspace.name(), partition.unwrap_or_default())
    }

    /// As [`Shared::part_of`], where only the number of the tree is known. Looks at all trees.
    pub(super) fn place_of(&self, tree: TreeId) -> (String, usize) {
        let keyspaces = self.keyspaces.all();
        let place = keyspaces.iter().find_map(|keyspace| {
            let partition = keyspace.trees.iter().position(|other| other.id() == tree)?;
            Some((keyspace.name(), partition))
        });
        place.unwrap_or_default()
    }

    /// `error`, with the keyspace and partition that it stays in.
    pub(super) fn in_tree(&self, error: &Error, tree: TreeId, what: &str) -> Error {
        let (keyspace, partition) = self.place_of(tree);
        error.clone().context(format!("{what} of keyspace {keyspace:?}, partition {partition}"))
    }
}
