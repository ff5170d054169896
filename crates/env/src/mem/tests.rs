//! Tests of the disk in memory: that it works like a disk, and that it loses unsynced changes.

use super::*;
use crate::disk::{LockMode, read_whole, replace_whole};
use std::collections::BTreeSet;

fn path(name: &str) -> PathBuf {
    Path::new("/db").join(name)
}

fn disk() -> MemDisk {
    let disk = MemDisk::default();
    disk.create_dir(Path::new("/db")).unwrap();
    disk
}

fn write(disk: &MemDisk, name: &str, bytes: &[u8]) {
    let mut file = disk.create(&path(name)).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

fn names(disk: &MemDisk) -> Vec<String> {
    disk.list(Path::new("/db")).unwrap()
}

#[test]
fn the_disk_in_memory_behaves_like_the_real_one() {
    let disk = disk();
    let mut file = disk.create(&path("a")).unwrap();
    file.append(b"hello ").unwrap();
    let before = disk.open(&path("a")).unwrap();
    file.append(b"disk").unwrap();
    file.syncer().unwrap().sync().unwrap();
    assert_eq!((before.len(), file.position()), (6, 10));
    let mut buffer = [0; 4];
    disk.open(&path("a")).unwrap().read_exact_at(&mut buffer, 6).unwrap();
    assert_eq!(&buffer, b"disk");
    assert_eq!(before.read_exact_at(&mut buffer, 8).unwrap_err().kind(), ErrorKind::Corruption);
    assert!(before.read_exact_at(&mut buffer, u64::MAX).is_err());
    assert!(disk.create(&path("a")).is_err());
    assert!(disk.open(&path("b")).err().unwrap().is_missing_file());
    assert!(disk.create(Path::new("/nowhere/a")).err().unwrap().is_missing_file());
    disk.link(&path("a"), &path("b")).unwrap();
    assert!(disk.link(&path("a"), &path("b")).is_err());
    disk.remove(&path("a")).unwrap();
    assert_eq!(disk.content(&path("b")).unwrap(), b"hello disk");
    assert_eq!(before.len(), 6);
    disk.create_dir(&path("sub/sub")).unwrap();
    assert_eq!(names(&disk), ["b", "sub"]);
    assert!(disk.exists(&path("sub/sub")).unwrap());
    let counts = disk.counts();
    assert_eq!((counts.of(Op::Append), counts.of(Op::Sync)), (2, 1));
    assert_eq!(counts.bytes_appended, 10);
}

#[test]
fn a_crash_forgets_bytes_after_the_last_sync() {
    let disk = disk();
    let mut file = disk.create(&path("a")).unwrap();
    disk.sync_dir(Path::new("/db")).unwrap();
    file.append(b"kept").unwrap();
    file.sync().unwrap();
    file.append(b"lost").unwrap();
    let left = disk.crash_losing_unsynced();
    assert_eq!(left.content(&path("a")).unwrap(), b"kept");
    assert_eq!(disk.content(&path("a")).unwrap(), b"keptlost");
}

#[test]
fn a_synced_file_without_a_synced_directory_may_have_no_name() {
    let disk = disk();
    write(&disk, "a", b"x");
    assert!(!disk.crash_losing_unsynced().exists(&path("a")).unwrap());
    let survived = (0..100).filter(|&seed| disk.crash(seed).exists(&path("a")).unwrap()).count();
    assert!((10..90).contains(&survived), "{survived}");
    disk.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(disk.crash_losing_unsynced().content(&path("a")).unwrap(), b"x");
}

#[test]
fn a_rename_is_atomic_and_a_replaced_file_is_old_or_new() {
    let disk = disk();
    replace_whole(&disk, &path("CURRENT"), b"one").unwrap();
    write(&disk, "next", b"two");
    disk.sync_dir(Path::new("/db")).unwrap();
    disk.rename(&path("next"), &path("CURRENT")).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let left = disk.crash(seed);
        let content = read_whole(&left, &path("CURRENT"), 10).unwrap();
        assert_eq!(left.exists(&path("next")).unwrap(), content == b"one", "seed {seed}");
        seen.insert(content);
    }
    assert_eq!(seen.len(), 2);
    disk.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(disk.crash_losing_unsynced().content(&path("CURRENT")).unwrap(), b"two");
}

#[test]
fn unsynced_removals_may_come_back_and_synced_ones_never() {
    let disk = disk();
    write(&disk, "a", b"x");
    disk.sync_dir(Path::new("/db")).unwrap();
    disk.remove(&path("a")).unwrap();
    assert!(disk.crash_losing_unsynced().exists(&path("a")).unwrap());
    write(&disk, "a", b"another");
    for seed in 0..50 {
        let left = disk.crash(seed);
        if left.exists(&path("a")).unwrap() {
            let content = left.content(&path("a")).unwrap();
            assert!(content == b"x" || content == b"another", "seed {seed}");
        }
    }
    disk.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(disk.crash_losing_unsynced().content(&path("a")).unwrap(), b"another");
}

#[test]
fn a_move_between_directories_is_whole_once_either_is_synced() {
    let disk = disk();
    disk.create_dir(Path::new("/other")).unwrap();
    write(&disk, "a", b"x");
    disk.rename(&path("a"), Path::new("/other/a")).unwrap();
    disk.sync_dir(Path::new("/other")).unwrap();
    for seed in 0..20 {
        let left = disk.crash(seed);
        assert!(left.exists(Path::new("/other/a")).unwrap());
        assert!(!left.exists(&path("a")).unwrap(), "seed {seed}");
    }
}

#[test]
fn a_killed_process_leaves_everything_written_and_makes_nothing_more_durable() {
    let disk = disk();
    let _held = disk.lock(&path("LOCK"), LockMode::Exclusive).unwrap();
    assert_eq!(
        disk.lock(&path("LOCK"), LockMode::Exclusive).err().unwrap().kind(),
        ErrorKind::Busy
    );
    let mut file = disk.create(&path("a")).unwrap();
    file.append(b"written").unwrap();
    let left = disk.kill();
    assert!(left.lock(&path("LOCK"), LockMode::Exclusive).is_ok());
    assert_eq!(left.content(&path("a")).unwrap(), b"written");
    assert!(!left.crash_losing_unsynced().exists(&path("a")).unwrap());
    file.append(b" later").unwrap();
    assert_eq!(left.content(&path("a")).unwrap(), b"written");
}

#[test]
fn a_lock_is_released_when_it_is_dropped() {
    let disk = disk();
    drop(disk.lock(&path("LOCK"), LockMode::Exclusive).unwrap());
    assert!(disk.lock(&path("LOCK"), LockMode::Exclusive).is_ok());
}

#[test]
fn the_same_seed_crashes_the_same_way() {
    let disk = disk();
    for name in ["a", "b", "c"] {
        let mut file = disk.create(&path(name)).unwrap();
        file.append(&[7; 5000]).unwrap();
    }
    for seed in 0..20 {
        let (one, two) = (disk.crash(seed), disk.crash(seed));
        assert_eq!(names(&one), names(&two));
        for name in names(&one) {
            assert_eq!(one.content(&path(&name)).unwrap(), two.content(&path(&name)).unwrap());
        }
    }
}

#[test]
fn readers_share_a_lock_that_a_writer_holds_alone() {
    let disk = disk();
    let lock = |mode| disk.lock(&path("LOCK"), mode);
    assert!(lock(LockMode::Shared).err().unwrap().is_missing_file(), "readers make no file");
    drop(lock(LockMode::Exclusive).unwrap());
    let readers = [lock(LockMode::Shared).unwrap(), lock(LockMode::Shared).unwrap()];
    assert_eq!(lock(LockMode::Exclusive).err().unwrap().kind(), ErrorKind::Busy);
    let [first, second] = readers;
    drop(first);
    assert_eq!(lock(LockMode::Exclusive).err().unwrap().kind(), ErrorKind::Busy);
    drop(second);
    let _writer = lock(LockMode::Exclusive).unwrap();
    assert_eq!(lock(LockMode::Shared).err().unwrap().kind(), ErrorKind::Busy);
}
