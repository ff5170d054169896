//! `get`: the document of a key, parts of it, or its expiry.

use super::source::{self, How};
use super::{lookup, open};
use crate::args::GetArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::pretty;
use crate::units::show_moment;
use flagstone::doc::json::{append_json_as, append_value_json_as};
use flagstone::doc::{Malformed, Pointer};
use flagstone::{JsonPath, Value, View};
use std::io::IsTerminal;

pub(super) fn run(args: &GetArgs) -> Result<(), Failure> {
    let key = open::key_of(&args.key)?;
    let paths = args.paths.iter().map(|text| Path::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let source = source::open(&args.key.collection.database, How::Read, args.memory)?;
    let documents = lookup::collection(&*source, &args.key.collection)?;
    let document = documents.get(&key)?;
    let document = document.ok_or_else(|| lookup::no_document(&args.key, &*documents))?;
    let mut output = Output::in_mode(args.key.json_mode.mode());
    if !paths.is_empty() {
        let root = document.root();
        let found: Vec<_> =
            paths.iter().map(|path| path.values(&root)).collect::<Result<_, _>>()?;
        for value in found.iter().flatten() {
            output.json(|mode, line| {
                let append = |json: &mut Vec<u8>| {
                    append_value_json_as(value, mode, json);
                    Ok(())
                };
                put(append, args.pretty, line)
            })?;
        }
        output.flush()?;
        return match found.iter().position(Vec::is_empty) {
            None => Ok(()),
            Some(at) => Err(Failure::NotFound(format!(
                "there is nothing at {} in document {}",
                args.paths[at], args.key.key
            ))),
        };
    }
    if args.expires {
        output.line(&documents.expiry(&key)?.map_or("never".into(), show_moment))?
    } else {
        let is_pretty = args.pretty || (!args.compact && std::io::stdout().is_terminal());
        output.json(|mode, line| {
            put(|json| append_json_as(&document.root(), mode, json), is_pretty, line)
        })?;
    }
    output.flush()
}

/// Appends the JSON that `append` appends, indented if it is to be pretty.
fn put(
    append: impl FnOnce(&mut Vec<u8>) -> Result<(), Malformed>,
    is_pretty: bool,
    line: &mut Vec<u8>,
) -> Result<(), Failure> {
    if !is_pretty {
        return Ok(append(line)?);
    }
    let mut json = Vec::new();
    append(&mut json)?;
    pretty::append(&json, line);
    Ok(())
}

/// Which parts of a document are wanted.
enum Path<'a> {
    /// `author.name`.
    Dotted(&'a str),
    /// `/author/name`.
    Pointer(Pointer),
    /// `$.items[*].name`.
    Query(JsonPath),
}

impl<'a> Path<'a> {
    /// Reads a path. Its first character tells its kind.
    fn parse(text: &'a str) -> Result<Self, Failure> {
        let parsed = match text.as_bytes().first() {
            Some(b'$') => JsonPath::parse(text).map(Self::Query),
            Some(b'/') => Pointer::parse(text).map(Self::Pointer),
            _ => Ok(Self::Dotted(text)),
        };
        parsed.map_err(|error| Failure::Usage(format!("--path {text}: {error}")))
    }

    fn values(&self, root: &View<'_>) -> Result<Vec<Value>, Malformed> {
        let one = |view: Option<View<'_>>| view.map(|view| view.to_value()).into_iter().collect();
        match self {
            Self::Dotted(path) => one(root.path(path)?),
            Self::Pointer(pointer) => one(pointer.get(root)?),
            Self::Query(query) => query.nodes(root).map(|node| node?.view().to_value()).collect(),
        }
    }
}
