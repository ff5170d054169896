//! `command`: a command of drivers, to a server, or without one in a directory or a cluster.

use super::served::Served;
use super::{open, source};
use crate::args::CommandArgs;
use crate::failure::Failure;
use crate::output::Output;
use flagstone::doc::{JsonMode, JsonOptions};
use flagstone::internal::document::append_relaxed_json;
use flagstone::{Document, Durability};
use flagstone_server::command::ServiceOptions;

/// The database of a command that names none.
const ON: &str = "main";

pub(super) fn run(args: &CommandArgs) -> Result<(), Failure> {
    let mut options = JsonOptions::new();
    options.mode = JsonMode::Extended;
    let command = Document::from_json_with(&args.command, options)
        .map_err(|error| Failure::Usage(format!("the command: {error}")))?;
    let reply = if source::is_url(&args.database) {
        let link = source::connect(&args.database, args.memory.memory)?;
        link.command(args.on.as_deref(), &command)?
    } else {
        here(args, &command)?
    };
    let mut output = Output::new();
    let mut text = Vec::new();
    append_relaxed_json(&reply.root(), &mut text)?;
    output.line(&String::from_utf8_lossy(&text))?;
    output.flush()?;
    if reply.float("ok") == Some(1.0) {
        return Ok(());
    }
    Err(Failure::Check(reply.str("errmsg").unwrap_or("the command failed").to_owned()))
}

/// Runs the command on a database that nobody else has open, or on a cluster.
fn here(args: &CommandArgs, command: &Document) -> Result<Document, Failure> {
    let (path, memory) = (&args.database, args.memory.memory);
    let served = Served::open(path, memory, || open::or_make(path, memory, Durability::Buffered))?;
    let service = served.service(ServiceOptions::default())?;
    let is_local = true;
    let mut client = service.client("stdin".to_owned(), "stdin".to_owned(), is_local);
    client.become_root();
    let reply = service.run(&mut client, args.on.as_deref().unwrap_or(ON), command)?;
    service.close();
    drop(service);
    served.close()?;
    Ok(reply)
}
