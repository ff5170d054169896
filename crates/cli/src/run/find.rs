//! `find`: documents that match a filter, groups of them, or how they would be found.

use super::more::{self, Rest};
use super::open;
use super::query::{self, Asked, KEY_COLUMN, Rows, hint};
use crate::args::{FindArgs, FormArg};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Output};
use flagstone::doc::PathStep;
use flagstone::internal::split_paths;
use flagstone::query::Explain;
use flagstone::{Cursor, Find, Group, JsonPath};
use std::io::IsTerminal;

pub(super) fn run(args: &FindArgs) -> Result<(), Failure> {
    let group = args.group.as_deref().map(query::group).transpose()?;
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
        open::check_index(&asked.collection, index).map_err(Failure::Usage)?;
    }
    let find = find(&asked, args, sort)?;
    if args.explain || args.analyze {
        return explain(&find, group.as_ref(), args);
    }
    let mut rows = Rows::new(args.format, columns(args), args.json_mode.mode());
    let (keys, project) = (args.keys, args.project.as_deref());
    let (mut next, mut rest) = (None, None);
    if let Some(group) = &group {
        let groups = match args.part {
            Some(part) => find.limit(part + 1).group(group)?,
            None => find.group(group)?,
        };
        for (number, value) in (0..).zip(groups) {
            interrupt::check()?;
            if args.part == Some(number) {
                rest = Some(Rest::Skip(args.skip + number));
                break;
            }
            rows.group(value?)?;
        }
    } else if let Some(documents) = args.page.or(args.part.filter(|_| args.skip == 0)) {
        let page = find.page(documents)?;
        rows.begin(keys, project, |visit| {
            page.documents.iter().try_for_each(|(_, document)| visit(&document.root()))
        })?;
        for (key, document) in &page.documents {
            let printed = rows.document(keys.then_some(key), &document.root());
            printed.map_err(|failure| failure.of_document(key))?;
        }
        match (page.next, args.part) {
            (Some(token), Some(_)) => rest = Some(Rest::After(token.to_string())),
            (Some(token), None) => {
                next = Some(format!("next page: --page {documents} --after {token}"))
            }
            (None, _) => {}
        }
    } else {
        let find = match args.part {
            Some(part) => find.limit(part + 1),
            None => find,
        };
        rows.begin(keys, project, |visit| {
            let mut cursor = find.run()?;
            while cursor.advance()? {
                interrupt::check()?;
                let visited = visit(&cursor.view()?);
                visited.map_err(|failure| named(&cursor, failure))?;
            }
            Ok(())
        })?;
        if print(find.run()?, keys, args.part, &mut rows)? {
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

fn find(asked: &Asked, args: &FindArgs, sort: Option<&str>) -> Result<Find<'static>, Failure> {
    let mut find = asked.find_with(sort, args.limit, args.project.as_deref()).skip(args.skip);
    if let Some(token) = &args.after {
        find = find.after(&token.parse()?);
    }
    Ok(match hint(&args.hint) {
        Some(hint) => find.hint(hint),
        None => find,
    })
}

/// Prints the documents of a cursor, at most `part`. Returns whether there are more.
fn print(
    mut cursor: Cursor<'_>,
    keys: bool,
    part: Option<u64>,
    rows: &mut Rows,
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
            (Rows::Json(output), None) => {
                output.json(|mode, line| Ok(cursor.append_json(mode, line)?))
            }
            (rows, key) => match cursor.view() {
                Ok(view) => rows.document(key.as_ref(), &view),
                Err(error) => Err(error.into()),
            },
        };
        printed.map_err(|failure| named(&cursor, failure))?;
    }
    Ok(false)
}

/// Names the document of the cursor in a failure.
fn named(cursor: &Cursor<'_>, failure: Failure) -> Failure {
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

fn explain(find: &Find<'_>, group: Option<&Group>, args: &FindArgs) -> Result<(), Failure> {
    let find = if args.analyze { find.clone().analyze() } else { find.clone() };
    let explain: Explain = match group {
        Some(group) => find.explain_group(group)?,
        None => find.explain()?,
    };
    let is_json = match args.format {
        Some(form) => form == FormArg::Json,
        None => !std::io::stdout().is_terminal(),
    };
    let mut output = Output::new();
    if is_json {
        output.key(&explain.to_value(), true)?
    } else {
        output.line(explain.to_string().trim_end())?
    }
    output.flush()
}
