//! `command`: a command of drivers, without a server.

use super::open;
use crate::args::CommandArgs;
use crate::failure::Failure;
use crate::output::Output;
use flagstone::doc::{JsonMode, JsonOptions};
use flagstone::{Document, Durability};
use flagstone_server::command::{Service, ServiceOptions};

pub(super) fn run(args: &CommandArgs) -> Result<(), Failure> {
    let mut options = JsonOptions::new();
    options.mode = JsonMode::Extended;
    let command = Document::from_json_with(&args.command, options)
        .map_err(|error| Failure::Usage(format!("the command: {error}")))?;
    let database = open::or_make(&args.database, args.memory.memory, Durability::Buffered)?;
    let service = Service::new(database.clone(), ServiceOptions::default())?;
    let mut client = service.client("stdin".to_owned(), "stdin".to_owned(), true);
    client.become_root();
    let reply = service.run(&mut client, &args.on, &command)?;
    service.close();
    drop(service);
    open::close(database)?;
    let mut output = Output::new();
    output.line(&reply.to_json_as(JsonMode::Extended)?)?;
    output.flush()?;
    if reply.float("ok") == Some(1.0) {
        return Ok(());
    }
    Err(Failure::Check(reply.str("errmsg").unwrap_or("the command failed").to_owned()))
}
