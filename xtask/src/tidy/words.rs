//! Words that the code may not have: those that reach files, clocks and threads past `env`, and
//! those of unfinished work.

use super::code::{imports, words};
use super::tree::{Finding, Tree, finding};

/// The crates that reach files, clocks and threads through `env` alone.
const PURE: [&str; 7] = ["base", "doc", "wal", "sst", "tree", "engine", "flagstone"];

/// Each word, the path by which an import could hide it, and what to use instead.
const OUTSIDE: [(&str, &str, &str); 7] = [
    ("std::fs", "std::fs", "env::Disk"),
    ("SystemTime", "std::time::SystemTime", "env::Clock"),
    ("Instant::now", "std::time::Instant::now", "env::Clock"),
    ("thread::spawn", "std::thread::spawn", "env::Executor"),
    ("parking_lot", "parking_lot", "env::sync, which models can replace"),
    ("arc_swap", "arc_swap", "env::sync, which models can replace"),
    ("thread::sleep", "std::thread::sleep", "env::Executor::submit_after, or wait for what comes"),
];

/// Refuses direct use of files, clocks and threads in the crates of the engine.
pub(super) fn outside_world(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, code) in tree.rust() {
        let pure = PURE.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
        if !pure || tree.is_test_file(path) {
            continue;
        }
        let imported = imports(&code.live);
        for (word, full, instead) in OUTSIDE {
            let spelled = words(&code.live, word);
            let hidden = imported.iter().filter(|(at, import)| {
                let plain = code.live[*at..].split(';').next().unwrap_or("");
                let inside = import.strip_prefix(full);
                inside.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
                    && words(plain, word).next().is_none()
            });
            let mut places: Vec<usize> = spelled.chain(hidden.map(|(at, _)| *at)).collect();
            places.sort_unstable();
            places.dedup();
            found.extend(places.into_iter().map(|at| {
                finding(path, &code.text, at, format!("{word} is for env alone: use {instead}"))
            }));
        }
    }
    found
}

/// Refuses unfinished code, and tests that do not run.
pub(super) fn unfinished(tree: &Tree) -> Vec<Finding> {
    const WORDS: [(&str, &str); 4] = [
        ("todo!", "finish it, or leave it out"),
        ("unimplemented!", "finish it, or return an error of kind Unsupported"),
        ("#[ignore]", "run the test, or remove it"),
        ("#[ignore =", "run the test, or remove it"),
    ];
    let mut found = Vec::new();
    for (path, code) in tree.rust().filter(|(path, _)| path.contains("/src/")) {
        for (word, cure) in WORDS {
            found.extend(
                words(&code.code, word)
                    .map(|at| finding(path, &code.text, at, format!("{word} in src: {cure}"))),
            );
        }
    }
    found
}

/// Refuses Rust files that do not begin by saying what they are for.
pub(super) fn header(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|(_, code)| !code.text.starts_with("//! "))
        .map(|(path, code)| {
            let what = "the first line says what the file is for: //! ...".to_string();
            finding(path, &code.text, 0, what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
        rule(&Tree::of(files)).iter().map(|f| format!("{}:{}", f.path, f.line)).collect()
    }

    #[test]
    fn each_word_of_the_outside_world_is_refused_in_each_crate_of_the_engine() {
        let bodies = [
            "use std::fs;",
            "let t = SystemTime::now();",
            "let t = std::time::Instant::now();",
            "std::thread::spawn(f);",
            "thread::sleep(d);",
            "use std::{fs, io};",
            "use std::fs::{self, File};",
            "use std::{io, thread::{self, spawn}};",
            "use std::thread::{self, sleep};",
            "use parking_lot::Mutex;",
            "use arc_swap::{ArcSwap, Guard};",
        ];
        for name in PURE {
            let path = format!("crates/{name}/src/a/b.rs");
            for body in bodies {
                let text = format!("//! A.\n{body}");
                let found = found(outside_world, &[(&path, &text)]);
                assert_eq!(found, [format!("{path}:2")], "{body}");
            }
        }
    }

    #[test]
    fn tests_examples_comments_texts_and_the_crate_env_may_name_the_outside_world() {
        let body = "//! A.\nuse std::fs; fn f() { thread::sleep(d) }";
        let quoted = "//! std::fs\n/// Instant::now\nconst A: &str = \"SystemTime\"; use std::io;";
        let tested = "//! A.\n#[cfg(test)]\nmod tests { use std::fs; }\n#[cfg(test)]\nmod more;";
        let files = [
            ("crates/env/src/os.rs", body),
            ("crates/cli/src/main.rs", body),
            ("crates/sst/tests/it/main.rs", body),
            ("crates/sst/examples/a.rs", body),
            ("crates/sst/src/lib.rs", tested),
            ("crates/sst/src/more.rs", body),
            ("crates/sst/src/b.rs", quoted),
        ];
        assert!(found(outside_world, &files).is_empty());
    }

    #[test]
    fn unfinished_work_is_refused_in_every_src() {
        let text = "//! A.\nfn f() { todo!() }\nfn g() { unimplemented!(\"h\") }\n\
                    #[cfg(test)]\nmod tests {\n#[test]\n#[ignore]\nfn t() {}\n\
                    #[test]\n#[ignore = \"slow\"]\nfn u() {}\n}";
        let lines = [2, 3, 7, 10].map(|line| format!("crates/cli/src/a.rs:{line}"));
        assert_eq!(found(unfinished, &[("crates/cli/src/a.rs", text)]), lines);
        let quoted = "//! todo!\nconst A: &str = \"unimplemented!\"; // #[ignore]";
        assert!(found(unfinished, &[("crates/cli/src/a.rs", quoted)]).is_empty());
    }

    #[test]
    fn a_rust_file_without_a_header_is_refused() {
        let files = [
            ("crates/a/src/a.rs", "//! What it is for.\n"),
            ("crates/a/src/b.rs", "\n//! Late.\n"),
            ("crates/a/tests/c.rs", "fn main() {}"),
            ("xtask/src/d.rs", ""),
        ];
        assert_eq!(
            found(header, &files),
            ["crates/a/src/b.rs:1", "crates/a/tests/c.rs:1", "xtask/src/d.rs:1"]
        );
    }
}
