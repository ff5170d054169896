//! `find`: documents that match a filter, groups of them, or how they would be found.

use super::query::{Asked, Rows, hint};
use crate::args::{FindArgs, FormArg};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Output};
use flagstone::{Cursor, Explain, Find, Group, Map, Value};
use std::io::IsTerminal;

pub(super) fn run(args: &FindArgs) -> Result<(), Failure> {
    let group = args.group.as_deref().map(Group::parse).transpose()?;
    let asked = Asked::open(&args.collection, args.filter.as_deref())?;
    let find = find(&asked, args);
    if args.explain || args.analyze {
        return explain(&find, group.as_ref(), args);
    }
    let mut rows = Rows::new(args.format);
    if let Some(group) = &group {
        for value in find.group(group)? {
            interrupt::check()?;
            rows.value(value?)?;
        }
    } else if let Some(documents) = args.page {
        let page = find.page(documents)?;
        for (key, document) in page.documents {
            let value = document.root().to_value()?;
            rows.value(if args.keys { entry(key, value) } else { value })?;
        }
        if let Some(next) = page.next {
            output::note(&format!("next page: --page {documents} --after {next}"));
        }
    } else {
        print(find.run()?, args.keys, &mut rows)?;
    }
    rows.end()
}

fn find(asked: &Asked, args: &FindArgs) -> Find<'static> {
    let mut find = asked.find().skip(args.skip);
    if let Some(sort) = &args.sort {
        find = find.sort(sort.as_str());
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
            Rows::Json(output) => output.json(|line| Ok(cursor.append_json(line)?))?,
            Rows::Table(grid) => {
                let value = cursor.document()?.root().to_value()?;
                grid.row(if keys { entry(cursor.key()?, value) } else { value })?;
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

fn explain(find: &Find<'_>, group: Option<&Group>, args: &FindArgs) -> Result<(), Failure> {
    let explain: Explain = match group {
        Some(group) if args.analyze => find.explain_analyze_group(group)?,
        _ if args.analyze => find.explain_analyze()?,
        _ => find.explain()?,
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
