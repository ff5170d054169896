//! Tests of the real disk.

use super::*;
use crate::disk::{Disk, LockMode, PAGE, read_whole, replace_whole};
use crate::forks::ClosedInChild;
use crate::names::LOCK;
use flagstone_base::{Error, ErrorKind};
use rustix::fs::{FlockOperation, flock};
use std::cell::Cell;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn what_is_appended_is_read_back() {
    let dir = scratch();
    let path = dir.path().join("a");
    let mut file = OsDisk.create(&path).unwrap();
    file.append(b"hello ").unwrap();
    file.append(b"disk").unwrap();
    file.reserve(100).unwrap();
    file.start_writeback().unwrap();
    file.syncer().unwrap().sync().unwrap();
    assert_eq!(file.position(), 10);
    let read = OsDisk.open(&path).unwrap();
    assert_eq!(read.len(), 10);
    let mut buffer = [0; 4];
    read.read_exact_at(&mut buffer, 6).unwrap();
    assert_eq!(&buffer, b"disk");
    assert_eq!(read.read_exact_at(&mut buffer, 7).unwrap_err().kind(), ErrorKind::Corruption);
    assert!(OsDisk.create(&path).is_err());
}

#[test]
fn a_reused_file_keeps_what_is_not_overwritten() {
    let dir = scratch();
    let path = dir.path().join("a");
    OsDisk.create(&path).unwrap().append(b"old bytes").unwrap();
    OsDisk.reuse(&path).unwrap().append(b"NEW").unwrap();
    assert_eq!(read_whole(&OsDisk, &path, 100).unwrap(), b"NEW bytes");
    assert!(read_whole(&OsDisk, &path, 8).is_err());
    assert!(OsDisk.reuse(&dir.path().join("b")).err().unwrap().is_missing_file());
}

#[test]
fn a_reused_file_is_written_by_whole_pages_with_zeros_after_the_appended_bytes() {
    let (page, dir) = (PAGE as usize, scratch());
    let path = dir.path().join("a");
    let mut expected = vec![7; 4 * page + 100];
    OsDisk.create(&path).unwrap().append(&expected).unwrap();
    let mut file = OsDisk.reuse(&path).unwrap();
    let mut at = 0;
    for (i, len) in [10, 20, page, page - 30, 1, 2 * page - 2, 7].into_iter().enumerate() {
        let bytes = vec![i as u8 + 1; len];
        file.append(&bytes).unwrap();
        expected[at..at + len].copy_from_slice(&bytes);
        at += len;
        let behind = at.next_multiple_of(page);
        // The last page is not whole, so its old bytes stay.
        if behind < expected.len() {
            expected[at..behind].fill(0);
        }
        assert_eq!(file.position(), at as u64);
        assert_eq!(read_whole(&OsDisk, &path, 1 << 20).unwrap(), expected, "{i}");
    }
    assert!(at > 4 * page);
}

#[test]
fn a_part_is_blanked_up_to_the_end_of_the_file_and_the_position_stays() {
    let dir = scratch();
    let path = dir.path().join("a");
    let mut file = OsDisk.create(&path).unwrap();
    file.append(b"abcdef").unwrap();
    file.blank(1, 2).unwrap();
    file.blank(5, 10).unwrap();
    file.blank(7, 10).unwrap();
    file.append(b"gh").unwrap();
    assert_eq!(read_whole(&OsDisk, &path, 100).unwrap(), b"a\0\0de\0gh");
}

#[test]
fn a_directory_is_locked_once() {
    let dir = scratch();
    let path = dir.path().join("LOCK");
    let lock = |mode| OsDisk.lock(&path, mode);
    let held = lock(LockMode::Exclusive).unwrap();
    assert_eq!(lock(LockMode::Exclusive).err().unwrap().kind(), ErrorKind::Busy);
    assert_eq!(lock(LockMode::Shared).err().unwrap().kind(), ErrorKind::Busy);
    drop(held);
    let _readers = [lock(LockMode::Shared).unwrap(), lock(LockMode::Shared).unwrap()];
    assert_eq!(lock(LockMode::Exclusive).err().unwrap().kind(), ErrorKind::Busy);
}

#[test]
fn a_whole_file_is_replaced_even_over_a_leftover_temporary_one() {
    let dir = scratch();
    let path = dir.path().join("CURRENT");
    OsDisk.create(&dir.path().join("CURRENT.tmp")).unwrap();
    for content in [b"one".as_slice(), b"two"] {
        replace_whole(&OsDisk, &path, content).unwrap();
        assert_eq!(read_whole(&OsDisk, &path, 10).unwrap(), content);
    }
    assert_eq!(OsDisk.list(dir.path()).unwrap(), ["CURRENT"]);
    assert!(OsDisk.free_bytes(dir.path()).unwrap() > 0);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn files_and_directories_are_those_of_their_owner_unless_a_directory_is_shared_with_a_group() {
    let dir = scratch();
    let made = dir.path().join("a/b");
    OsDisk.create_dir(&made).unwrap();
    assert_eq!([mode(&made), mode(made.parent().unwrap())], [0o700; 2]);
    let private = [made.join("1"), made.join("2"), made.join(LOCK)];
    OsDisk.create(&private[0]).unwrap();
    let held = OsDisk.hold(&made).unwrap();
    held.disk.create(&held.path.join("2")).unwrap();
    let _lock = held.disk.lock(&held.path.join(LOCK), LockMode::Exclusive).unwrap();
    assert_eq!(private.map(|path| mode(&path)), [0o600; 3]);
    // Read by the group alone means nothing: so is a directory of most users.
    for (bits, expected) in [(0o755, 0o600), (0o2700, 0o600), (0o2750, 0o640)] {
        fs::set_permissions(&made, fs::Permissions::from_mode(bits)).unwrap();
        let held = OsDisk.hold(&made).unwrap();
        let path = held.path.join("shared");
        held.disk.create(&path).unwrap();
        assert_eq!(mode(&path), expected, "{bits:o}");
        held.disk.remove(&path).unwrap();
    }
}

/// What is told of a lost directory.
fn told(held: &crate::HeldDir) -> Arc<Mutex<Vec<Error>>> {
    let told = Arc::<Mutex<Vec<Error>>>::default();
    let teller = Arc::clone(&told);
    held.guard.on_lost(move |error| teller.lock().unwrap().push(error.clone()));
    told
}

/// A handle used to delete and write the files of a database that was made where its own had been.
#[test]
fn a_directory_in_the_place_of_a_held_one_is_not_touched() {
    let outer = scratch();
    let dir = outer.path().join("data");
    OsDisk.create_dir(&dir).unwrap();
    let held = OsDisk.hold(&dir).unwrap();
    let (disk, told) = (&held.disk, told(&held));
    let path = |name: &str| held.path.join(name);
    let mut open = disk.create(&path("old")).unwrap();
    open.append(b"old").unwrap();
    held.guard.check().unwrap();
    let moved = outer.path().join("moved");
    fs::rename(&dir, &moved).unwrap();
    fs::create_dir(&dir).unwrap();
    for name in ["old", "new"] {
        fs::write(dir.join(name), "another").unwrap();
    }
    let refused = [
        disk.create(&path("x")).err(),
        disk.reuse(&path("old")).err(),
        disk.rename(&path("old"), &path("new")).err(),
        disk.rename(&outer.path().join("data/new"), &path("x")).err(),
        disk.link(&path("old"), &path("x")).err(),
        disk.remove(&path("old")).err(),
        disk.create_dir(&path("x")).err(),
        disk.sync_dir(&held.path).err(),
        disk.lock(&path(LOCK), LockMode::Exclusive).err(),
    ];
    for error in refused.map(Option::unwrap) {
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(!error.is_missing_file());
        let text = error.to_string();
        let place = moved.canonicalize().unwrap();
        assert!(text.contains("is not the directory that was opened"), "{text}");
        assert!(text.contains("another one is at its path"), "{text}");
        assert!(!cfg!(target_os = "linux") || text.contains(place.to_str().unwrap()), "{text}");
    }
    let appended = (0..10_000).find_map(|_| open.append(b"more").err());
    assert!(appended.unwrap().to_string().contains("another one"));
    assert_eq!(told.lock().unwrap().len(), 1, "it is told once");
    // What is read is that of the held directory.
    assert_eq!(disk.list(&held.path).unwrap(), ["old"]);
    assert!(disk.exists(&path("old")).unwrap() && !disk.exists(&path("new")).unwrap());
    assert!(read_whole(&**disk, &path("old"), 1 << 20).unwrap().starts_with(b"old"));
    for name in ["old", "new"] {
        assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), "another");
    }
    assert_eq!(OsDisk.list(&dir).unwrap(), ["new", "old"]);
    // Once lost, it stays lost, though it is moved back.
    fs::remove_dir_all(&dir).unwrap();
    fs::rename(&moved, &dir).unwrap();
    assert!(held.guard.check().is_err());
    assert!(OsDisk.hold(&dir).unwrap().guard.check().is_ok());
}

#[test]
fn a_removed_directory_and_a_removed_lock_are_noticed() {
    let outer = scratch();
    let dir = outer.path().join("data");
    let open = || {
        OsDisk.create_dir(&dir).unwrap();
        let held = OsDisk.hold(&dir).unwrap();
        let lock = held.disk.lock(&held.path.join(LOCK), LockMode::Exclusive).unwrap();
        held.guard.check().unwrap();
        (held, lock)
    };
    let (held, lock) = open();
    fs::remove_dir_all(&dir).unwrap();
    let missing = held.disk.open(&held.path.join("x")).err().unwrap();
    assert!(missing.to_string().contains("it was moved or removed"), "{missing}");
    drop(lock);
    for make in [false, true] {
        let (held, lock) = open();
        fs::remove_file(dir.join(LOCK)).unwrap();
        if make {
            fs::write(dir.join(LOCK), "").unwrap();
        }
        let error = held.disk.create(&held.path.join("x")).err().unwrap().to_string();
        let expected = if make { "LOCK was replaced" } else { "LOCK was removed" };
        assert!(error.contains(expected), "{error}");
        drop(lock);
        assert!(!dir.join("x").exists());
    }
    // Nobody minds what happens to a lock that is not held.
    let (held, lock) = open();
    drop(lock);
    fs::remove_file(dir.join(LOCK)).unwrap();
    held.guard.check().unwrap();
}

#[test]
fn a_symbolic_link_and_its_target_are_one_directory() {
    let outer = scratch();
    let (dir, link) = (outer.path().join("data"), outer.path().join("link"));
    OsDisk.create_dir(&dir).unwrap();
    symlink(&dir, &link).unwrap();
    let held = OsDisk.hold(&link).unwrap();
    assert_eq!(held.path, dir.canonicalize().unwrap());
    let _lock = held.disk.lock(&held.path.join(LOCK), LockMode::Exclusive).unwrap();
    let busy = OsDisk.lock(&dir.join(LOCK), LockMode::Exclusive).err().unwrap();
    assert_eq!(busy.kind(), ErrorKind::Busy);
    assert!(busy.to_string().contains("another handle of this process"), "{busy}");
    // The link is only how it was found.
    fs::remove_file(&link).unwrap();
    held.disk.create(&held.path.join("x")).unwrap();
}

#[test]
fn only_a_file_is_locked_and_no_link_is_followed() {
    let dir = scratch();
    let (lock, secret) = (dir.path().join(LOCK), dir.path().join("secret"));
    let locked = || OsDisk.lock(&lock, LockMode::Exclusive);
    fs::write(&secret, "secret").unwrap();
    symlink(&secret, &lock).unwrap();
    assert_eq!(locked().err().unwrap().kind(), ErrorKind::Io);
    fs::remove_file(&lock).unwrap();
    fs::hard_link(&secret, &lock).unwrap();
    drop(locked().unwrap());
    assert_eq!(fs::read_to_string(&secret).unwrap().len(), 6, "no note is left in it");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    assert!(locked().is_err());
}

/// Runs the test `name` of this program again as a child, with `role` in its environment.
fn child(name: &str, role: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("os::tests::{name}"), "--nocapture"]);
    command.env("FLAGSTONE_TEST_ROLE", role).env("FLAGSTONE_TEST_DIR", dir);
    command
}

fn role() -> Option<(String, PathBuf)> {
    let role = std::env::var("FLAGSTONE_TEST_ROLE").ok()?;
    Some((role, std::env::var_os("FLAGSTONE_TEST_DIR").unwrap().into()))
}

/// A database opened as "data" used to write its tables to another directory of that name, once
/// the process had changed its directory.
#[test]
fn a_relative_path_means_what_it_meant_when_it_was_held() {
    if let Some((_, dir)) = role() {
        std::env::set_current_dir(dir.join("a")).unwrap();
        let held = OsDisk.hold(Path::new("data")).unwrap();
        let absolute = OsDisk.absolute(Path::new("x")).unwrap();
        std::env::set_current_dir(dir.join("b")).unwrap();
        held.disk.create(&held.path.join("file")).unwrap();
        held.disk.sync_dir(&held.path).unwrap();
        assert_eq!(absolute.canonicalize().unwrap_err().kind(), std::io::ErrorKind::NotFound);
        assert!(absolute.ends_with("a/x"));
        return;
    }
    let dir = scratch();
    for data in ["a/data", "b/data"] {
        fs::create_dir_all(dir.path().join(data)).unwrap();
    }
    let name = "a_relative_path_means_what_it_meant_when_it_was_held";
    assert!(child(name, "child", dir.path()).status().unwrap().success());
    assert_eq!(OsDisk.list(&dir.path().join("a/data")).unwrap(), ["file"]);
    assert!(OsDisk.list(&dir.path().join("b/data")).unwrap().is_empty());
}

#[expect(unsafe_code, reason = "a fork")]
fn fork() -> i32 {
    // SAFETY: the child waits for no other thread, and ends without a return from the test.
    unsafe { libc::fork() }
}

fn wait_until_killed() -> ! {
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

/// A lock used to be held as long as a forked child of its holder lived: the workers of a pool
/// kept their database from being opened again.
#[test]
fn the_child_of_a_fork_does_not_keep_the_lock() {
    if let Some((role, dir)) = role() {
        let lock = OsDisk.lock(&dir.join(LOCK), LockMode::Exclusive).unwrap();
        let forked = fork();
        let begun = dir.join("begun");
        if forked == 0 {
            fs::write(begun, "").unwrap();
            wait_until_killed();
        }
        // On a busy machine the child used to begin after the parent's death, and closed its copy
        // too late for this test.
        while !begun.exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if role == "closes" {
            drop(lock);
        } else {
            std::mem::forget(lock);
        }
        println!("forked {forked}.");
        std::io::stdout().flush().unwrap();
        wait_until_killed();
    }
    for role in ["closes", "dies"] {
        let dir = scratch();
        let path = dir.path().join(LOCK);
        let mut parent = child("the_child_of_a_fork_does_not_keep_the_lock", role, dir.path());
        let mut parent = parent.stdout(Stdio::piped()).spawn().unwrap();
        let mut text = String::new();
        let mut output = parent.stdout.take().unwrap();
        while !text.contains('.') {
            let mut byte = [0];
            output.read_exact(&mut byte).unwrap();
            text.push(char::from(byte[0]));
        }
        let forked = text.split("forked ").nth(1).unwrap().trim_end_matches('.');
        let forked = rustix::process::Pid::from_raw(forked.parse().unwrap()).unwrap();
        if role == "dies" {
            let busy = OsDisk.lock(&path, LockMode::Shared).err().unwrap().to_string();
            let holder = format!("is locked by process {} (", parent.id());
            assert!(busy.contains(&holder), "{busy}");
            parent.kill().unwrap();
            parent.wait().unwrap();
        }
        rustix::process::test_kill_process(forked).unwrap();
        let locked = OsDisk.lock(&path, LockMode::Exclusive);
        rustix::process::kill_process(forked, rustix::process::Signal::KILL).unwrap();
        let _ended = parent.kill();
        parent.wait().unwrap();
        locked.unwrap();
    }
}

/// A child that was forked after the file was opened, and before it was known as one to be closed,
/// kept a copy of the descriptor, and with it the lock after the death of its parent.
#[test]
fn a_child_forked_while_the_lock_is_opened_does_not_keep_it() {
    if let Some((_, dir)) = role() {
        let path = dir.join(LOCK);
        let (opens, forked) = (Cell::new(0), Cell::new(0));
        let opened = ClosedInChild::open(|| {
            let file = fs::File::create(&path)?;
            opens.set(opens.get() + 1);
            if opens.get() == 1 {
                forked.set(fork());
                if forked.get() == 0 {
                    wait_until_killed();
                }
            }
            std::io::Result::Ok(file)
        });
        let (closed_in_child, file) = opened.unwrap();
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        // As the death of this process, which does not unlock it.
        drop((closed_in_child, file));
        let again = OsDisk.lock(&path, LockMode::Exclusive);
        let child = rustix::process::Pid::from_raw(forked.get()).unwrap();
        rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
        wait_for(forked.get());
        locked.unwrap();
        again.unwrap();
        assert_eq!(opens.get(), 2);
        return;
    }
    let dir = scratch();
    let name = "a_child_forked_while_the_lock_is_opened_does_not_keep_it";
    assert!(child(name, "parent", dir.path()).status().unwrap().success());
}

/// Ends a forked child, which must not go on as the test program that it is a copy of.
#[expect(unsafe_code, reason = "an exit without destructors")]
fn exit_now(is_good: bool) -> ! {
    // SAFETY: the call takes an integer and does not return.
    unsafe { libc::_exit(i32::from(!is_good)) }
}

/// The status of a forked child that has ended: 0 for a good one.
#[expect(unsafe_code, reason = "a wait")]
fn wait_for(forked: i32) -> i32 {
    let mut status = -1;
    // SAFETY: the pointer is valid for the call.
    assert_eq!(unsafe { libc::waitpid(forked, &raw mut status, 0) }, forked);
    status
}

/// A forked child lost the lock of its parent but kept its files: it went on to append to them,
/// beside whoever opened the directory next. And it knew itself by its number alone, which another
/// process may have.
#[test]
fn the_child_of_a_fork_writes_and_removes_nothing() {
    if let Some((_, dir)) = role() {
        let held = OsDisk.hold(&dir).unwrap();
        let (disk, path) = (&held.disk, |name: &str| held.path.join(name));
        let lock = disk.lock(&path(LOCK), LockMode::Exclusive).unwrap();
        let mut file = disk.create(&path("file")).unwrap();
        let syncer = file.syncer().unwrap();
        file.append(b"parent").unwrap();
        let forked = fork();
        if forked == 0 {
            let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for error in [
                    file.append(b"child").err(),
                    file.append(b"child").err(),
                    file.blank(0, 6).err(),
                    file.reserve(100).err(),
                    file.sync().err(),
                    syncer.sync().err(),
                    disk.create(&path("new")).err(),
                    disk.reuse(&path("file")).err(),
                    disk.remove(&path("file")).err(),
                    disk.rename(&path("file"), &path("new")).err(),
                    held.guard.check().err(),
                ] {
                    let text = error.unwrap().to_string();
                    assert!(text.contains("was forked after the directory was opened"), "{text}");
                }
                // This file has the number that the descriptor of the lock had.
                let other = fs::File::open(path("file")).unwrap();
                drop(lock);
                assert_eq!(other.metadata().unwrap().len(), 6);
                // Nor does it open anything itself: see `forks`.
                let opened = [
                    OsDisk.hold(&dir).err(),
                    OsDisk.lock(&dir.join("other"), LockMode::Exclusive).err(),
                ];
                assert!(opened.iter().flatten().all(|error| error.kind() == ErrorKind::Forked));
                assert_eq!(opened.iter().flatten().count(), 2);
            }));
            exit_now(tried.is_ok());
        }
        assert_eq!(wait_for(forked), 0);
        file.append(b"!").unwrap();
        assert_eq!(fs::read(path("file")).unwrap(), b"parent!");
        let noted = fs::read_to_string(path(LOCK)).unwrap();
        assert!(noted.starts_with(&format!("pid {}, ", std::process::id())), "{noted}");
        assert!(OsDisk.lock(&path(LOCK), LockMode::Exclusive).is_err());
        drop(lock);
        OsDisk.lock(&path(LOCK), LockMode::Exclusive).unwrap();
        return;
    }
    let dir = scratch();
    let name = "the_child_of_a_fork_writes_and_removes_nothing";
    assert!(child(name, "parent", dir.path()).status().unwrap().success());
}
