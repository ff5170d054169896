//! The table of routes, and the choice among them.

use super::asked::{Request, RoutedRequest};
use super::body::Takes;
use super::head::Head;
use super::response::{JSON, NDJSON, Response, TEXT};
use super::route::Route;
use super::target::RequestTarget;
use super::{changes, command, documents, export, load, metrics, openapi, page};
use crate::access::{Need, USERS};
use crate::command::{About, Client, Service};
use crate::failure::Outcome;

/// All routes. Of several that fit a path, the first one counts.
pub(super) static ROUTES: &[Route] = &[
    Route::new("GET", "/", Need::Nothing, page::respond, "Returns the page.")
        .parameters(page::PARAMETERS)
        .returns(&[200, 304], page::HTML),
    Route::new("GET", "/page/{file}", Need::Nothing, page::respond, "Returns a file of the page.")
        .parameters(page::PARAMETERS)
        .returns(&[200, 304], "*/*"),
    Route::new("GET", "/healthz", Need::Nothing, healthz, "Says that the process answers.")
        .returns(&[200], TEXT),
    Route::new("GET", "/readyz", Need::Nothing, readyz, "Says that the database is open.")
        .returns(&[200], TEXT),
    Route::new(
        "GET",
        "/metrics",
        Need::ReadAll,
        metrics::respond,
        "Returns counters, as Prometheus reads them.",
    )
    .returns(&[200], metrics::KIND),
    Route::new(
        "GET",
        "/v1/openapi.json",
        Need::Login,
        openapi::respond,
        "Describes these requests.",
    ),
    Route::new("POST", command::PATH, Need::Login, command::respond, "Runs a command of drivers.")
        .takes(Takes::Whole, &[JSON]),
    Route::new(
        "GET",
        "/v1/changes",
        Need::Login,
        changes::respond,
        "Streams what is committed, as server-sent events.",
    )
    .parameters(changes::PARAMETERS)
    .returns(&[200], changes::EVENTS),
    Route::new("POST", load::PATH, Need::Write, load::respond, "Loads documents, while they come.")
        .parameters(load::PARAMETERS)
        .takes(Takes::Stream, load::BODIES)
        .returns(&[200], NDJSON),
    Route::new("GET", EXPORT, Need::Read, export::respond, "Returns documents, one on each line.")
        .parameters(export::PARAMETERS)
        .returns(&[200], NDJSON),
    Route::new(
        "GET",
        documents::PATH,
        Need::Read,
        documents::get,
        "Returns a document, with its version as ETag.",
    )
    .returns(&[200, 304], JSON),
    Route::new(
        "PUT",
        documents::PATH,
        Need::Write,
        documents::put,
        "Stores a document, whether there is one or not.",
    )
    .takes(Takes::Whole, &[JSON])
    .returns(&[201, 204], JSON),
    Route::new(
        "PATCH",
        documents::PATH,
        Need::Write,
        documents::patch,
        "Changes a document by a patch.",
    )
    .takes(Takes::Whole, documents::PATCHES)
    .returns(&[204], JSON),
    Route::new("DELETE", documents::PATH, Need::Write, documents::delete, "Removes a document.")
        .returns(&[204], JSON),
];

const EXPORT: &str = "/v1/{db}/{collection}/export";

/// Returns the routes of the path that a request names.
fn of_path(target: &RequestTarget) -> impl Iterator<Item = &'static Route> {
    let first = ROUTES.iter().find(|route| route.fits(target));
    ROUTES.iter().filter(move |route| first.is_some_and(|first| first.path == route.path))
}

/// Returns the route of a request.
pub(super) fn find(head: &Head, target: &RequestTarget) -> Option<&'static Route> {
    let method = if head.method == "HEAD" { "GET" } else { head.method.as_str() };
    of_path(target).find(|route| route.method == method)
}

/// Answers a request that was admitted.
pub(crate) fn respond<'a>(
    service: &'a Service,
    client: &'a mut Client,
    request: &Request<'_>,
) -> Response<'a> {
    let head = request.head;
    if head.method == "OPTIONS" && head.target == "*" {
        return Response::new(204);
    }
    let target = match RequestTarget::parse(&head.target) {
        Ok(target) => target,
        Err(bad) => return Response::from(&bad),
    };
    let Some(route) = find(head, &target) else { return none(head, &target) };
    let asked = RoutedRequest { route, target: &target, request };
    let checked =
        route.check(service, client, &target).and_then(|()| route.check_parameters(&target));
    if let Err(refused) = checked {
        return refused.into();
    }
    if route.takes == Takes::Whole && !head.is_plain() {
        let text = "expected a body without a Content-Encoding";
        return Response::refused(415, text).with("Accept-Encoding", "identity");
    }
    let response = (route.answer)(service, client, &asked).unwrap_or_else(Response::from);
    let about = response.about.or_else(|| {
        let segment = |part| route.segment(part, &target).map(str::to_owned);
        let database = segment("{db}").unwrap_or_default();
        let command = format!("{} {}", route.method, route.path);
        let collection = segment("{collection}");
        Some(Box::new(About { command, database, collection }))
    });
    Response { about, ..response }
}

/// Answers a request of no route.
fn none(head: &Head, target: &RequestTarget) -> Response<'static> {
    let mut methods: Vec<_> = of_path(target).map(|route| route.method).collect();
    if methods.is_empty() {
        let mut paths: Vec<_> = ROUTES.iter().map(|route| route.path).collect();
        paths.dedup();
        return Response::refused(404, &format!("expected one of the paths {}", paths.join(", ")));
    }
    if methods.contains(&"GET") {
        methods.insert(0, "HEAD");
    }
    methods.push("OPTIONS");
    let allowed = methods.join(", ");
    if head.method == "OPTIONS" {
        return Response::new(204).with("Allow", allowed);
    }
    let text = format!("expected one of the methods {allowed}");
    Response::refused(405, &text).with("Allow", allowed)
}

fn healthz<'a>(_: &'a Service, _: &'a mut Client, _: &RoutedRequest<'_>) -> Outcome<Response<'a>> {
    Ok(Response::of(200, TEXT, "ok\n"))
}

fn readyz<'a>(
    service: &'a Service,
    _: &'a mut Client,
    _: &RoutedRequest<'_>,
) -> Outcome<Response<'a>> {
    service.check_open()?;
    if let Some(cluster) = service.home.cluster() {
        cluster.check(USERS)?;
    }
    Ok(Response::of(200, TEXT, "ready\n"))
}
