//! The JSONPath compliance test suite, on stored documents in all modes of keys.

use super::documents;
use flagstone_doc::{JsonPath, Value, json};

#[test]
fn the_jsonpath_compliance_suite_passes() {
    let Some(dir) = crate::shared("FLAGSTONE_SUITES", "suites") else {
        println!("skipped: no shared/suites above here, and FLAGSTONE_SUITES is not set");
        return;
    };
    let suite = json::parse(std::fs::read(dir.join("jsonpath/cts.json")).unwrap()).unwrap();
    let (mut valid, mut invalid) = (0, 0);
    for case in suite.get("tests").and_then(Value::as_array).unwrap() {
        let text = |field| case.get(field).and_then(Value::as_str).unwrap();
        let (name, selector) = (text("name"), text("selector"));
        let parsed = JsonPath::parse(selector);
        if case.get("invalid_selector").is_some() {
            assert!(parsed.is_err(), "{name}: {selector} is invalid");
            invalid += 1;
            continue;
        }
        let path = parsed.unwrap_or_else(|error| panic!("{name}: {selector}: {error}"));
        let accepted: Vec<(&Value, &Value)> = match case.get("result") {
            Some(result) => vec![(result, case.get("result_paths").unwrap())],
            None => {
                let all = |field| case.get(field).and_then(Value::as_array).unwrap();
                all("results").iter().zip(all("results_paths")).collect()
            }
        };
        for document in documents(case.get("document").unwrap()) {
            let values: Value =
                document.query(&path).map(|node| node.view().to_value().unwrap()).collect();
            let places: Value =
                document.query(&path).map(|node| node.location().unwrap().to_string()).collect();
            assert!(
                accepted.contains(&(&values, &places)),
                "{name}: {selector} selects {values} at {places}, expected one of {accepted:?}"
            );
            for node in document.query(&path) {
                let location = node.location().unwrap();
                let again = super::path(&location.to_string());
                assert!(again.is_single(), "{location}");
                let same = document.query(&again).next().unwrap();
                assert_eq!(same.location().unwrap(), location);
                let same = document.pointer(&location.to_pointer()).unwrap();
                assert_eq!(same.to_value().unwrap(), node.view().to_value().unwrap());
            }
        }
        valid += 1;
    }
    println!("{valid} queries evaluated, {invalid} refused");
    assert!(valid >= 456 && invalid >= 247, "the suite is there: {valid}, {invalid}");
}
