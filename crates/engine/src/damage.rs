//! Reports damaged tables to listeners, with the keys that they hold.

use crate::event::{DamagedTable, Event};
use crate::health::Health;
use crate::keyspaces::Keyspaces;
use flagstone_base::TreeId;
use flagstone_tree::{Damage, TreeContext};

/// Reports the tables that were found damaged since the last call. Returns whether one was
/// quarantined in `tree`.
pub(crate) fn report_damages(
    health: &Health,
    keyspaces: &Keyspaces,
    trees: &TreeContext,
    tree: Option<TreeId>,
) -> bool {
    let mut is_quarantined = false;
    for damage in trees.damages.take() {
        is_quarantined |= damage.is_quarantined && Some(damage.tree) == tree;
        let table = damaged_table(keyspaces, trees, &damage);
        health.tell(&if damage.is_quarantined {
            Event::TableQuarantined(table)
        } else {
            Event::TableDamaged(table)
        });
    }
    is_quarantined
}

fn damaged_table(keyspaces: &Keyspaces, trees: &TreeContext, damage: &Damage) -> DamagedTable {
    let (keyspace, partition) = keyspaces.find_partition(damage.tree);
    DamagedTable {
        file: trees.table_path(damage.meta.number),
        keyspace,
        partition,
        smallest: damage.meta.smallest.clone(),
        largest: damage.meta.largest.clone(),
        error: damage.error.clone(),
    }
}
