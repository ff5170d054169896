//! `find`: documents that match a filter, groups of them, or how they would be found.

use super::open;
use super::query::{self, Asked, Rows, hint};
use crate::args::{FindArgs, FormArg};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Output};
use flagstone::{Cursor, Explain, Find, Group, Map, Value};
use std::io::IsTerminal;

pub(super) fn run(args: &FindArgs) -> Result<(), Failure> {
    let group = args.group.as_deref().map(query::group).transpose()?;
    let sort = args.sort.as_deref().map(query::check_sort).transpose()?;
    let asked = Asked::open(&args.collection, args.filter.as_deref())?;
    if let Some(index) = &args.hint.index {
        open::check_index(&asked.collection, index).map_err(Failure::Usage)?;
    }
    let find = find(&asked, args, sort);
    if args.explain || args.analyze {
        return explain(&find, group.as_ref(), args);
    }
    let mut rows = Rows::new(args.format, columns(args), args.json_mode.mode());
    let mut next = None;
    if let Some(group) = &group {
        for value in find.group(group)? {
            interrupt::check()?;
            rows.value(value?)?;
        }
    } else if let Some(documents) = args.page {
        let page = find.page(documents)?;
        for (key, document) in page.documents {
            let value = document.root().to_value()?;
            rows.value(match (args.keys, &rows) {
                (false, _) => value,
                (true, Rows::Json(_)) => entry(key, value),
                (true, Rows::Table(_)) => keyed(key, value),
            })?;
        }
        next = page.next.map(|next| format!("next page: --page {documents} --after {next}"));
    } else {
        print(find.run()?, args.keys, &mut rows)?;
    }
    rows.end()?;
    next.iter().for_each(|next| output::note(next));
    Ok(())
}

fn find(asked: &Asked, args: &FindArgs, sort: Option<&str>) -> Find<'static> {
    let mut find = asked.find().skip(args.skip);
    if let Some(sort) = sort {
        find = find.sort(sort);
    }
    if let Some(limit) = args.limit {
        find = find.limit(limit);
    }
    if let Some(project) = &args.project {
        find = find.project(project.as_str());
    }
    if let Some(token) = &args.after {
        find = find.after_text(token);
    }
    match hint(&args.hint) {
        Some(hint) => find.hint(hint),
        None => find,
    }
}

/// Prints the documents of a cursor.
fn print(mut cursor: Cursor<'_>, keys: bool, rows: &mut Rows) -> Result<(), Failure> {
    while cursor.advance()? {
        interrupt::check()?;
        match rows {
            Rows::Json(output) if keys => output.entry(&cursor.key()?, &cursor.document()?)?,
            Rows::Json(output) => {
                output.json(|mode, line| Ok(cursor.append_json_as(mode, line)?))?;
            }
            Rows::Table(grid) => {
                let value = cursor.document()?.root().to_value()?;
                grid.row(if keys { keyed(cursor.key()?, value) } else { value })?;
            }
        }
    }
    Ok(())
}

/// `{"key":..,"document":..}`.
fn entry(key: Value, document: Value) -> Value {
    let mut map = Map::new();
    map.insert("key", key);
    map.insert("document", document);
    Value::Map(map)
}

/// The column of keys in a table.
const KEY_COLUMN: &str = "(key)";

/// The fields of a document after its key, which is a column of a table.
fn keyed(key: Value, document: Value) -> Value {
    let fields = match document {
        Value::Map(fields) => fields,
        other => std::iter::once((Value::from("value"), other)).collect(),
    };
    let key = std::iter::once((Value::from(KEY_COLUMN), key));
    Value::Map(
        key.chain(fields.iter().map(|(name, value)| (name.clone(), value.clone()))).collect(),
    )
}

/// The columns in the order in which they were asked for: the first names of the paths.
fn columns(args: &FindArgs) -> Vec<String> {
    let paths = args.project.as_deref().unwrap_or_default().split(',').map(str::trim);
    let names = paths.map(|path| path.strip_prefix("$.").unwrap_or(path));
    let names = names.map(|path| path.split(['.', '[']).next().unwrap_or(path));
    std::iter::once(KEY_COLUMN).chain(names).map(str::to_owned).collect()
}

fn explain(find: &Find<'_>, group: Option<&Group>, args: &FindArgs) -> Result<(), Failure> {
    let explain: Explain = match group {
        Some(group) if args.analyze => find.explain_analyze_group(group)?,
        Some(group) => find.explain_group(group)?,
        None if args.analyze => find.explain_analyze()?,
        None => find.explain()?,
    };
    let is_json = match args.format {
        Some(form) => form == FormArg::Json,
        None => !std::io::stdout().is_terminal(),
    };
    let mut output = Output::new();
    match is_json {
        true => output.key(&explain.to_value(), true)?,
        false => output.line(explain.to_string().trim_end())?,
    }
    output.flush()
}
