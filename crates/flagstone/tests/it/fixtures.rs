//! Are databases of every format that must open still read, and are they what this code would make?

use flagstone_testkit::fixtures::{
    FORMAT, Fixture, Image, add, check, folders, load, make, newest,
};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

#[test]
fn every_fixture_is_read_verified_compacted_and_restored() {
    let mut checked = 0;
    for format in folders(&root()).unwrap() {
        for dir in folders(&format).unwrap() {
            check(&load(&dir).unwrap())
                .unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
            checked += 1;
        }
    }
    assert!(checked >= 5, "{checked} fixtures");
}

#[test]
fn the_fixtures_of_todays_format_hold_what_would_be_made_today() {
    for made in make().unwrap() {
        let kept = newest(&root().join(FORMAT), &made.name).unwrap();
        let kept = kept.map(|dir| load(&dir).unwrap().expected);
        assert!(
            kept.as_ref() == Some(&made.expected),
            "{} of {FORMAT} holds something else, or is missing: run `cargo xtask fixtures`",
            made.name
        );
    }
}

#[test]
fn a_fixture_that_is_there_is_never_written_again() {
    let root = tempfile::tempdir().unwrap();
    let format = root.path().join("format-1");
    assert_eq!(newest(&format, "bytes").unwrap(), None);
    let fixture = |name: &str, expected: &str| Fixture {
        name: name.to_owned(),
        image: Image::default(),
        expected: expected.to_owned(),
    };
    for n in 1..=11 {
        let dir = add(&format, &fixture("bytes", &n.to_string())).unwrap();
        assert_eq!(newest(&format, "bytes").unwrap(), Some(dir));
    }
    add(&format, &fixture("bytes and more", "x")).unwrap();
    let names = ["bytes", "bytes-2", "bytes-10", "bytes-11"];
    let kept = names.map(|name| load(&format.join(name)).unwrap());
    assert_eq!(kept, ["1", "2", "10", "11"].map(|expected| fixture("bytes", expected)));
    assert_eq!(folders(&format).unwrap().len(), 12);
    assert_eq!(folders(root.path()).unwrap(), [format]);
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
