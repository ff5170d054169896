//! HTTP over a cluster, by two servers side by side. Its store is in memory.

use super::Serving;
use crate::commands::cluster::served;
use flagstone_cluster::mem::{Faults, Mem};
use flagstone_server::net::ServeOptions;
use std::sync::Arc;

fn two() -> (Arc<Mem>, Serving, Serving) {
    let mem = Arc::new(Mem::new());
    let serving = || {
        let dir = tempfile::tempdir().unwrap();
        let serving = Serving::serve(dir, served(&mem), ServeOptions::default());
        serving.server.ready(Arc::clone(&serving.service));
        serving
    };
    let (one, other) = (serving(), serving());
    (mem, one, other)
}

const MERGE: &str = "Content-Type: application/merge-patch+json\r\n";

#[test]
fn documents_have_versions_that_all_servers_know() {
    let (_mem, one, other) = two();
    assert_eq!(one.ask("GET /v1/shop/c/1", "", "").status, 404);
    assert_eq!(one.ask("PUT /v1/shop/c/1", "If-Match: *\r\n", r#"{"n":1}"#).status, 412);
    let made = one.ask("PUT /v1/shop/c/1", "If-None-Match: *\r\n", r#"{"n":1}"#);
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(other.ask("PUT /v1/shop/c/1", "If-None-Match: *\r\n", "{}").status, 412);
    let found = other.ask("GET /v1/shop/c/1", "", "");
    assert_eq!((found.status, found.body.as_str()), (200, "{\"_id\":1,\"n\":1}\n"));
    assert_eq!(found.etag(), made.etag());
    let known = format!("If-None-Match: {}\r\n", made.etag());
    assert_eq!(other.ask("GET /v1/shop/c/1", &known, "").status, 304);
    // The version that both have read is changed by one of them.
    let read = format!("{MERGE}If-Match: {}\r\n", made.etag());
    let changed = other.ask("PATCH /v1/shop/c/1", &read, r#"{"m":2}"#);
    assert_eq!(changed.status, 204, "{changed:?}");
    assert_eq!(one.ask("PATCH /v1/shop/c/1", &read, r#"{"m":3}"#).status, 412);
    let found = one.ask("GET /v1/shop/c/1", "", "");
    assert_eq!(found.body, "{\"_id\":1,\"n\":1,\"m\":2}\n");
    assert_eq!(found.etag(), changed.etag());
    assert_ne!(changed.etag(), made.etag());
    assert_eq!(one.ask("DELETE /v1/shop/c/1", &read.replace(MERGE, ""), "").status, 412);
    assert_eq!(one.ask("DELETE /v1/shop/c/1", "", "").status, 204);
    assert_eq!(other.ask("DELETE /v1/shop/c/1", "", "").status, 404);
    assert_eq!(other.ask("PATCH /v1/shop/c/1", MERGE, "{}").status, 404);
}

#[test]
fn patches_by_two_servers_lose_nothing() {
    const PATCHES: usize = 25;
    let (mem, one, other) = two();
    assert_eq!(one.ask("PUT /v1/shop/c/1", "", "{}").status, 201);
    mem.set_faults(Faults { refused: 30, unanswered: 30, pauses: 200, ..Faults::default() });
    let work = |serving: &Serving, name: &str| {
        for n in 0..PATCHES {
            let patch = format!(r#"{{"{name}{n}":1}}"#);
            assert_eq!(serving.ask("PATCH /v1/shop/c/1", MERGE, &patch).status, 204);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(&one, "a"));
        work(&other, "b");
    });
    mem.set_faults(Faults::default());
    let found = one.ask("GET /v1/shop/c/1", "", "").document();
    for name in (0..PATCHES).flat_map(|n| [format!("a{n}"), format!("b{n}")]) {
        assert_eq!(found.int(&name), Some(1), "{name}: {found}");
    }
}

#[test]
fn documents_are_loaded_by_one_server_and_exported_by_another() {
    const COUNT: usize = 2_000;
    let (_mem, one, other) = two();
    let body: String = (0..COUNT).map(|n| format!("{{\"id\":{n},\"n\":{n}}}\n")).collect();
    let kind = "Content-Type: application/x-ndjson\r\n";
    let loaded = one.ask("POST /v1/shop/c/load?progress=none", kind, &body);
    assert_eq!(loaded.status, 200, "{loaded:?}");
    assert!(loaded.body.contains(&format!("\"loaded\":{COUNT}")), "{}", loaded.body);
    let patches = "{\"id\":1,\"m\":1}\n{\"id\":9000,\"m\":1}\n";
    let merged = other.ask("POST /v1/shop/c/load?mode=merge&progress=none", kind, patches);
    assert!(merged.status == 200 && merged.body.contains("\"loaded\":2,"), "{merged:?}");
    let exported = other.ask("GET /v1/shop/c/export", "", "");
    assert_eq!(exported.body.lines().filter(|line| line.contains("\"_id\"")).count(), COUNT + 1);
    assert_eq!(one.ask("GET /v1/shop/c/1", "", "").document().int("m"), Some(1));
    // Asked for before anything is sent.
    let refused = one.ask("POST /v1/shop/d/load?mode=insert", kind, &body);
    assert!(refused.status == 400 && refused.body.contains("mode upsert"), "{refused:?}");
    assert!(!other.ask("GET /v1/shop/d/1", "", "").body.contains("\"_id\""));
}

#[test]
fn what_a_cluster_does_not_tell_is_refused_and_its_state_is_told() {
    let (mem, one, _other) = two();
    for path in ["/", "/healthz", "/readyz", "/metrics", "/v1/openapi.json"] {
        assert_eq!(one.ask(&format!("GET {path}"), "", "").status, 200, "{path}");
    }
    let refused = one.ask("GET /v1/changes", "", "");
    assert!(refused.status == 400 && refused.body.contains("on a cluster use"), "{refused:?}");
    assert_eq!(one.ask("PUT /v1/shop/c/1", "", "{}").status, 201);
    mem.set_faults(Faults { late: 1000, ..Faults::default() });
    let unknown = one.ask("PUT /v1/shop/c/1", "", r#"{"n":1}"#);
    assert!(unknown.status == 504 && unknown.body.contains("may still happen"), "{unknown:?}");
    mem.set_faults(Faults { unavailable: 1000, ..Faults::default() });
    let command = r#"{"db":"shop","command":{"find":"c"}}"#;
    assert_eq!(one.ask("GET /v1/shop/c/1", "", "").status, 503);
    let kind = "Content-Type: application/json\r\n";
    assert_eq!(one.ask("POST /v1/command", kind, command).status, 503);
    // The answer of a moment before counts for a second.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(one.ask("GET /readyz", "", "").status, 503);
    assert_eq!(one.ask("GET /healthz", "", "").status, 200);
    mem.set_faults(Faults::default());
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(one.ask("GET /readyz", "", "").status, 200);
}

#[test]
fn a_document_of_a_new_collection_is_found_by_who_knew_the_old_one() {
    let (_mem, one, other) = two();
    let drop_it = || {
        let command = r#"{"db":"shop","command":{"drop":"c"}}"#;
        let dropped = one.ask("POST /v1/command", "Content-Type: application/json\r\n", command);
        assert_eq!(dropped.status, 200, "{dropped:?}");
        assert_eq!(one.ask("PUT /v1/shop/c/1", "", r#"{"n":2}"#).status, 201);
    };
    let line = "Content-Type: application/x-ndjson\r\n";
    assert_eq!(one.ask("PUT /v1/shop/c/1", "", r#"{"n":1}"#).status, 201);
    for (request, fields, body, status) in [
        ("GET /v1/shop/c/1", "", "", 200),
        ("PATCH /v1/shop/c/1", MERGE, r#"{"m":1}"#, 204),
        ("PUT /v1/shop/c/2", "", "{}", 201),
        ("DELETE /v1/shop/c/1", "", "", 204),
        ("GET /v1/shop/c/export", "", "", 200),
        ("POST /v1/shop/c/load?progress=none", line, "{\"id\":3}\n", 200),
    ] {
        assert_ne!(other.ask("GET /v1/shop/c/1", "", "").status, 400);
        drop_it();
        let answer = other.ask(request, fields, body);
        assert_eq!(answer.status, status, "{request}: {answer:?}");
        assert!(!answer.body.contains("dropped"), "{request}: {answer:?}");
    }
    assert_eq!(one.ask("GET /v1/shop/c/3", "", "").status, 200);
}
