//! Real documents: each line goes to the binary form and back, and must equal another parser's
//! result.

use flagstone_doc::{JsonParser, Names, Value, json, validate};
use std::io::{BufRead, BufReader};

/// Returns whether both values are equal, ignoring the order of keys, with the oracle's precision.
pub(crate) fn same(ours: &Value, theirs: &serde_json::Value) -> bool {
    match theirs {
        serde_json::Value::Null => ours.is_null(),
        serde_json::Value::Bool(value) => ours.as_bool() == Some(*value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => ours.as_i64() == Some(int),
            (_, Some(int)) => ours.as_u64() == Some(int),
            _ => near(ours.as_f64(), number.as_f64()),
        },
        serde_json::Value::String(text) => ours.as_str() == Some(text),
        serde_json::Value::Array(items) => ours.as_array().is_some_and(|ours| {
            ours.len() == items.len() && ours.iter().zip(items).all(|(a, b)| same(a, b))
        }),
        serde_json::Value::Object(fields) => ours.as_map().is_some_and(|map| {
            map.len() == fields.len()
                && map.iter().all(|(key, value)| {
                    fields.get(key.as_str().unwrap()).is_some_and(|theirs| same(value, theirs))
                })
        }),
    }
}

/// Returns whether two floats differ at most in the last bit, which fast parsers may get wrong.
fn near(a: Option<f64>, b: Option<f64>) -> bool {
    a.zip(b).is_some_and(|(a, b)| (a - b).abs() <= a.abs() * f64::EPSILON)
}

/// The test files, and the number of lines read from each.
pub(crate) const FILES: [(&str, usize); 7] = [
    ("reddit_comments_ira2018", usize::MAX),
    ("reddit_submissions_2013", 10_000),
    ("gharchive_2015", 5_000),
    ("tate_artworks", 4_000),
    ("wikipedia_movies", 20_000),
    ("mitre_attack_stix", 8_000),
    ("google_discovery", 24),
];

/// Returns the lines of a file. Prints a message and returns `None` if the file is absent.
pub(crate) fn lines_of(file: &str) -> Option<impl Iterator<Item = String> + use<>> {
    let Some(dir) = super::shared("FLAGSTONE_DATA", "data") else {
        println!("skipped: no shared/data above here, and FLAGSTONE_DATA is not set");
        return None;
    };
    let path = dir.join(format!("{file}.jsonl.zst"));
    let Ok(compressed) = std::fs::File::open(&path) else {
        println!("skipped: {} is absent", path.display());
        return None;
    };
    let lines = BufReader::new(zstd::Decoder::new(compressed).unwrap()).lines();
    Some(lines.map(Result::unwrap))
}

#[test]
fn real_documents_read_as_another_parser_reads_them() {
    for (file, lines_max) in FILES {
        let Some(lines) = lines_of(file) else { continue };
        let names = Names::new();
        let mut parser = JsonParser::default();
        let (mut binary, mut text) = (Vec::new(), Vec::new());
        let (mut count, mut share) = (0, (0, 0));
        for line in lines.take(lines_max) {
            binary.clear();
            parser.parse(line.as_bytes(), Some(&names), &mut binary).unwrap();
            let view = validate(&binary, Some(&names)).unwrap();
            let value = view.to_value().unwrap();
            let oracle: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert!(same(&value, &oracle), "{file} line {count}");
            text.clear();
            json::append_json(&view, &mut text).unwrap();
            let back: serde_json::Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(back, oracle, "{file} line {count}");
            count += 1;
            share = (share.0 + binary.len(), share.1 + line.len());
        }
        let percent = 100.0 * share.0 as f64 / share.1 as f64;
        println!("{file}: {count} documents, {} names, binary {percent:.1}% of JSON", names.len());
    }
}
