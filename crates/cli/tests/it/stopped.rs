//! What a command leaves that is stopped while it writes a file: nothing.

use crate::run::{Place, ran};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// The names in the place that are not known.
fn new_files(place: &Place, known: &[&str]) -> Vec<String> {
    let mut new = place.files(".", "");
    new.retain(|name| !known.contains(&name.trim_start_matches("./")));
    new
}

/// `export -o x` wrote to `x.part`, which stayed when it was ended by a signal, and took the place
/// of a file of this name that was somebody else's.
#[test]
fn a_stopped_export_leaves_no_file() {
    let place = Place::new();
    place.ok("generate comments --count 60000 --output in.jsonl");
    place.ok("load db c in.jsonl");
    place.file("x.part", "somebody's");
    let known = ["in.jsonl", "db", "x.part"];
    for (args, wait) in [
        ("export db c -o x", 30),
        ("export db c -o x.gz", 60),
        ("export db c -o x.csv --fields id,author --sort -score", 60),
        ("generate comments --count 60000 -o x", 60),
    ] {
        let complete = {
            place.ok(args);
            let [file] = &new_files(&place, &known)[..] else { panic!("{args}: one file") };
            let bytes = std::fs::read(place.path(file)).unwrap();
            std::fs::remove_file(place.path(file)).unwrap();
            bytes
        };
        for name in ["TERM", "INT", "HUP", "KILL"] {
            let mut child = place.command(args).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(wait));
            signal(name, child.id());
            let status = child.wait().unwrap();
            // A fast machine may be done by then.
            for file in new_files(&place, &known) {
                let bytes = std::fs::read(place.path(&file)).unwrap();
                assert!(bytes == complete, "{args}, {name}: {status}, {file}, {}", bytes.len());
                std::fs::remove_file(place.path(&file)).unwrap();
            }
        }
    }
    // This signal is ignored, as everywhere in Rust: the export goes on.
    let mut child = place.command("export db c -o x").spawn().unwrap();
    std::thread::sleep(Duration::from_millis(30));
    signal("PIPE", child.id());
    assert!(child.wait().unwrap().success());
    assert_eq!(place.read("x").lines().count(), 60_000);
    assert_eq!(new_files(&place, &known), ["./x"]);
    assert_eq!(place.read("x.part"), "somebody's");
    // An old file stays until the new one is complete.
    let mut child = place.command("export db c -o x.part").spawn().unwrap();
    std::thread::sleep(Duration::from_millis(30));
    signal("KILL", child.id());
    child.wait().unwrap();
    let text = place.read("x.part");
    assert!(text == "somebody's" || text.lines().count() == 60_000);
}

/// An idle shell that was told to end held the lock of its database for ever.
#[test]
fn a_shell_that_waits_ends_at_the_first_signal() {
    let place = Place::new();
    place.ok("put db c k {\"id\":1}");
    for name in ["TERM", "INT", "HUP"] {
        let mut shell = place.command("shell db");
        let mut shell = shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It waits for the next command once this one has run.
        let mut stdin = shell.stdin.take().unwrap();
        stdin.write_all(b"put c k2 {\"id\":2}\ncount c\n").unwrap();
        let mut count = [0; 2];
        shell.stdout.as_mut().unwrap().read_exact(&mut count).unwrap();
        assert_eq!(&count, b"2\n");
        signal(name, shell.id());
        assert_eq!(shell.wait().unwrap().code(), Some(130), "{name}");
        drop(stdin);
        // It was closed: there is nothing to replay.
        assert_eq!(place.ok("count db c"), "2\n");
    }
}

#[test]
fn a_name_of_compressed_columns_is_refused() {
    let place = Place::new();
    place.ok("put db c k {\"id\":1}");
    for name in ["x.parquet.gz", "x.arrow.zst"] {
        place.fails(&format!("export db c -o {name}"), 2, "not compressed as a whole");
        place.file(name, "{\"id\":1}\n");
        place.fails(&format!("load db c {name}"), 2, "not compressed as a whole");
        place.ok(&format!("load db json {name} --type json"));
    }
}

#[test]
fn a_file_of_a_database_is_not_replaced() {
    let place = Place::new();
    place.ok("put db c k {\"a\":1}");
    let table = place.files("db", ".sst").pop().unwrap();
    for file in ["db/CURRENT", "db/LOCK", &table] {
        let refused = "is in the directory of a database";
        place.fails(&format!("export db c -o {file}"), 2, refused);
        place.fails(&format!("generate comments --count 1 -o {file}"), 2, refused);
    }
    place.ok("export db c -o CURRENT");
    assert_eq!(place.ok("verify db").lines().count(), 1);
    assert_eq!(place.read("CURRENT"), "{\"a\":1}\n");
}

/// Ended by a signal, these left part of a database or of a table.
#[test]
fn a_stopped_copy_is_no_database() {
    let place = Place::new();
    place.ok("generate comments --count 20000 --output in.jsonl");
    place.ok("load db c in.jsonl");
    place.ok("backup db all");
    let empty = |dir: &str| place.files(dir, "").iter().all(|name| name.ends_with("/LOCK"));
    let mut child = place.command("backup db slow --rate 100KiB").spawn().unwrap();
    // It listens before it creates the directory.
    for _ in 0..2000 {
        if place.path("slow").exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    signal("TERM", child.id());
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    assert_eq!(place.ok("backup slow --list").lines().count(), 1);
    // The next backup goes on.
    place.ok("backup db slow");
    place.ok("backup slow --verify");
    for args in ["restore all to", "repair db --to to"] {
        for wait in [0, 2, 5, 10, 20, 40] {
            let child = place.command(args).stderr(Stdio::piped()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(wait));
            signal("TERM", child.id());
            let ended = ran(child.wait_with_output().unwrap());
            match ended.code {
                0 => assert_eq!(place.ok("count to c"), "20000\n"),
                // -1: the signal came before the command had begun.
                130 | -1 => assert!(!place.path("to").exists() || empty("to"), "{args}: {ended:?}"),
                code => panic!("{args}: {code}, {ended:?}"),
            }
            if place.path("to").exists() {
                std::fs::remove_dir_all(place.path("to")).unwrap();
            }
        }
    }
    place.ok("verify db");
}

/// `-o /dev/stdout` replaced the file that stdout was appended to, and `--bad-lines /dev/stderr`
/// emptied that of stderr.
#[cfg(target_os = "linux")]
#[test]
fn a_descriptor_is_written_where_it_is() {
    use std::fs::File;
    use std::io::Write;
    let place = Place::new();
    place.ok("put db c k {\"a\":1}");
    std::os::unix::fs::symlink("/dev/stdout", place.path("link")).unwrap();
    let log = |what: &str| {
        place.file(what, "precious\n");
        File::options().append(true).open(place.path(what)).unwrap()
    };
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/proc/thread-self/fd/1", "link"] {
        for append in [true, false] {
            let mut file = log("log");
            if !append {
                file = File::options().read(true).write(true).open(place.path("log")).unwrap();
                std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
            }
            for args in ["export db c -o", "export db c --type csv --fields a -o"] {
                let mut command = place.command(&format!("{args} {name}"));
                let status = command.stdout(file.try_clone().unwrap()).status().unwrap();
                assert!(status.success(), "{args} {name}");
            }
            file.write_all(b"after\n").unwrap();
            let expected = "precious\n{\"a\":1}\na\n1\nafter\n";
            assert_eq!(place.read("log"), expected, "{name}, {append}");
        }
    }
    let mut command = place.command("export db c -o /dev/stderr");
    assert!(command.stderr(log("err")).status().unwrap().success());
    assert_eq!(place.read("err"), "precious\n{\"a\":1}\n1 document written to /dev/stderr\n");
    place.file("in.jsonl", "{\"id\":1}\nBAD\n");
    let mut command = place.command("load db d in.jsonl --bad-lines /dev/stderr");
    assert!(command.stderr(log("err")).status().unwrap().success());
    let text = place.read("err");
    assert!(text.starts_with("precious\n# in.jsonl:2:1: "), "{text}");
    assert!(text.contains("\nBAD\n") && text.contains("1 document loaded"), "{text}");
    place.fails(
        "load db e in.jsonl --bad-lines /dev/stderr --resume",
        2,
        "/dev/stderr: expected a regular file for bad lines of a load that can be continued",
    );
    place.fails("load db e in.jsonl --bad-lines -", 2, "found -");
    place.fails("export db c -o /dev/fd/99", 3, "cannot write /dev/fd/99");
}

/// The compression was found with regard to case, the format without.
#[test]
fn names_in_capitals_say_what_is_written() {
    let place = Place::new();
    place.ok("put db c k {\"id\":1}");
    for name in ["X.JSONL.GZ", "A.CSV.GZ", "B.Csv.Zst"] {
        let fields = if name.starts_with('X') { "" } else { "--fields id" };
        place.ok(&format!("export db c -o {name} {fields}"));
        let bytes = std::fs::read(place.path(name)).unwrap();
        assert!(bytes.starts_with(b"\x1f\x8b") || bytes.starts_with(b"\x28\xb5\x2f\xfd"), "{name}");
        place.ok(&format!("load db {name} {name}"));
        assert_eq!(place.ok(&format!("scan db {name}")), "{\"id\":1}\n");
    }
    place.fails("export db c -o X.PARQUET.GZ", 2, "not compressed as a whole");
}

/// It said that it was stopped, with exit code 0; or it ended by the signal, which it did not hear
/// until the database was open.
#[test]
fn a_stopped_compaction_is_interrupted() {
    let place = Place::new();
    place.ok("generate comments --count 60000 --output in.jsonl");
    for name in ["INT", "TERM"] {
        // A fast machine may be done before the signal comes: then it comes earlier.
        let mut waits = [30, 10, 3].into_iter();
        loop {
            let wait = waits.next().expect("a compaction that is stopped");
            place.ok("load db c in.jsonl --memory 8MiB");
            let child = place.command("compact db --memory 8MiB").spawn().unwrap();
            crate::run::wait_until_locked(&place, child.id());
            std::thread::sleep(Duration::from_millis(wait));
            signal(name, child.id());
            let ended = ran(child.wait_with_output().unwrap());
            assert_eq!(place.ok("count db c"), "60000\n");
            if ended.code == 0 {
                assert!(!ended.stderr.contains("stopped"), "{ended:?}");
                continue;
            }
            assert!(ended.code == 130 && ended.stderr.contains("what was done stays"), "{ended:?}");
            break;
        }
    }
}

/// It had printed a part of the changes, with exit code 0.
#[test]
fn a_watch_that_is_stopped_before_the_last_change_is_interrupted() {
    let place = Place::new();
    place.ok("put db c k {}");
    place.ok("watch db --keep 1GiB");
    place.ok("generate comments --count 20000 --output in.jsonl");
    place.ok("load db c in.jsonl");
    assert!(place.ok("watch db --from start").lines().count() >= 20_000);
    let mut child = place.command("watch db --from start").spawn().unwrap();
    // It waits for a reader of its output.
    let mut first = [0; 100];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    signal("INT", child.id());
    std::thread::sleep(Duration::from_millis(200));
    let ended = ran(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 130, "{}", ended.stderr);
    assert!(ended.stdout.lines().count() < 20_000);
}
