//! `find`: documents that match a filter, groups of them, or how they would be found.

use super::lookup;
use super::more::{self, Rest};
use super::query::{self, Asked, KEY_COLUMN, RowPrinter};
use super::source::{self, Query};
use crate::args::{FindArgs, FormArg};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Output};
use flagstone::JsonPath;
use flagstone::doc::PathStep;
use flagstone::internal::split_paths;
use std::io::IsTerminal;

pub(super) fn run(args: &FindArgs) -> Result<(), Failure> {
    let group = args.group.as_deref().map(query::check_group).transpose()?;
    let sort = args.sort.as_deref().map(query::check_sort).transpose()?;
    if let Some(project) = &args.project {
        query::check_option("--project", project)?;
    }
    if args.json_mode.extended_json && matches!(args.format, Some(FormArg::Csv | FormArg::Table)) {
        return Err(Failure::Usage("--extended-json is for --format json".to_owned()));
    }
    if (args.explain || args.analyze) && args.format == Some(FormArg::Csv) {
        return Err(Failure::Usage("a plan is printed as --format json or table".to_owned()));
    }
    let asked = Asked::open(&args.collection, args.filter.as_deref(), args.memory)?;
    if let Some(index) = &args.hint.index {
        lookup::check_index(&*asked.documents, index, Failure::Usage)?;
    }
    let query = Query {
        sort,
        project: args.project.as_deref(),
        skip: args.skip,
        limit: args.limit,
        after: args.after.as_deref(),
        index: args.hint.index.as_deref(),
        scan: args.hint.scan,
        ..asked.query()
    };
    if args.explain || args.analyze {
        return explain(&asked, &query, group, args);
    }
    let mut rows = RowPrinter::new(args.format, columns(args), args.json_mode.mode());
    let (keys, project) = (args.keys, args.project.as_deref());
    let (mut next, mut rest) = (None, None);
    // One more than a part tells whether there are more.
    let of_part = Query { limit: args.part.map(|part| part + 1).or(args.limit), ..query };
    if let Some(group) = group {
        let groups = asked.documents.group(&of_part, group)?;
        for (number, value) in (0..).zip(groups) {
            interrupt::check()?;
            if args.part == Some(number) {
                rest = Some(Rest::Skip(args.skip + number));
                break;
            }
            rows.group(value?)?;
        }
    } else if let Some(documents) = args.page.or(args.part.filter(|_| args.skip == 0)) {
        let (page, token) = asked.documents.page(&query, documents)?;
        rows.begin(keys, project, |visit| {
            page.iter().try_for_each(|(_, document)| visit(&document.root()))
        })?;
        for (key, document) in &page {
            let printed = rows.document(keys.then_some(key), &document.root());
            printed.map_err(|failure| failure.of_document(key))?;
        }
        match (token, args.part) {
            (Some(token), Some(_)) => rest = Some(Rest::After(token)),
            (Some(token), None) => {
                next = Some(format!("next page: --page {documents} --after {token}"))
            }
            (None, _) => {}
        }
    } else {
        rows.begin(keys, project, |visit| {
            let mut cursor = asked.documents.find(&of_part)?;
            while cursor.advance()? {
                interrupt::check()?;
                let visited = visit(&cursor.view()?);
                visited.map_err(|failure| named(&*cursor, failure))?;
            }
            Ok(())
        })?;
        if print(&mut *asked.documents.find(&of_part)?, keys, args.part, &mut rows)? {
            rest = args.part.map(|part| Rest::Skip(args.skip + part));
        }
    }
    rows.end()?;
    next.iter().for_each(|next| output::note(next));
    if rest.is_some() {
        output::note("it prints more");
    }
    more::keep(rest);
    Ok(())
}

/// Prints the documents of a cursor, at most `part`. Returns whether there are more.
fn print(
    cursor: &mut dyn source::Rows,
    keys: bool,
    part: Option<u64>,
    rows: &mut RowPrinter,
) -> Result<bool, Failure> {
    let mut printed_count = 0;
    while cursor.advance()? {
        interrupt::check()?;
        if part == Some(printed_count) {
            return Ok(true);
        }
        printed_count += 1;
        let key = if keys { Some(cursor.key()?) } else { None };
        let printed = match (&mut *rows, &key) {
            (RowPrinter::Json(output), None) => {
                output.json(|mode, line| cursor.append_json(mode, line))
            }
            (rows, key) => match cursor.view() {
                Ok(view) => rows.document(key.as_ref(), &view),
                Err(failure) => Err(failure),
            },
        };
        printed.map_err(|failure| named(cursor, failure))?;
    }
    Ok(false)
}

/// Names the document of the cursor in a failure.
fn named(cursor: &dyn source::Rows, failure: Failure) -> Failure {
    match cursor.key() {
        Ok(key) => failure.of_document(&key),
        Err(_unknown) => failure,
    }
}

/// The columns in the order in which they were asked for: the first names of the paths.
fn columns(args: &FindArgs) -> Vec<String> {
    let paths = split_paths(args.project.as_deref().unwrap_or_default()).map(str::trim);
    std::iter::once(KEY_COLUMN.to_owned()).chain(paths.map(first_name)).collect()
}

/// Returns the first name of a path.
fn first_name(path: &str) -> String {
    let json_path = path.starts_with('$').then(|| JsonPath::parse(path).ok()).flatten();
    let steps = json_path.as_ref().and_then(JsonPath::steps).unwrap_or_default();
    match steps.first() {
        Some(PathStep::Name(name)) => (*name).to_owned(),
        _ => path.split('.').next().unwrap_or(path).to_owned(),
    }
}

fn explain(
    asked: &Asked,
    query: &Query<'_>,
    group: Option<&str>,
    args: &FindArgs,
) -> Result<(), Failure> {
    let (plan, text) = asked.documents.explain(query, group, args.analyze)?;
    let is_json = match args.format {
        Some(form) => form == FormArg::Json,
        None => !std::io::stdout().is_terminal(),
    };
    let mut output = Output::new();
    if is_json {
        output.value(&plan)?
    } else {
        output.line(text.trim_end())?
    }
    output.flush()
}
