//! `flagstone`: what the command-line tool asks of a server that has the database open.
//!
//! Its operations are those of the library in the library's own terms: filters, sorts and pipelines
//! are texts as the tool takes them, keys and documents are in their binary forms. So a command of
//! the tool prints the same for a directory and for a server, and nothing is lost on the way.
//!
//! ```text
//! {flagstone: "find", collection: "orders", filter: '{"n":1}', sort: "-n", $db: "shop"}
//! {cursor: {firstBatch: [{k: bytes, d: bytes}, ..], id: .., ns: ..}, ok: 1}
//! k: a sort key    d, and keys in requests: a document in the self-contained binary form
//! ```
//! An error has the field `errorKind` if it is one of the database.

mod refused;

mod asked;

mod catalog;
mod feed;
mod read;
mod write;

use super::run::Run;
use crate::access::Need;
use crate::failure::{Code, Failure, Outcome};
use refused::Done;

/// What an operation does.
type ToolOperation = fn(&mut Run<'_, '_>) -> Done;

/// The operations, and what they need on the database of the collection.
static OPERATIONS: &[(&str, Need, ToolOperation)] = &[
    ("open", Need::Read, catalog::open),
    ("create", Need::Write, catalog::create),
    ("collections", Need::Login, catalog::collections),
    ("stats", Need::Login, catalog::stats),
    ("indexes", Need::Read, catalog::indexes),
    ("createIndex", Need::Write, catalog::create_index),
    ("dropIndex", Need::Write, catalog::drop_index),
    ("drop", Need::Write, catalog::drop_collection),
    ("rename", Need::Write, catalog::rename),
    ("find", Need::Read, read::find),
    ("page", Need::Read, read::page),
    ("count", Need::Read, read::count),
    ("explain", Need::Read, read::explain),
    ("group", Need::Read, read::group),
    ("distinct", Need::Read, read::distinct),
    ("scan", Need::Read, read::scan),
    ("aggregate", Need::Read, read::aggregate),
    ("get", Need::Read, read::get),
    ("put", Need::Write, write::put),
    ("patch", Need::Write, write::patch),
    ("delete", Need::Write, write::delete),
    ("writeMany", Need::Write, write::many),
    ("updateMany", Need::Write, write::many),
    ("load", Need::Write, write::load),
    ("loadMarks", Need::Write, write::marks),
    ("watch", Need::Login, feed::watch),
    ("backup", Need::Login, catalog::backup),
];

/// Returns the name of an operation, if there is one of this name.
pub(super) fn operation(name: &str) -> Option<&'static str> {
    OPERATIONS.iter().map(|(known, ..)| *known).find(|known| *known == name)
}

/// Returns whether an operation reads or writes documents, and neither builds nor waits.
pub(super) fn is_of_documents(name: &str) -> bool {
    const OTHERS: [&str; 6] = ["backup", "createIndex", "drop", "dropIndex", "rename", "watch"];
    !OTHERS.contains(&name)
}

pub(super) fn run(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    let name = args.required_text("flagstone")?;
    let Some((_, need, operation)) = OPERATIONS.iter().find(|(known, ..)| *known == name) else {
        let text = format!("the server has no operation {name:?}: the tool is of another version");
        return Err(Failure::new(Code::CommandNotFound, text));
    };
    run.require(*need, &run.command.database)?;
    operation(run).map_err(refused::OperationError::into_failure)
}
