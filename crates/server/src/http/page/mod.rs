//! The page at `/`: files that the program holds. It gets everything else from where other clients
//! get it.

use super::asked::RoutedRequest;
use super::response::{CACHE_CONTROL, Response, TEXT};
use super::route::{Form, Parameter};
use crate::command::{Client, Service};
use crate::failure::Outcome;
use sha2::{Digest, Sha256};

/// A file of the page.
struct File {
    /// Its path after `/page/`; empty for the page itself, at `/`.
    name: &'static str,
    kind: &'static str,
    content: &'static [u8],
}

pub(super) const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! files {
    ($($kind:ident $name:literal $path:literal;)*) => {
        /// All files.
        static FILES: &[File] = &[
            $(File {
                name: $name,
                kind: $kind,
                content: include_bytes!(concat!("files/", $path)),
            },)*
        ];
    };
}

files! {
    HTML "" "index.html";
    CSS "page.css" "page.css";
    SVG "icon.svg" "icon.svg";
    SCRIPT "app.js" "app.js";
    SCRIPT "api.js" "api.js";
    SCRIPT "charts.js" "charts.js";
    SCRIPT "collection.js" "collection.js";
    SCRIPT "document.js" "document.js";
    SCRIPT "dom.js" "dom.js";
    SCRIPT "drop.js" "drop.js";
    SCRIPT "explain.js" "explain.js";
    SCRIPT "find.js" "find.js";
    SCRIPT "indexes.js" "indexes.js";
    SCRIPT "jobs.js" "jobs.js";
    SCRIPT "json.js" "json.js";
    SCRIPT "load.js" "load.js";
    SCRIPT "overview.js" "overview.js";
    SCRIPT "pipeline.js" "pipeline.js";
    SCRIPT "query.js" "query.js";
    SCRIPT "rows.js" "rows.js";
    SCRIPT "sampler.js" "sampler.js";
    SCRIPT "sidebar.js" "sidebar.js";
    SCRIPT "state.js" "state.js";
    SCRIPT "uplot.js" "uplot/uPlot.iife.min.js";
    CSS "uplot.css" "uplot/uPlot.min.css";
    TEXT "uplot.LICENSE" "uplot/LICENSE";
}

/// What the page may do: run the scripts beside it and call this server. No text becomes markup,
/// and no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// The page reads its own.
pub(super) const PARAMETERS: &[Parameter] =
    &[Parameter::new("*", Form::Text, "What the page shows.")];

/// Returns a file, to everybody: the page has no data. It asks for a password, and gives it to what
/// has.
pub(super) fn respond<'a>(
    _: &'a Service,
    _: &'a mut Client,
    asked: &RoutedRequest<'_>,
) -> Outcome<Response<'a>> {
    let (name, head) = (asked.segment("{file}"), asked.request.head);
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return Ok(Response::refused(404, "the page has no such file"));
    };
    let sum: [u8; 32] = Sha256::digest(file.content).into();
    let digits = sum[..8].iter().map(|byte| format!("{byte:02x}"));
    let tag = format!("\"{}\"", digits.collect::<String>());
    let is_known = head
        .list("if-none-match")
        .any(|known| known.trim_start_matches("W/") == tag || known == "*");
    let response =
        if is_known { Response::new(304) } else { Response::of(200, file.kind, file.content) };
    Ok(response
        .with("ETag", tag)
        // A new version of the server has other files.
        .with(CACHE_CONTROL, "no-cache")
        .with("Content-Security-Policy", POLICY)
        .with("Cross-Origin-Resource-Policy", "same-origin")
        .with("Referrer-Policy", "no-referrer"))
}
