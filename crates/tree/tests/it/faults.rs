//! Tests of disks that fail: whichever operation fails, a failed flush or compaction changes
//! nothing.

use crate::bench_tree::{BenchTree, context, small_options};
use flagstone_base::{ErrorKind, TreeId};
use flagstone_env::{Disk, Effect, Failure, Fault, FaultDisk, MemDisk, Op, OpenFiles};
use flagstone_tree::{OutputCheck, Tree, TreeContext, TreeOptions, Version};
use std::path::Path;
use std::sync::Arc;

fn on_fault_disk() -> (BenchTree, Arc<FaultDisk>) {
    with_options(small_options())
}

fn with_options(options: TreeOptions) -> (BenchTree, Arc<FaultDisk>) {
    let disk = MemDisk::default();
    let faults = Arc::new(FaultDisk::new(Arc::new(disk.clone())));
    let mut shared = context(&disk, 1, true);
    let shared_disk: Arc<dyn Disk> = Arc::clone(&faults) as Arc<dyn Disk>;
    let context: &mut TreeContext = Arc::get_mut(&mut shared).unwrap();
    context.files = OpenFiles::new(Arc::clone(&shared_disk), 3);
    context.disk = shared_disk;
    let tree = Tree::new(TreeId(3), shared, options, Version::empty());
    let bench = BenchTree::of(disk, tree);
    (bench, faults)
}

fn files(tree: &BenchTree) -> usize {
    tree.disk.list(Path::new("/db")).unwrap().len()
}

#[test]
fn a_flush_that_fails_at_any_operation_leaves_no_file_and_succeeds_later() {
    for nth in 1.. {
        let (mut tree, faults) = on_fault_disk();
        for i in 0..200 {
            tree.put(&format!("k{i:03}"), &"x".repeat(60));
        }
        tree.tree.seal(tree.last);
        faults.inject(Fault::new(Effect::Fail(Failure::NoSpace)).nth(nth));
        let mut flush = tree.start_flush().unwrap();
        let result = loop {
            match flush.step() {
                Ok(None) => {}
                Ok(Some(edit)) => break Ok(edit),
                Err(error) => break Err(error),
            }
        };
        drop(flush);
        if let Ok(edit) = result {
            tree.install(&edit);
            assert!(nth > 8, "{nth}");
            return;
        }
        faults.heal();
        assert_eq!(files(&tree), 0, "after a failure at operation {nth}");
        assert_eq!(tree.text("k199").unwrap().len(), 60);
        tree.flush();
        assert_eq!(tree.tree.view().version().flushed_through(), tree.last);
        assert_eq!(tree.text("k199").unwrap().len(), 60);
    }
}

/// Whichever read fails: the tail, the header, the blocks, or the tail again for the checksum.
#[test]
fn a_table_that_does_not_come_back_as_it_was_written_is_not_installed() {
    for check in [OutputCheck::Stored, OutputCheck::Entries] {
        for nth in 1.. {
            let (mut tree, faults) = with_options(TreeOptions { check, ..small_options() });
            for i in 0..200 {
                tree.put(&format!("k{i:03}"), &"x".repeat(60));
            }
            tree.tree.seal(tree.last);
            faults.inject(
                Fault::new(Effect::FlipBit(99 + 8 * nth as usize)).on(&[Op::Read]).nth(nth),
            );
            let mut flush = tree.start_flush().unwrap();
            let result = loop {
                match flush.step() {
                    Ok(None) => {}
                    Ok(Some(edit)) => break Ok(edit),
                    Err(error) => break Err(error),
                }
            };
            drop(flush);
            let Err(error) = result else {
                assert!(nth > 4, "{nth}");
                break;
            };
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            faults.heal();
            assert_eq!(files(&tree), 0, "after a flipped bit in read {nth}");
            tree.flush();
            assert_eq!(tree.text("k199").unwrap().len(), 60);
        }
    }
}

#[test]
fn a_compaction_that_fails_at_any_operation_changes_nothing() {
    for nth in 1.. {
        let (mut tree, faults) = on_fault_disk();
        for round in 0..2 {
            for i in 0..100 {
                tree.put(&format!("k{i:03}"), &format!("{round}{}", "x".repeat(60)));
            }
            tree.flush();
        }
        let (before, dump) = (files(&tree), tree.dump());
        let job = tree.first_full().unwrap();
        faults.inject(Fault::new(Effect::Fail(Failure::Io)).nth(nth));
        let mut compaction =
            flagstone_tree::Compaction::start(&tree.tree, job, &[], tree.last).unwrap();
        let result = loop {
            match compaction.step() {
                Ok(None) => {}
                Ok(Some(edit)) => break Ok(edit),
                Err(error) => break Err(error),
            }
        };
        drop(compaction);
        if let Ok(edit) = result {
            tree.install(&edit);
            assert!(nth > 8, "{nth}");
            return;
        }
        faults.heal();
        assert_eq!(files(&tree), before, "after a failure at operation {nth}");
        assert_eq!(tree.dump(), dump);
        assert!(tree.compact_full());
        assert!(tree.text("k099").unwrap().starts_with('1'));
    }
}
