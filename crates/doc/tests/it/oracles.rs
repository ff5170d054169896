//! The JSON parser predicts names from earlier documents. These tests compare it with a fresh
//! parser and with the parsers of other crates: the results must not depend on earlier documents.

use super::hostile::Random;
use super::real::{FILES, lines_of, same};
use flagstone_doc::{Duplicates, JsonOptions, JsonParser, Names, json, validate};

/// Fields of a comment, some nested, some with names that need escapes.
const FIELDS: [(&str, &[&str]); 16] = [
    ("all_awardings", &["[]", r#"[{"id":"a","count":1},{"id":"b","count":20}]"#]),
    ("author", &[r#""x""#, r#""someone with a long name indeed""#, r#""\u00e9\n""#]),
    ("author_created_utc", &["1535260289", "null", "1535260289.5"]),
    ("author_flair_background_color", &[r#""""#, "null", r##""#ff4500""##]),
    (
        "body",
        &[r#""sixteen bytes ok""#, r#""a \"quoted\" word and then some more text""#, r#""😀""#],
    ),
    ("can_gild", &["true", "false"]),
    ("created_utc", &["1564617600", "-1", "0", "1e5"]),
    ("edited", &["false", "1564617600"]),
    ("gildings", &["{}", r#"{"gid_1":0,"gid_2":1}"#, r#"{"gid_2":1,"gid_1":3}"#]),
    ("id", &[r#""ewbzg5c""#, r#""ewbzg5d""#]),
    ("i", &["1", "12345678901234567890"]),
    ("media", &[r#"{"id":{"id":{"id":1}},"all":[{"p":[{"u":1}]}]}"#, "null"]),
    ("score", &["1", "27", "28", "-5", "1.10", "123456"]),
    ("we\\\"ird", &["null"]),
    ("we\\u0062", &["1"]),
    ("", &["1"]),
];

/// Writes a random document with some of the fields, usually in their order and without spaces.
fn drawn(random: &mut Random) -> Vec<u8> {
    let mut fields: Vec<_> = FIELDS.iter().collect();
    match random.below(8) {
        0 => fields.swap(1, 9),
        1 => fields.retain(|_| random.below(3) > 0),
        2 => fields.extend(&FIELDS[3..5]),
        3 => fields.rotate_left(random.below(FIELDS.len())),
        _ => {}
    }
    let spaced = random.below(4) == 0;
    let mut space = || if spaced { [" ", "", "\n\t", "  "][random.below(4)] } else { "" };
    let mut out = format!("{}{{{}", space(), space());
    for (at, (name, values)) in fields.iter().enumerate() {
        let value = values[(at + out.len()) % values.len()];
        let comma = if at > 0 { "," } else { "" };
        let parts = [space(), comma, space(), "\"", name, "\"", space(), ":", space(), value];
        out.push_str(&parts.concat());
    }
    out.push_str(&format!("{}}}{}", space(), space()));
    out.into_bytes()
}

/// Returns the bytes of the document that a parser makes of `json`, or its error.
fn parsed(parser: &mut JsonParser, json: &[u8], names: &Names) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    parser.parse(json, Some(names), &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Compares a parser that has read other documents with a fresh one and with those of other crates.
fn compare(parser: &mut JsonParser, json: &[u8], names: &Names) {
    let ours = parsed(parser, json, names);
    let shown = String::from_utf8_lossy(json);
    assert_eq!(ours, parsed(&mut JsonParser::default(), json, names), "{shown}");
    let serde = serde_json::from_slice::<serde_json::Value>(json);
    let sonic = sonic_rs::from_slice::<sonic_rs::Value>(json);
    let Ok(bytes) = ours else {
        assert!(serde.is_err(), "serde_json takes {shown}");
        assert!(sonic.is_err(), "sonic-rs takes {shown}");
        return;
    };
    let view = validate(&bytes, Some(names)).unwrap();
    match serde {
        Ok(value) => assert!(same(&view.to_value().unwrap(), &value), "{shown}: {view}, {value}"),
        // We keep such numbers exactly; `serde_json` refuses them.
        Err(error) => {
            assert!(error.to_string().contains("number out of range"), "{error}: {shown}")
        }
    }
    if let Ok(value) = sonic {
        let text = sonic_rs::to_string(&value).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(same(&view.to_value().unwrap(), &value), "{shown}");
    }
}

#[test]
fn earlier_documents_change_no_result() {
    let mut random = Random::new("earlier_documents_change_no_result");
    for _ in 0..20 {
        let (names, mut parser) = (Names::new(), JsonParser::default());
        // Fill the table, so that some maps have short ids, others long ids or names inside.
        for n in 0..random.below(300) {
            names.intern(&format!("crowd {n}"));
        }
        for _ in 0..200 {
            let mut json = drawn(&mut random);
            compare(&mut parser, &json, &names);
            for _ in 0..3 {
                random.mutate(&mut json);
                compare(&mut parser, &json, &names);
            }
        }
    }
}

#[test]
fn a_predicted_name_that_comes_twice_is_refused_at_its_position() {
    let options = JsonOptions::new().duplicates(Duplicates::Error);
    let (names, mut parser) = (Names::new(), JsonParser::new(options));
    let mut parse = |json: &str| parsed(&mut parser, json.as_bytes(), &names);
    for _ in 0..3 {
        assert!(parse(r#"{"a":1,"b":{"a":1},"c":[{"a":1,"b":2},{"a":1,"b":2}]}"#).is_ok());
        let refusal = parse(r#"{"a":1,"b":{"a":1},"c":[{"a":1,"b":2,"a":1}]}"#).unwrap_err();
        assert!(refusal.contains("39"), "{refusal}");
    }
}

#[test]
fn real_documents_and_mutated_ones_are_read_as_others_read_them() {
    let test = "real_documents_and_mutated_ones_are_read_as_others_read_them";
    let mut random = Random::new(test);
    for (file, _) in FILES {
        let Some(lines) = lines_of(file) else { continue };
        let (names, mut parser) = (Names::new(), JsonParser::default());
        for line in lines.filter(|line| line.len() < 20_000).take(500) {
            let mut json = line.into_bytes();
            compare(&mut parser, &json, &names);
            random.mutate(&mut json);
            compare(&mut parser, &json, &names);
        }
    }
    assert!(json::parse("{}").is_ok());
}
