//! A command of drivers: `{"db": "shop", "command": {..}}`.

use super::asked::{RoutedRequest, parse};
use super::refusal;
use super::response::{JSON, Response};
use crate::command::{About, Client, Service};
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::FieldKey;
use flagstone::internal::document::append_relaxed_json;

/// The path of commands.
pub(super) const PATH: &str = "/v1/command";

pub(super) fn respond<'a>(
    service: &'a Service,
    client: &'a mut Client,
    asked: &RoutedRequest<'_>,
) -> Outcome<Response<'a>> {
    const EXPECTED: &str = r#"the body: expected {"db": "..", "command": {..}}"#;
    let malformed = |found: &str| Failure::new(Code::FailedToParse, format!("{EXPECTED}{found}"));
    let body = parse(asked.request.body, "the body")?;
    let root = body.root();
    if !root.is_map() {
        return Err(malformed(""));
    }
    for field in root.fields()? {
        match field? {
            (FieldKey::Name("db" | "command"), _) => {}
            (FieldKey::Name(name), _) => return Err(malformed(&format!(", found {name:?}"))),
            (FieldKey::Value(_), _) => return Err(malformed("")),
        }
    }
    let (database, command) = (root.get("db")?, root.get("command")?);
    let (Some(database), Some(command)) = (
        database.and_then(|name| name.as_str().map(str::to_owned)),
        command.filter(|it| it.is_map()),
    ) else {
        return Err(malformed(""));
    };
    let reply = service.run_view(client, &database, &command)?;
    let about = About::of_view(&command, database).map(Box::new);
    let mut text = Vec::new();
    append_relaxed_json(&reply.root(), &mut text)?;
    text.push(b'\n');
    let response = Response::of(refusal::status_of_reply(&reply), JSON, text);
    Ok(Response { about, ..response })
}
