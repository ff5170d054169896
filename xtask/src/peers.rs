//! `cargo xtask peers`: builds the program in `peers/`, a workspace of its own, and runs it. Writes
//! its tables into `docs/bench/peers.md`, the details of each cell into `peers.csv` beside it, and
//! the headline table into the README. A run with chosen
//! cells, engines, sizes or times, and `table` of stored results only print them unless `--write`
//! is given. `--lint` runs clippy over the program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The page that gets all tables, and the one that gets the headline table, between two marks.
const PAGE: &str = "docs/bench/peers.md";
const README: &str = "README.md";
const BEGIN: &str = "<!-- results: begin -->";
const END: &str = "<!-- results: end -->";
/// The line in the program's output after the headline table, which is empty without headline
/// cells.
const REST: &str = "<!-- the rest -->";
/// The line before the details, and the file that gets them.
const DETAILS: &str = "<!-- the details -->";
const DETAILS_FILE: &str = "docs/bench/peers.csv";

/// The words after which a run does not measure what the pages describe.
const CHOSEN: [&str; 10] = [
    "--quick",
    "--cells",
    "--engines",
    "--without-rocksdb",
    "--seconds",
    "--memory",
    "--partitions",
    "--scale",
    "--out",
    "table",
];

const LINT: [&str; 10] = [
    "clippy",
    "--locked",
    "--workspace",
    "--manifest-path",
    "peers/Cargo.toml",
    "--no-default-features",
    "--all-targets",
    "--",
    "-D",
    "warnings",
];

const MISSING: &str = "\
RocksDB is built from source and bound by bindgen, which needs a C++ compiler and libclang:
  Debian, Ubuntu   apt-get install clang libclang-dev g++
  Fedora           dnf install clang-devel gcc-c++
  macOS            xcode-select --install && brew install llvm
If libclang is elsewhere, name its folder: LIBCLANG_PATH=/usr/lib/llvm-18/lib cargo xtask peers.
To measure the other engines only: cargo xtask peers --without-rocksdb.";

/// Builds and runs the program. Returns true if every trial ran. Options that are not known here go
/// to the program.
pub(crate) fn run(root: &Path, words: &[&str]) -> bool {
    if words.contains(&"--lint") {
        return lint(root, words);
    }
    let own = ["--quick", "--without-rocksdb", "--write"];
    let without = words.contains(&"--without-rocksdb");
    let clang = libclang();
    if !without && (clang.is_none() || !is_there("c++")) {
        eprintln!("{MISSING}");
        return false;
    }
    println!("The first build of RocksDB takes up to half an hour.");
    let mut build = cargo(root, "build", without);
    if let (Some(folder), None) = (&clang, std::env::var_os("LIBCLANG_PATH")) {
        build.env("LIBCLANG_PATH", folder);
    }
    if !build.status().is_ok_and(|status| status.success()) {
        return false;
    }
    let mut program = cargo(root, "run", without);
    program.arg("--");
    if words.contains(&"--quick") {
        program.args(["--seconds", "2", "--rounds", "1", "--scale", "quick"]);
    }
    program.args(words.iter().filter(|word| !own.contains(word)));
    let Ok(output) = program.stderr(Stdio::inherit()).output() else { return false };
    let tables = String::from_utf8_lossy(&output.stdout);
    let Some((shown, rest)) = tables.split_once(REST) else {
        print!("{tables}");
        return output.status.success();
    };
    print!("{rest}");
    if is_written(words) {
        let (rest, details) = rest.split_once(DETAILS).unwrap_or((rest, ""));
        if let Err(error) = std::fs::write(root.join(DETAILS_FILE), csv(details)) {
            eprintln!("\n{DETAILS_FILE}: {error}");
            return false;
        }
        for (page, tables) in pages(shown, rest) {
            match write(&root.join(page), tables) {
                Ok(()) => eprintln!("\n{page} holds the tables."),
                Err(why) => {
                    eprintln!("\n{page}: {why}");
                    return false;
                }
            }
        }
    }
    output.status.success()
}

/// Runs clippy over the program, without RocksDB, which would have to be built for that.
fn lint(root: &Path, words: &[&str]) -> bool {
    if *words != ["--lint"] {
        eprintln!("--lint measures nothing and takes no other option");
        return false;
    }
    crate::ci::cargo(root).args(LINT).status().is_ok_and(|status| status.success())
}

/// Returns whether the tables are written into the pages: after a run of everything as documented,
/// or if asked to. A run of a few cells would remove the tables of all others, and a run of other
/// sizes or times would replace the figures by ones that cannot be compared.
fn is_written(words: &[&str]) -> bool {
    words.contains(&"--write") || !words.iter().any(|word| CHOSEN.contains(word))
}

/// The pages to be written, and what each gets: the README nothing when no headline cell was
/// measured.
fn pages<'a>(shown: &'a str, rest: &'a str) -> Vec<(&'static str, &'a str)> {
    let mut pages = vec![(PAGE, rest), (README, shown)];
    pages.retain(|(_, tables)| !tables.trim().is_empty());
    pages
}

/// Returns the tables of the details as one, with a column for each title that one of them has.
fn csv(details: &str) -> String {
    let mut titles: Vec<&str> = Vec::new();
    let mut rows: Vec<Vec<(&str, &str)>> = Vec::new();
    let mut head: Vec<&str> = Vec::new();
    for line in details.lines().filter(|line| !line.starts_with("|---")) {
        let Some(line) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
            head.clear();
            continue;
        };
        let mut values: Vec<&str> = line.split('|').map(str::trim).collect();
        if head.is_empty() {
            head = values;
            let new: Vec<&str> =
                head.iter().copied().filter(|title| !titles.contains(title)).collect();
            titles.extend(new);
            continue;
        }
        // An empty name is that of the row above.
        if values[0].is_empty() {
            values[0] = rows.last().and_then(|row| row.first()).map_or("", |(_, name)| name);
        }
        rows.push(head.iter().copied().zip(values).collect());
    }
    let quoted = |text: &str| {
        if text.contains(',') { format!("\"{text}\"") } else { text.to_owned() }
    };
    let line = |texts: &mut dyn Iterator<Item = &str>| {
        texts.map(quoted).collect::<Vec<_>>().join(",") + "\n"
    };
    let mut text = line(&mut titles.iter().copied());
    for row in &rows {
        let value = |title: &&str| row.iter().find(|(of, _)| of == title).map_or("", |(_, v)| v);
        text.push_str(&line(&mut titles.iter().map(value)));
    }
    text
}

fn write(page: &Path, tables: &str) -> Result<(), String> {
    let text = std::fs::read_to_string(page).map_err(|error| error.to_string())?;
    let text = insert(&text, tables).ok_or("no place for them")?;
    std::fs::write(page, text).map_err(|error| error.to_string())
}

fn cargo(root: &Path, command: &str, without_rocksdb: bool) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut built = Command::new(cargo);
    built.current_dir(root.join("peers")).args([command, "--release"]);
    // RocksDB takes hardware CRC32C and AVX2 from the features of the Rust target. `run` needs the
    // same flags as `build`, or it builds everything again.
    if std::env::var_os("RUSTFLAGS").is_none() {
        built.env("RUSTFLAGS", "-Ctarget-cpu=native");
    }
    if without_rocksdb {
        built.arg("--no-default-features");
    }
    built
}

fn is_there(program: &str) -> bool {
    let probe = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    probe.is_ok_and(|output| output.status.success())
}

/// Returns the folder of libclang: the one that the environment names, or one of the usual places.
fn libclang() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("LIBCLANG_PATH") {
        return Some(named.into());
    }
    let mut folders: Vec<PathBuf> = Vec::new();
    for parent in ["/usr/lib", "/usr/local", "/opt/homebrew/opt", "/usr/local/opt"] {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        let llvms = entries.filter(|entry| entry.file_name().to_string_lossy().contains("llvm"));
        folders.extend(llvms.map(|entry| entry.path().join("lib")));
    }
    folders.sort();
    folders.reverse();
    folders.extend(["/usr/lib64", "/usr/lib", "/usr/lib/x86_64-linux-gnu"].map(PathBuf::from));
    folders.push("/usr/lib/aarch64-linux-gnu".into());
    folders.push("/Library/Developer/CommandLineTools/usr/lib".into());
    folders.into_iter().find(|folder| holds_libclang(folder))
}

fn holds_libclang(folder: &Path) -> bool {
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("libclang.so")
            || name.starts_with("libclang-") && name.contains(".so")
            || name == "libclang.dylib"
    })
}

/// Returns `page` with `tables` between its two marks.
fn insert(page: &str, tables: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", tables.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_take_the_place_of_those_before() {
        let page = format!("# Peers\n\n{BEGIN}\nold\n{END}\n\n## How\n");
        let page = insert(&page, "| new |\n").unwrap();
        assert_eq!(page, format!("# Peers\n\n{BEGIN}\n\n| new |\n\n{END}\n\n## How\n"));
        assert_eq!(insert(&page, "| new |"), Some(page.clone()));
        assert_eq!(insert("no marks", "x"), None);
    }

    #[test]
    fn details_of_all_groups_are_one_table() {
        let details = "### Mixes\n\n| cell | engine | p99.9, ms |\n|---|---|---|\n| a | x | 1 |\n\
                       |  | y | 2 |\n\n### Gets\n\n| cell | engine | RSS |\n|---|---|---|\n\
                       | b | x |  |\n\n";
        let expected = "cell,engine,\"p99.9, ms\",RSS\na,x,1,\na,y,2,\nb,x,,\n";
        assert_eq!(csv(details), expected);
    }

    #[test]
    fn the_readme_keeps_its_table_when_no_headline_cell_was_measured() {
        assert_eq!(pages("a", "b"), [(PAGE, "b"), (README, "a")]);
        assert_eq!(pages("\n", "b"), [(PAGE, "b")]);
    }

    #[test]
    fn linting_needs_no_rocksdb_and_goes_with_no_other_option() {
        assert!(LINT.contains(&"--no-default-features"));
        assert!(!lint(Path::new("nowhere"), &["--lint", "--quick"]));
    }

    #[test]
    fn a_run_of_a_few_cells_or_of_other_sizes_is_written_only_when_asked() {
        assert!(is_written(&[]) && is_written(&["--rounds", "5"]));
        for words in [
            &["--quick"][..],
            &["--cells", "fill"],
            &["--engines", "redb"],
            &["--without-rocksdb"],
            &["--seconds", "2"],
            &["--memory", "64MiB"],
            &["--partitions", "1"],
            &["--scale", "quick"],
        ] {
            assert!(!is_written(words), "{words:?}");
            assert!(is_written(&[words, &["--write"]].concat()), "{words:?}");
        }
    }
}
