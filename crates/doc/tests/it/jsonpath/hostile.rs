//! Mutated queries and mutated documents: errors or nodes, never a panic.

use crate::hostile::{Random, samples};
use flagstone_doc::{JsonPath, Names, Pointer, View};

const QUERIES: [&str; 16] = [
    "$.tags[2].c",
    "$.pairs.two[1]",
    "$['odd', \"b\\u00e9\\n\"][-1]",
    "$.*",
    "$..*",
    "$..[0, -1, 'c']",
    "$.ints[1:9007199254740991:2]",
    "$.ints[::-1]",
    "$..[?@ == $.id || @.c > 1e2 && !(@ < 'x')]",
    "$[?@ == $.tags || @ >= 1.10]",
    "$[?length(@) == 3 && count(@..*) > 1]",
    "$[?match(@, 'ev[a-z0-9]{2,}|\\\\p{Lu}+') || search(@, $.id)]",
    "$[?value(@[2].c) != null]",
    "$..*..[?@..[?@.*]]",
    "$[?@[?@ != 1000]][1:]",
    "$.long[0]..x",
];

#[test]
fn mutated_queries_do_no_harm() {
    let mut random = Random::new("mutated_queries_do_no_harm");
    let names = Names::new();
    let samples = samples(&names);
    let roots: Vec<View<'_>> =
        samples.iter().map(|bytes| View::of(bytes, Some(&names)).unwrap()).collect();
    let (mut valid, mut invalid) = (0, 0);
    for round in 0..20_000 {
        let mut bytes = QUERIES[round % QUERIES.len()].as_bytes().to_vec();
        if round >= QUERIES.len() {
            random.mutate(&mut bytes);
        }
        let Ok(text) = String::from_utf8(bytes) else { continue };
        match JsonPath::parse(&text) {
            Ok(path) => {
                valid += 1;
                for root in &roots {
                    for node in path.nodes(root).take(100) {
                        let location = node.unwrap().location().unwrap();
                        let again = JsonPath::parse(&location.to_string()).unwrap();
                        assert!(again.first(root).unwrap().is_some(), "{text}: {location}");
                    }
                }
            }
            Err(error) => {
                invalid += 1;
                assert!(error.position <= text.chars().count() + 1, "{text:?}: {error}");
            }
        }
    }
    assert!(valid > 1000 && invalid > 1000, "{valid} valid, {invalid} invalid");
}

#[test]
fn queries_of_mutated_documents_do_no_harm() {
    let mut random = Random::new("queries_of_mutated_documents_do_no_harm");
    let names = Names::new();
    let samples = samples(&names);
    let paths = QUERIES.map(|query| JsonPath::parse(query).unwrap());
    let pointers = ["", "/tags/2/c", "/ints/-", "/pairs/two/1"].map(|p| Pointer::parse(p).unwrap());
    for round in 0..20_000 {
        let mut bytes = samples[round % samples.len()].clone();
        random.mutate(&mut bytes);
        let is_valid = flagstone_doc::validate(&bytes, Some(&names)).is_ok();
        let Ok(root) = View::of(&bytes, Some(&names)) else { continue };
        let path = &paths[random.below(paths.len())];
        let _first = path.first(&root);
        for node in path.nodes(&root).take(200) {
            assert!(node.is_ok() || !is_valid, "{path} of a valid document: {bytes:?}");
            let Ok(node) = node else { break };
            let location = node.location();
            assert!(location.is_ok() || !is_valid, "{path} of a valid document: {bytes:?}");
            let _read = (node.view().to_value(), location.map(|location| location.to_string()));
        }
        for pointer in &pointers {
            let found = pointer.get(&root);
            assert!(found.is_ok() || !is_valid, "{pointer} of a valid document: {bytes:?}");
        }
    }
}
