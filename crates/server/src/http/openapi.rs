//! The description of the routes, as OpenAPI 3.1 has it, made from the tables of routes and of
//! commands.

use super::asked::RoutedRequest;
use super::changes::EVENTS;
use super::load::{self, CSV, TSV};
use super::response::{JSON, NDJSON, Response, TEXT};
use super::route::{Form, Parameter, Route};
use super::routes::ROUTES;
use super::{command, documents};
use crate::access::Need;
use crate::command::table::TABLE;
use crate::command::{Client, Service};
use crate::failure::Outcome;
use flagstone::doc::Map;
use flagstone::{Document, Value, doc};

pub(super) fn respond<'a>(
    _: &'a Service,
    _: &'a mut Client,
    _: &RoutedRequest<'_>,
) -> Outcome<Response<'a>> {
    let mut text = Document::from_value(&describe())?.to_json()?;
    text.push('\n');
    Ok(Response::of(200, JSON, text))
}

fn describe() -> Value {
    let mut paths = Map::new();
    let mut described: Vec<&str> = Vec::new();
    for route in ROUTES {
        if described.contains(&route.path) {
            continue;
        }
        described.push(route.path);
        let mut path = Map::new();
        path.insert("parameters", route.variables().map(variable).collect::<Vec<_>>());
        for route in ROUTES.iter().filter(|other| other.path == route.path) {
            path.insert(route.method.to_ascii_lowercase(), operation(route));
        }
        paths.insert(route.path, Value::Map(path));
    }
    doc!({
        "openapi": "3.1.0",
        "info": { "title": "flagstone", "version": (env!("CARGO_PKG_VERSION")),
            "description": "Documents are Extended JSON.",
            "license": { "name": (env!("CARGO_PKG_LICENSE")) } },
        "servers": [{ "url": "/" }],
        "security": [{ "basic": [] }, {}],
        "paths": (Value::Map(paths)),
        "components": {
            "securitySchemes": { "basic": { "type": "http", "scheme": "basic" } },
            "schemas": {
                "Document": { "type": "object" },
                "Error": { "type": "object", "required": ["ok", "errmsg"], "properties": {
                    "ok": { "type": "number" }, "errmsg": { "type": "string" },
                    "code": { "type": "integer" }, "codeName": { "type": "string" } } },
                "Command": { "anyOf": (TABLE.iter().map(command_of).collect::<Vec<_>>()) },
            },
            "responses": {
                "Error": { "description": "The request failed.",
                    "content": (content(JSON, reference("Error"))) },
                "LoadError": { "description": "The load was refused, or its last line says why it \
                    failed.", "content": {
                        JSON: { "schema": (reference("Error")) },
                        NDJSON: { "schema": { "type": "string" } } } },
            },
        },
    })
}

/// Returns the description of a command.
fn command_of(entry: &crate::command::table::Entry) -> Value {
    let mut fields = Map::new();
    for name in std::iter::once(&entry.name).chain(entry.fields).filter(|name| **name != "*") {
        fields.insert(*name, doc!({}));
    }
    doc!({ "type": "object", "description": (entry.help), "required": [(entry.name)],
        "properties": (Value::Map(fields)) })
}

fn reference(name: &str) -> Value {
    doc!({ "$ref": (format!("#/components/schemas/{name}")) })
}

fn content(kind: &str, schema: Value) -> Value {
    let mut content = Map::new();
    content.insert(kind, doc!({ "schema": schema }));
    Value::Map(content)
}

/// Returns the description of a part of a path.
fn variable(part: &str) -> Value {
    let name = part.trim_matches(['{', '}']);
    let (schema, help) = match name {
        "db" => (
            doc!({ "type": "string", "minLength": 1, "maxLength": 63,
                "pattern": r#"^[^/\\. "$\u0000]+$"# }),
            "The database.",
        ),
        "collection" => (
            doc!({ "type": "string", "minLength": 1,
                "pattern": r"^[^.$\u0000]([^$\u0000]*[^.$\u0000])?$" }),
            "The collection.",
        ),
        "file" => (doc!({ "type": "string", "minLength": 1 }), "The file."),
        _ => (
            doc!({ "type": "string", "minLength": 1 }),
            "The primary key: Extended JSON, or text as it is.",
        ),
    };
    doc!({ "name": name, "in": "path", "required": true, "description": help, "schema": schema })
}

fn parameter(parameter: &Parameter) -> Value {
    let Parameter { name, form, help } = parameter;
    let (name, help) = (*name, *help);
    let schema = match form {
        Form::Json => {
            let content = content(JSON, doc!({ "type": "object" }));
            return doc!({ "name": name, "in": "query", "description": help, "content": content });
        }
        Form::Text => doc!({ "type": "string" }),
        Form::Number(least, most) => {
            doc!({ "type": "integer", "minimum": (*least), "maximum": (*most) })
        }
        Form::Flag => doc!({ "type": "boolean" }),
        Form::OneOf(values) => doc!({ "type": "string", "enum": (values.to_vec()) }),
    };
    doc!({ "name": name, "in": "query", "description": help, "schema": schema })
}

/// Returns a field of the head; `pattern`: what it looks like.
fn field(name: &str, pattern: &str, help: &str) -> Value {
    doc!({ "name": name, "in": "header", "description": help,
        "schema": { "type": "string", "pattern": pattern } })
}

fn operation(route: &Route) -> Value {
    let named = route.parameters.iter().filter(|parameter| parameter.name != "*");
    let mut parameters: Vec<Value> = named.map(parameter).collect();
    if route.path == documents::PATH {
        const TAGS: &str = "^(\\*|(W/)?\"[!#-~]*\"( *, *(W/)?\"[!#-~]*\")*)$";
        parameters.push(field("If-Match", TAGS, "The versions of which one must be there."));
        let help = "The versions of which none may be there.";
        parameters.push(field("If-None-Match", TAGS, help));
    }
    if route.returns == EVENTS {
        parameters.push(field("Last-Event-ID", "^.+/[0-9]+$", "The token to begin after."));
    }
    let mut operation = Map::new();
    operation.insert("summary", route.help);
    operation.insert("description", needs(route.need));
    operation.insert("parameters", parameters);
    if route.need == Need::Nothing {
        operation.insert("security", Vec::<Value>::new());
    }
    if !route.bodies.is_empty() {
        let mut content = Map::new();
        for kind in route.bodies {
            content.insert(*kind, doc!({ "schema": (body(route, kind)) }));
        }
        operation
            .insert("requestBody", doc!({ "required": true, "content": (Value::Map(content)) }));
    }
    let mut responses = Map::new();
    for status in route.statuses {
        let response = match status {
            200 => {
                let schema = match route.returns {
                    JSON => reference("Document"),
                    _ => doc!({ "type": "string" }),
                };
                doc!({ "description": (route.help), "content": (content(route.returns, schema)) })
            }
            201 => doc!({ "description": "There was none before." }),
            204 => doc!({ "description": "It was done." }),
            _ => doc!({ "description": "The version is one that the client has." }),
        };
        responses.insert(status.to_string(), response);
    }
    let error = if route.path == load::PATH { "LoadError" } else { "Error" };
    responses.insert("default", doc!({ "$ref": (format!("#/components/responses/{error}")) }));
    operation.insert("responses", Value::Map(responses));
    Value::Map(operation)
}

/// Returns the schema of a body.
fn body(route: &Route, kind: &str) -> Value {
    match kind {
        NDJSON | CSV | TSV | TEXT => doc!({ "type": "string" }),
        _ if route.path == command::PATH => doc!({
            "type": "object", "required": ["db", "command"], "additionalProperties": false,
            "properties": { "db": { "type": "string", "minLength": 1, "maxLength": 63 },
                "command": (reference("Command")) },
        }),
        "application/json-patch+json" => doc!({
            "type": "array", "items": { "type": "object", "required": ["op", "path"],
                "properties": { "op": { "enum": ["add", "remove", "replace", "move", "copy",
                    "test"] }, "path": { "type": "string" }, "from": { "type": "string" } } },
        }),
        _ => reference("Document"),
    }
}

const fn needs(need: Need) -> &'static str {
    match need {
        Need::Nothing => "For everybody.",
        Need::Login => "For users; what is asked for may need a role.",
        Need::Read => "Needs the role read on the database.",
        Need::ReadAll => "Needs the role read on all databases.",
        Need::Write => "Needs the role readWrite on the database.",
        Need::Root => "Needs the role root.",
    }
}
