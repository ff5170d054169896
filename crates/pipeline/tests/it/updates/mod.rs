//! Updates: each operator by examples, refusals, upserts, and random updates of random documents.

mod operators;
mod random;
mod refused;
mod stored;
mod upserts;

use flagstone::Value;
use flagstone::doc::json;
use flagstone_pipeline::PipelineError;
use flagstone_pipeline::update::{Context, Update};

fn parse(text: &str) -> Value {
    json::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Reads an update with its array filters from JSON.
fn update(update: &str, filters: &str) -> Result<Update, PipelineError> {
    Update::parse(&parse(update), parse(filters).as_array().unwrap())
}

/// Returns what becomes of a document, as text. A refused update leaves it as it was.
fn applied(document: &str, change: &Update, context: &Context) -> Result<String, PipelineError> {
    let old = parse(document);
    let mut new = old.clone();
    match change.apply(&mut new, context) {
        Ok(is_changed) => {
            assert_eq!(is_changed, new.to_string() != old.to_string(), "{document}: {change:?}");
            Ok(new.to_string())
        }
        Err(error) => {
            assert_eq!(new.to_string(), old.to_string());
            Err(error)
        }
    }
}

/// A document, an update of it, and the result.
type Case = (&'static str, &'static str, &'static str);

/// Asserts the results of updates.
#[track_caller]
fn check(cases: &[Case]) {
    for (document, text, expected) in cases {
        let change = update(text, "[]").unwrap_or_else(|error| panic!("{text}: {error}"));
        let found = applied(document, &change, &Context::default());
        let found = found.unwrap_or_else(|error| panic!("{text} of {document}: {error}"));
        assert_eq!(found, *expected, "{text} of {document}");
    }
}
