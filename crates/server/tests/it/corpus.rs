//! MongoDB's corpus of BSON: what is valid comes back byte for byte, what is not is refused.

use super::{read, shared, unhex, written};
use flagstone::Value;
use flagstone::doc::json;

fn text<'a>(case: &'a Value, name: &str) -> Option<&'a str> {
    case.get(name).and_then(Value::as_str)
}

#[test]
fn the_corpus_of_bson_passes() {
    let dir = shared("FLAGSTONE_SUITES", "suites").map(|dir| dir.join("bson-corpus"));
    let Some(dir) = dir.filter(|dir| dir.is_dir()) else {
        println!(
            "skipped: no bson-corpus in shared/suites above here or in FLAGSTONE_SUITES: the files \
             of source/bson-corpus/tests in github.com/mongodb/specifications"
        );
        return;
    };
    let (mut valid, mut refused) = (0, 0);
    for file in std::fs::read_dir(dir).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let suite = json::parse(std::fs::read(&path).unwrap()).unwrap();
        for case in suite.get("valid").and_then(Value::as_array).unwrap_or_default() {
            let canonical = unhex(text(case, "canonical_bson").unwrap());
            let own = match read(&canonical) {
                Ok(own) => own,
                // Dates of up to 64 bits of milliseconds; ours are of microseconds.
                Err(error) if error.expected.contains("2^63 microseconds") => continue,
                Err(error) => panic!("{name}: {case}: {error}"),
            };
            let back = written(&own).unwrap_or_else(|error| panic!("{name}: {case}: {error}"));
            // NaN and infinities are floats here, also those of decimals.
            let is_float = name.starts_with("decimal128")
                && ["NaN", "Infinity"].iter().any(|word| {
                    text(case, "canonical_extjson").is_some_and(|json| json.contains(word))
                });
            // A coefficient that is no digits counts as 0.
            let is_lossy = case.get("lossy").is_some();
            if !is_float && !is_lossy {
                assert_eq!(back, canonical, "{name}: {case}");
            }
            if let Some(degenerate) = text(case, "degenerate_bson") {
                let own = read(&unhex(degenerate)).unwrap();
                assert_eq!(written(&own).unwrap(), canonical, "{name}: {case}");
            }
            valid += 1;
        }
        for case in suite.get("decodeErrors").and_then(Value::as_array).unwrap_or_default() {
            let bson = unhex(text(case, "bson").unwrap());
            assert!(read(&bson).is_err(), "{name}: {case}");
            refused += 1;
        }
    }
    println!("{valid} cases come back, {refused} are refused");
    assert!(valid > 600 && refused > 50, "{valid} {refused}");
}
