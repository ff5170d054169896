//! The tool on a terminal: questions before much is removed, parts of long output, text that is
//! typed without quotes.

use crate::run::Place;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A command whose stdin, stdout and stderr are a terminal of 60 columns.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// What was shown and not looked at yet.
    shown: String,
}

impl Terminal {
    fn run(place: &Place, args: &str) -> Self {
        Self::run_with(place, args, None)
    }

    /// As `run`, with stderr in a file.
    fn run_with(place: &Place, args: &str, stderr: Option<File>) -> Self {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&main).unwrap();
        unlockpt(&main).unwrap();
        let name = ptsname(&main, Vec::new()).unwrap();
        let other = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&other, size).unwrap();
        let other = File::from(other);
        let end = || Stdio::from(other.try_clone().unwrap());
        let mut command = place.command(args);
        command.env("TERM", "xterm").env("XDG_STATE_HOME", place.path("state"));
        let stderr = stderr.map_or_else(end, Stdio::from);
        let child = command.stdin(end()).stdout(end()).stderr(stderr).spawn().unwrap();
        let keyboard = File::from(main);
        let mut from = keyboard.try_clone().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal is gone with the command.
            while let Ok(length) = from.read(&mut bytes) {
                if length == 0 || sender.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard, screen, shown: String::new() }
    }

    /// Waits until `text` is shown. Returns what was shown up to it.
    #[track_caller]
    fn wait_for(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.shown.find(text) {
                let rest = self.shown.split_off(at + text.len());
                return std::mem::replace(&mut self.shown, rest);
            }
            match self.screen.recv_timeout(Duration::from_secs(60)) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(why) => panic!("{why}, without {text:?}: {:?}", self.shown),
            }
        }
    }

    fn enter(&mut self, line: &str) {
        self.keyboard.write_all(format!("{line}\r").as_bytes()).unwrap();
    }

    fn interrupt(&self) {
        self.signal("INT");
    }

    fn signal(&self, name: &str) {
        let args = [format!("-{name}"), self.child.id().to_string()];
        assert!(Command::new("kill").args(args).status().unwrap().success());
    }

    /// Waits for the end. Returns the exit code and what was shown since the last look.
    fn end(mut self) -> (i32, String) {
        let code = self.child.wait().unwrap().code().unwrap();
        while let Ok(bytes) = self.screen.recv_timeout(Duration::from_secs(10)) {
            self.shown.push_str(&String::from_utf8_lossy(&bytes));
        }
        (code, self.shown)
    }
}

fn numbers(count: u32) -> Place {
    let place = Place::new();
    let lines: String = (0..count).map(|n| format!("{{\"id\":{n},\"v\":{}}}\n", n % 2)).collect();
    place.file("in.jsonl", lines);
    place.ok("load db c in.jsonl");
    place
}

#[test]
fn a_filter_that_matches_all_is_asked_about() {
    let place = numbers(10);
    for filter in ["{}", "{\"v\":{\"$gte\":0}}"] {
        let mut terminal = Terminal::run(&place, &format!("delete db c --where {filter}"));
        terminal.wait_for("the filter matches all 10 documents of c: remove them? [y/N] ");
        terminal.enter("");
        let (code, shown) = terminal.end();
        assert_eq!(code, 1, "{shown}");
        assert!(shown.contains("nothing was done; --yes does it without a question"), "{shown}");
    }
    let mut terminal = Terminal::run(&place, "update db c --where {} w=1");
    terminal.wait_for("change them? [y/N] ");
    terminal.enter("n");
    assert_eq!(terminal.end().0, 1);
    assert_eq!(place.ok("count db c {\"w\":1}"), "0\n");
    // A filter of some of them is carried out, and so is one with --yes.
    let (code, shown) = Terminal::run(&place, "delete db c --where {\"v\":1}").end();
    assert!(code == 0 && shown.contains("5 documents removed"), "{shown}");
    let (code, shown) = Terminal::run(&place, "update db c --where {} --yes w=1").end();
    assert!(code == 0 && shown.contains("5 documents changed"), "{shown}");
    let mut terminal = Terminal::run(&place, "delete db c --where {}");
    terminal.wait_for("[y/N] ");
    terminal.enter("yes");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(place.ok("count db c"), "0\n");
    // There is nothing to lose.
    assert_eq!(Terminal::run(&place, "delete db c --where {}").end().0, 0);
}

/// A signal at the question for a password left the terminal without an echo.
#[cfg(feature = "server")]
#[test]
fn a_terminal_is_as_before_after_a_signal_at_a_password() {
    use rustix::termios::{LocalModes, SpecialCodeIndex, Termios, tcgetattr};
    let place = Place::new();
    for signal in ["INT", "TERM", "HUP"] {
        let mut terminal = Terminal::run(&place, "user add db ada --role root");
        terminal.wait_for("password of ada: ");
        let echoes = |modes: &Termios| modes.local_modes.contains(LocalModes::ECHO);
        let keyboard = terminal.keyboard.try_clone().unwrap();
        let modes = || tcgetattr(&keyboard).unwrap();
        while echoes(&modes()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(modes().special_codes[SpecialCodeIndex::VSUSP], 0, "Ctrl-Z");
        terminal.signal(signal);
        assert_eq!(terminal.child.wait().unwrap().code(), Some(130), "{signal}");
        let after = modes();
        assert!(echoes(&after), "{signal}");
        assert_ne!(after.special_codes[SpecialCodeIndex::VSUSP], 0);
    }
}

/// With `2>log` nothing was asked, and all documents were removed.
#[test]
fn who_types_is_asked_also_if_stderr_is_a_file() {
    let place = numbers(10);
    let log = File::create(place.path("log")).unwrap();
    let mut terminal = Terminal::run_with(&place, "delete db c --where {}", Some(log));
    terminal.wait_for("the filter matches all 10 documents of c: remove them? [y/N] ");
    terminal.enter("n");
    assert_eq!(terminal.end().0, 1);
    assert_eq!(place.ok("count db c"), "10\n");
    assert!(place.read("log").contains("nothing was done"));
}

#[test]
fn a_collection_is_dropped_after_a_yes() {
    let place = numbers(10);
    place.ok("index create db c by_v v");
    let mut terminal = Terminal::run(&place, "drop db c");
    terminal.wait_for("drop c with about 10 documents and its index? [y/N] ");
    terminal.enter("no");
    assert_eq!(terminal.end().0, 1);
    assert_eq!(place.ok("count db c"), "10\n");
    assert_eq!(Terminal::run(&place, "drop db c -y").end().0, 0);
    assert_eq!(place.ok("collections db --names"), "");
}

#[test]
fn a_document_is_printed_on_several_lines() {
    let place = Place::new();
    place.ok("put db c k {\"a\":{\"b\":[1.10,\"x\"]},\"e\":{}}");
    let pretty =
        "{\n  \"a\": {\n    \"b\": [\n      1.10,\n      \"x\"\n    ]\n  },\n  \"e\": {}\n}\n";
    let (code, shown) = Terminal::run(&place, "get db c k").end();
    assert_eq!((code, shown.replace('\r', "")), (0, pretty.to_owned()));
    assert_eq!(place.ok("get db c k --pretty"), pretty);
    let one_line = "{\"a\":{\"b\":[1.10,\"x\"]},\"e\":{}}\n";
    assert_eq!(place.ok("get db c k"), one_line);
    let (code, shown) = Terminal::run(&place, "get db c k --compact").end();
    assert_eq!((code, shown.replace('\r', "")), (0, one_line.to_owned()));
    place.fails("get db c k --pretty --compact", 2, "cannot be used with");
    assert_eq!(place.ok("get db c k --path a.b --pretty"), "[\n  1.10,\n  \"x\"\n]\n");
}

/// A table was wider than the terminal if its first column was, and fields that came after the
/// first 200 documents were left out without a word.
#[test]
fn a_table_fits_the_terminal() {
    let place = Place::new();
    let long = "x".repeat(100);
    let lines: String = (0..300)
        .map(|n| match n {
            250 => format!("{{\"id\":{n},\"text\":\"{long}\",\"late\":1}}\n"),
            _ => format!("{{\"id\":{n},\"text\":\"{long}\",\"more\":\"{long}\"}}\n"),
        })
        .collect();
    place.file("in.jsonl", lines);
    place.ok("load db c in.jsonl");
    for args in ["find db c", "find db c --project text", "find db c --project text,more"] {
        let (code, shown) = Terminal::run(&place, args).end();
        assert_eq!(code, 0, "{args}");
        let widest = shown.lines().filter(|line| !line.contains("more field")).map(str::len).max();
        assert!(widest.is_some_and(|widest| widest <= 60), "{args}: {shown}");
        let is_told = shown.contains("2 more fields: choose by --project");
        assert_eq!(is_told, args == "find db c", "{args}: {shown}");
    }
}

#[test]
fn a_shell_prints_twenty_documents_and_goes_on_when_it_is_asked() {
    let place = numbers(50);
    let mut terminal = Terminal::run(&place, "shell db");
    terminal.wait_for("flagstone> ");
    let ids = |shown: &str| shown.lines().filter(|line| line.starts_with("{\"id\":")).count();
    for (find, counts) in [
        ("find c --format json --sort id", &[20, 20, 10][..]),
        ("find c --format json --sort id --skip 5", &[20, 20, 5]),
        ("find c --format json --limit 30", &[30]),
        ("find c {\"id\":{\"$lt\":20}} --format json", &[20]),
        ("find c --group 'id: count as n' --format json", &[20, 20, 10]),
    ] {
        let mut command = find;
        for (at, count) in counts.iter().enumerate() {
            terminal.enter(command);
            let shown = terminal.wait_for(" ms\r\n");
            assert_eq!(ids(&shown), *count, "{find}, part {at}: {shown}");
            let is_last = at + 1 == counts.len();
            assert_eq!(shown.contains("it prints more"), !is_last, "{find}: {shown}");
            command = if at == 0 { "it" } else { "more" };
        }
        terminal.enter("it");
        terminal.wait_for("there is nothing to go on with");
    }
    terminal.enter("find c --format json --page 3");
    assert_eq!(ids(&terminal.wait_for("next page: ")), 3);
    terminal.enter("exit");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn ctrl_c_in_a_question_of_a_shell_changes_nothing() {
    let place = numbers(5);
    let mut terminal = Terminal::run(&place, "shell db");
    terminal.wait_for("flagstone> ");
    terminal.enter("delete c --where {}");
    terminal.wait_for("[y/N] ");
    terminal.interrupt();
    terminal.wait_for("stopping");
    terminal.enter("y");
    terminal.wait_for("stopped before the end");
    terminal.enter("count c");
    terminal.wait_for("\n5\r\n");
    terminal.enter("drop c");
    terminal.wait_for("drop c with about 5 documents? [y/N] ");
    terminal.enter("y");
    terminal.wait_for(" ms");
    terminal.enter("exit");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(place.ok("collections db --names"), "");
}

#[test]
fn a_second_signal_ends_what_does_not_hear_the_first() {
    let place = numbers(5);
    let mut terminal = Terminal::run(&place, "shell db");
    terminal.wait_for("flagstone> ");
    terminal.enter("delete c --where {}");
    terminal.wait_for("[y/N] ");
    terminal.interrupt();
    terminal.wait_for("press Ctrl-C again");
    terminal.interrupt();
    assert_eq!(terminal.end().0, 130);
    assert_eq!(place.ok("count db c"), "5\n");
}
