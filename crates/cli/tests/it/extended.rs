//! Values that JSON lacks, through every command that prints or reads documents.
//!
//! A single NaN ended scans, finds, exports, the feed of changes, distinct values, groups and lists
//! of keys, and no message named its document. What was exported came back as text.

use crate::run::Place;

/// Keys of documents with values that JSON lacks, their Extended JSON, and their plain JSON.
const ODD: [(&str, &str, &str); 3] = [
    (
        "a",
        concat!(
            r#"{"id":"a","t":{"$date":"2026-12-31T23:59:59.123456Z"},"#,
            r#""u":{"$uuid":"30313233-3435-3637-3839-616263646566"},"#,
            r#""b":{"$binary":{"base64":"AAH/","subType":"00"}}}"#
        ),
        concat!(
            r#"{"id":"a","t":"2026-12-31T23:59:59.123456Z","#,
            r#""u":"30313233-3435-3637-3839-616263646566","b":"AAH/"}"#
        ),
    ),
    ("b", NOT_TEXT, NOT_TEXT),
    (
        "c",
        r#"{"id":"c","o":{"$oid":"56e1fc72e0c917e9c4714161"},"l":{"$literal":{"$date":1}}}"#,
        r#"{"id":"c","o":"56e1fc72e0c917e9c4714161","l":{"$date":1}}"#,
    ),
];

/// What has no text in plain JSON either.
const NOT_TEXT: &str = concat!(
    r#"{"id":"b","n":{"$numberDouble":"NaN"},"i":[{"$numberDouble":"-Infinity"}],"#,
    r#""far":{"$date":{"$numberLong":"253402300800000"}},"m":{"$pairs":[[1,"one"]]}}"#
);

fn lines(form: impl Fn(&(&str, &'static str, &'static str)) -> &'static str) -> String {
    ODD.iter().map(|odd| format!("{}\n", form(odd))).collect()
}

#[test]
fn what_json_lacks_stops_nothing_and_comes_back() {
    let place = Place::new();
    let (extended, plain) = (lines(|odd| odd.1), lines(|odd| odd.2));
    place.file("in.jsonl", &extended);
    place.ok("put db first a {}");
    place.ok("watch db --keep 1MiB");
    place.ok("load db c in.jsonl --extended-json");
    for (key, of_extended, of_plain) in ODD {
        assert_eq!(
            place.ok(&format!("get db c {key} --extended-json")),
            format!("{of_extended}\n")
        );
        assert_eq!(place.ok(&format!("get db c {key}")), format!("{of_plain}\n"));
    }
    for command in ["scan db c", "find db c --sort id", "export db c --sort id"] {
        assert_eq!(place.ok(command), plain, "{command}");
        assert_eq!(place.ok(&format!("{command} --extended-json")), extended, "{command}");
    }
    let with_keys = place.ok("find db c --sort id --keys --extended-json");
    assert!(with_keys.starts_with("{\"key\":\"a\",\"document\":{\"id\":\"a\",\"t\":{\"$date\":"));
    assert_eq!(place.ok("find db c --sort id --page 5 --extended-json"), extended);
    assert_eq!(
        place.ok("find db c {\"id\":\"a\"} --project t --extended-json"),
        "{\"t\":{\"$date\":\"2026-12-31T23:59:59.123456Z\"}}\n"
    );
    assert_eq!(place.ok("distinct db c n"), "{\"$numberDouble\":\"NaN\"}\n");
    let day = "{\"$date\":\"2026-12-31T23:59:59.123456Z\"}\n";
    let far = "{\"$date\":{\"$numberLong\":\"253402300800000\"}}\n";
    assert_eq!(place.ok("distinct db c t --extended-json"), day);
    assert_eq!(place.ok("distinct db c t"), "\"2026-12-31T23:59:59.123456Z\"\n");
    assert_eq!(place.ok("distinct db c far"), far);
    assert_eq!(
        place.ok("get db c b --path n --path far"),
        format!("{{\"$numberDouble\":\"NaN\"}}\n{far}")
    );
    let groups = place.ok("find db c --group 'n: count, sum(n), max(far)' --format json");
    assert!(groups.contains(r#"{"$numberDouble":"NaN"}"#), "{groups}");
    let found = place.ok(r#"find db c {"n":{"$numberDouble":"NaN"}} --format table"#);
    assert!(found.contains("NaN"), "{found}");
    let csv = place.ok("export db c {\"id\":\"b\"} --type csv --fields id,n,far");
    let nan = r#""{""$numberDouble"":""NaN""}""#;
    let past = r#""{""$date"":{""$numberLong"":""253402300800000""}}""#;
    assert_eq!(csv, format!("id,n,far\nb,{nan},{past}\n"));
    // They had the quotes of JSON, and more for those.
    let text = "2026-12-31T23:59:59.123456Z,30313233-3435-3637-3839-616263646566,AAH/\n";
    let csv = place.ok("export db c {\"id\":\"a\"} --type csv --fields t,u,b");
    assert_eq!(csv, format!("t,u,b\n{text}"));
    let csv = place.ok("find db c {\"id\":\"a\"} --project t,u,b --format csv");
    assert_eq!(csv, format!("t,u,b\n{text}"));
    let group = "find db c {\"id\":\"a\"} --group 't,u,b: count' --format csv";
    assert_eq!(place.ok(group), format!("t,u,b,count\n{}", text.replace('\n', ",1\n")));
    let changes = place.ok("watch db c --extended-json");
    assert!(
        ODD.iter().all(|odd| changes.contains(&format!("\"document\":{}", odd.1))),
        "{changes}"
    );
    assert_eq!(place.ok("watch db c").lines().count(), 3);

    // What is exported is loaded as it was; without the option it is what it is in JSON.
    place.ok("export db c -o out.jsonl --extended-json");
    place.ok("load db same out.jsonl --extended-json");
    assert_eq!(place.ok("scan db same --extended-json"), extended);
    place.ok("load db other out.jsonl");
    let of_other = place.ok("scan db other --extended-json");
    assert!(of_other.contains(r#"{"$literal":{"$date":"2026-"#), "{of_other}");
    assert_eq!(place.ok("scan db other"), extended);

    // Filters take the canonical forms.
    for filter in [
        r#"{"t":{"$gt":{"$date":{"$numberLong":"0"}}}}"#,
        r#"{"b":{"$binary":{"base64":"AAH/","subType":"00"}}}"#,
        r#"{"u":{"$binary":{"base64":"MDEyMzQ1Njc4OWFiY2RlZg==","subType":"04"}}}"#,
    ] {
        assert_eq!(place.ok(&format!("count db c {filter}")), "1\n", "{filter}");
    }
}

#[test]
fn keys_and_changes_are_extended_json_where_it_is_asked_for() {
    let place = Place::new();
    let nan = r#"{"$numberDouble":"NaN"}"#;
    let date = r#"{"$date":"2026-12-31T00:00:00Z"}"#;
    for key in [nan, date, "[1,{\"$uuid\":\"30313233-3435-3637-3839-616263646566\"}]"] {
        place.ok(&format!("put db c {key} {{\"k\":{key}}} --json-key --extended-json"));
        let document = place.ok(&format!("get db c {key} --json-key --extended-json"));
        assert_eq!(document, format!("{{\"k\":{key}}}\n"));
        place.fails(&format!("get db c {key} --json-key"), 1, "there is no document");
    }
    let keys = place.ok("keys db c --extended-json");
    assert_eq!(keys.lines().take(2).collect::<Vec<_>>(), [nan, date]);
    assert_eq!(place.ok("keys db c").lines().nth(1), Some("\"2026-12-31T00:00:00Z\""));
    let from = place.ok(&format!("scan db c --from {date} --json-key --extended-json --limit 1"));
    assert_eq!(from, format!("{{\"k\":{date}}}\n"));
    place.ok(&format!("update db c {date} seen={date} --inc n=1 --json-key --extended-json"));
    place.ok(&format!(
        "update db c {date} --merge-patch {{\"m\":{nan}}} --json-key --extended-json"
    ));
    place.ok(&format!(
        "update db c {date} --json-patch [{{\"op\":\"add\",\"path\":\"/p\",\"value\":{date}}}] \
         --json-key --extended-json"
    ));
    assert_eq!(
        place.ok(&format!("get db c {date} --json-key --extended-json")),
        format!("{{\"k\":{date},\"seen\":{date},\"n\":1,\"m\":{nan},\"p\":{date}}}\n")
    );
    place.ok(&format!("delete db c {date} --json-key --extended-json"));
    assert_eq!(place.ok("count db c"), "2\n");
}

#[test]
fn a_bad_form_is_refused_at_its_place() {
    let place = Place::new();
    place.fails(
        r#"put db c k {"t":{"$date":42}} --extended-json"#,
        2,
        "column 15 (byte 14): expected an RFC 3339",
    );
    place.file("in.jsonl", "{\"id\":1}\n{\"id\":2,\"t\":{\"$date\":\"2026-02-30T00:00:00Z\"}}\n");
    place.fails("load db c in.jsonl --extended-json", 2, "in.jsonl:2:22: ");
    let refused = place.run("load db c in.jsonl --extended-json --bad-lines bad");
    assert_eq!((refused.code, place.ok("count db c")), (0, "1\n".to_owned()), "{refused:?}");
    place.file("in.csv", "id\n1\n");
    place.fails("load db c in.csv --extended-json", 2, "--extended-json is for JSON");
    place.fails(
        "export db c -o o.csv --fields id --extended-json",
        2,
        "--extended-json is for JSON",
    );
    // Documents that are merged are read in the same way.
    place.file("more.jsonl", "{\"id\":1,\"t\":{\"$date\":{\"$numberLong\":\"0\"}}}\n");
    place.ok("load db c more.jsonl --mode merge --extended-json");
    let merged = place.ok("get db c 1 --json-key --extended-json");
    assert_eq!(merged, "{\"id\":1,\"t\":{\"$date\":\"1970-01-01T00:00:00Z\"}}\n");
}

/// Dates with nine digits of a second, or a leap second, never expired.
#[test]
fn every_time_of_the_standard_expires() {
    let place = Place::new();
    for (n, seen) in [
        "2001-01-01T00:00:00.123456789Z",
        "2001-01-01T00:00:00.1Z",
        "2001-01-01T02:00:00.000000001+02:00",
        "2016-12-31T23:59:60Z",
        "2001-01-01 00:00:00z",
        "2001-01-01t00:00:00-00:00",
    ]
    .iter()
    .enumerate()
    {
        place.ok(&format!("put db c k{n} '{{\"seen\":\"{seen}\"}}'"));
    }
    place.ok(r#"put db c stays {"seen":"2001-02-30T00:00:00Z"}"#);
    place.ok("index create db c ts seen --expire-after 1h");
    assert_eq!(place.ok("keys db c"), "stays\n");
    place.ok("put db c later {} --expires '2100-01-01 00:00:00.123456789+00:00'");
    assert_eq!(place.ok("put db d later {} --expires 2100-01-01t00:00:00.123456789z"), "");
    assert_eq!(place.ok("get db d later --expires"), "2100-01-01T00:00:00.123000Z\n");
    place.fails("put db d gone {} --expires 1969-12-31T23:59:59Z", 2, "this moment has passed");
}
