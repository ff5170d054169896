//! The description of the requests, and the requests.

use super::Serving;
use flagstone::{Document, Value};
use flagstone_server::net::ServeOptions;

/// Returns the paths of the description, and the methods of each in capitals.
fn described(document: &Document) -> Vec<(String, Vec<String>)> {
    let Some(Value::Map(paths)) = document.get("paths").map(|paths| paths.to_value().unwrap())
    else {
        panic!("paths: {document}")
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of = |path: &Value| match path {
        Value::Map(map) => {
            let names = map.iter().map(|(name, _)| text(name)).filter(|name| name != "parameters");
            names.map(|name| name.to_uppercase()).collect()
        }
        other => panic!("{other}"),
    };
    paths.iter().map(|(path, about)| (text(path), of(about))).collect()
}

/// Each path that is described is answered, with the methods that are described and no others.
#[test]
fn what_is_described_is_answered() {
    let serving = Serving::new(ServeOptions::default());
    let reply = serving.ask("GET /v1/openapi.json", "", "");
    assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/json")));
    let paths = described(&reply.document());
    assert!(paths.len() >= 9, "{paths:?}");
    for (path, methods) in &paths {
        let place = path.replace("{db}", "a").replace("{collection}", "b").replace("{key}", "c");
        let place = place.replace("{file}", "app.js");
        let options = serving.ask(&format!("OPTIONS {place}"), "", "");
        let mut allowed: Vec<_> = options.field("allow").unwrap().split(", ").collect();
        allowed.retain(|method| !["HEAD", "OPTIONS"].contains(method));
        assert_eq!(&allowed, methods, "{path}");
        for method in methods {
            let head = format!("{method} {place}");
            let reply = match path.as_str() {
                // It has no end.
                "/v1/changes" => continue,
                _ => serving.ask(&head, "", "{}"),
            };
            let is_known = !reply.body.contains("expected one of the");
            assert!(is_known && reply.status < 500, "{head} {reply:?}");
        }
        let refused = serving.ask(&format!("BREW {place}"), "", "");
        assert_eq!(refused.status, 405, "{path}");
        assert_eq!(refused.field("allow"), options.field("allow"));
    }
    // What the error names, is described.
    let named = serving.ask("GET /nothing", "", "").document();
    let named = named.str("errmsg").unwrap().split_once("paths ").unwrap().1.to_owned();
    let described: Vec<_> = paths.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(named.split(", ").collect::<Vec<_>>(), described);
}

/// Each reference leads somewhere, and the commands are those of `listCommands`.
#[test]
fn the_description_is_whole() {
    let serving = Serving::new(ServeOptions::default());
    let reply = serving.ask("GET /v1/openapi.json", "", "");
    for part in reply.body.split("\"$ref\":\"#/").skip(1) {
        let path = part.split('"').next().unwrap().replace('/', ".");
        assert!(reply.document().get(&path).is_some(), "{path}");
    }
    let body = r#"{"db":"admin","command":{"listCommands":1}}"#;
    let listed = serving.ask("POST /v1/command", "", body).document();
    let Some(Value::Map(commands)) = listed.get("commands").map(|all| all.to_value().unwrap())
    else {
        panic!("{listed}")
    };
    let described = reply.document();
    let all = described.get("components.schemas.Command.anyOf").unwrap();
    let named: Vec<_> = all
        .items()
        .unwrap()
        .map(|one| one.unwrap().path("required.0").unwrap().unwrap().to_string())
        .collect();
    let listed: Vec<_> = commands.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(named, listed);
}
