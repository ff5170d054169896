//! The page: what its files are served with, and that they need nothing else.

use super::{ADA, Reply, Serving};
use flagstone_server::net::ServeOptions;
use std::collections::BTreeSet;
use std::path::Path;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/page/files");

/// Returns the texts of `text` between `start` and the next `end`.
fn between<'t>(text: &'t str, start: &str, end: char) -> Vec<&'t str> {
    text.split(start).skip(1).filter_map(|rest| rest.split(end).next()).collect()
}

/// Returns the paths that a file refers to.
fn references(path: &str, text: &str) -> Vec<String> {
    let script = |name: &str| name.strip_prefix("./").map(|name| format!("/page/{name}"));
    let mut found: Vec<String> =
        between(text, "from \"", '"').into_iter().filter_map(script).collect();
    if path == "/" {
        for start in ["src=\"", "href=\""] {
            found.extend(between(text, start, '"').iter().map(|path| format!("/{path}")));
        }
    }
    found.extend(between(text, "\"page/", '"').iter().map(|name| format!("/page/{name}")));
    found
}

fn fetch(serving: &Serving, path: &str) -> Reply {
    let reply = serving.ask(&format!("GET {path}"), "", "");
    assert_eq!(reply.status, 200, "{path}");
    reply
}

#[test]
fn the_files_refer_to_each_other_and_to_nothing_else() {
    let serving = Serving::new(ServeOptions::default());
    let (mut known, mut next) = (BTreeSet::from(["/".to_owned()]), vec!["/".to_owned()]);
    while let Some(path) = next.pop() {
        let reply = fetch(&serving, &path);
        let kind = match path.rsplit('.').next().unwrap() {
            "/" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "text/plain; charset=utf-8",
        };
        assert_eq!(reply.field("content-type"), Some(kind), "{path}");
        let is_ours = !path.contains("uplot");
        for text in ["http://", "https://"] {
            let foreign = reply.body.replace("http://www.w3.org/2000/svg", "");
            assert!(!is_ours || !foreign.contains(text), "{path} has {text}");
        }
        // Text never becomes markup or a script. The policy would stop it, too.
        for word in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=\""]
        {
            assert!(!reply.body.contains(word), "{path} has {word}");
        }
        for path in references(&path, &reply.body) {
            if known.insert(path.clone()) {
                next.push(path);
            }
        }
    }
    // Each file of the folder is one of them.
    let mut files = 0;
    let mut folders = vec![Path::new(FOLDER).to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files += 1;
            }
        }
    }
    assert_eq!(known.len(), files, "{known:?}");
}

#[test]
fn a_file_is_sent_once_and_runs_only_what_is_beside_it() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    for path in ["/", "/?x=1", "/page/app.js"] {
        let reply = connection.ask(&format!("GET {path}"), "", "");
        let policy = reply.field("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.split("; ").any(|other| other == part), "{policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(reply.field("cache-control"), Some("no-cache"));
        assert_eq!(reply.field("x-content-type-options"), Some("nosniff"));
        let known = format!("If-None-Match: \"x\", {}\r\n", reply.etag());
        let again = connection.ask(&format!("GET {path}"), &known, "");
        assert_eq!((again.status, again.body.as_str()), (304, ""));
        assert_eq!(again.etag(), reply.etag());
        let head = connection.ask(&format!("HEAD {path}"), "", "");
        assert_eq!(head.field("content-length"), Some(reply.body.len().to_string().as_str()));
    }
    // What has data is kept by nobody.
    let health = connection.ask("GET /healthz", "", "");
    assert_eq!(health.field("cache-control"), Some("no-store"));
    for (start, status) in [
        ("POST /", 405),
        ("GET /page/none.js", 404),
        ("GET /page/", 404),
        ("GET /page/../app.js", 404),
        ("GET /page/uplot/LICENSE", 404),
    ] {
        assert_eq!(connection.ask(start, "", "").status, status, "{start}");
    }
}

#[test]
fn the_page_needs_no_login_and_its_data_does() {
    let serving = Serving::with_users();
    assert_eq!(serving.ask("GET /", "", "").status, 200);
    assert_eq!(serving.ask("GET /page/app.js", "", "").status, 200);
    let status = r#"{"db":"admin","command":{"serverStatus":1}}"#;
    let mut connection = serving.connect();
    assert_eq!(connection.ask("POST /v1/command", ADA, status).status, 200);
    // Who has logged in for the data need not say so for the page, and is nobody afterwards.
    assert_eq!(connection.ask("GET /", "", "").status, 200);
    assert_eq!(connection.ask("POST /v1/command", "", status).status, 401);
}
