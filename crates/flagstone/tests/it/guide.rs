//! The tests that the guide names exist.

use std::collections::BTreeSet;
use std::path::Path;

fn tests_in(dir: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_in(&path, names);
        } else {
            let text = std::fs::read_to_string(&path).unwrap();
            let functions = text.lines().filter_map(|line| line.trim().strip_prefix("fn "));
            names.extend(functions.filter_map(|line| Some(line.split_once('(')?.0.to_owned())));
        }
    }
}

#[test]
fn every_test_that_the_guide_to_durability_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(root.join("../../docs/guide/durability.md")).unwrap();
    let mut tests = BTreeSet::new();
    tests_in(&root.join("tests/it"), &mut tests);
    let quoted = guide.split('`').skip(1).step_by(2);
    let named: Vec<&str> = quoted.filter(|word| word.matches('_').count() >= 3).collect();
    assert!(named.len() > 20, "{named:?}");
    for name in named {
        assert!(tests.contains(name), "{name}");
    }
}
