//! Are databases of every format that must open still read, and are they what this code would make?

use flagstone_testkit::fixtures::{EXPECTED, FORMAT, Fixture, Image, check, make};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

fn folders(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn load(dir: &Path) -> Fixture {
    let name = dir.file_name().unwrap().to_str().unwrap().to_owned();
    let expected = fs::read_to_string(dir.join(EXPECTED)).unwrap();
    Fixture { name, image: Image::load(dir).unwrap(), expected }
}

#[test]
fn every_fixture_is_read_verified_compacted_and_restored() {
    let mut checked = 0;
    for format in folders(&root()) {
        for dir in folders(&format) {
            check(&load(&dir)).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
            checked += 1;
        }
    }
    assert!(checked >= 4, "{checked} fixtures");
}

#[test]
fn the_fixtures_of_todays_format_hold_what_would_be_made_today() {
    for made in make().unwrap() {
        let kept = load(&root().join(FORMAT).join(&made.name));
        assert!(
            kept.expected == made.expected,
            "{} of {FORMAT} holds something else: run `cargo xtask fixtures`, and give it a folder \
             of its own if a version of the format has changed",
            made.name
        );
    }
}

#[test]
fn making_the_fixtures_twice_gives_the_same_bytes() {
    assert!(make().unwrap() == make().unwrap());
}

#[test]
fn the_folder_of_todays_format_is_named_after_the_versions_in_its_files() {
    let mut named = Vec::new();
    for (kind, ending) in
        [("manifest", "manifest"), ("log", "wal"), ("table", "sst"), ("backup", "backup")]
    {
        let mut versions: Vec<u32> = Vec::new();
        for made in make().unwrap() {
            for (_, bytes) in made.image.files().filter(|(name, _)| name.ends_with(ending)) {
                // A file of the log that was made ahead may be empty.
                if let Some(version) = bytes.get(8..12) {
                    versions.push(u32::from_le_bytes(version.try_into().unwrap()));
                }
            }
        }
        versions.sort_unstable();
        versions.dedup();
        assert_eq!(versions.len(), 1, "versions of {kind}: {versions:?}");
        named.push(format!("{kind}-{}", versions[0]));
    }
    assert_eq!(named.join("-"), FORMAT);
}
