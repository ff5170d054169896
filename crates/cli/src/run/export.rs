//! `export`: documents to a file, as JSON lines or as a table of chosen paths.

use super::columnar;
use super::query::{self, Asked};
use super::target;
use crate::args::{ExportArgs, FormatArg};
use crate::failure::Failure;
use crate::units::counted;
use crate::{interrupt, output};
use flagstone::json::append_json;
use flagstone::{Cursor, FieldPath, JsonMode, Reached, View};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::Path;

pub(super) fn run(args: &ExportArgs) -> Result<(), Failure> {
    if let Some(form) = columnar::Form::of(args.format, args.output.as_deref()) {
        if args.json_mode.extended_json {
            return Err(Failure::Usage(NO_JSON.to_owned()));
        }
        return columnar::export(args, form);
    }
    let form = Form::of(args)?;
    let sort = args.sort.as_deref().map(query::check_sort).transpose()?;
    let asked = Asked::open(&args.collection, args.filter.as_deref())?;
    let mut find = asked.find();
    if let Some(sort) = sort {
        find = find.sort(sort);
    }
    if let Some(limit) = args.limit {
        find = find.limit(limit);
    }
    if let Some(project) = &args.project {
        find = find.project(project.as_str());
    }
    let cursor = find.run()?;
    let Some(path) = args.output.as_deref().filter(|path| *path != Path::new("-")) else {
        let mut stdout = std::io::stdout().lock();
        write(cursor, &form, &mut stdout, Path::new("stdout"))?;
        return flush(&mut stdout, Path::new("stdout"));
    };
    let count = target::write(path, |file, part| packed(cursor, &form, file, (path, part)))?;
    output::note(&format!("{} written to {}", counted(count, "document"), path.display()));
    Ok(())
}

const NO_JSON: &str = "--extended-json is for JSON";

/// How a document is written.
enum Form {
    Json(JsonMode),
    /// The columns, the byte between them, and whether there are quotes.
    Table(Vec<(String, FieldPath)>, u8),
}

impl Form {
    fn of(args: &ExportArgs) -> Result<Self, Failure> {
        if args.key.is_some() || args.sample.is_some() {
            let text = "--key and --sample are for Parquet and Arrow";
            return Err(Failure::Usage(text.to_owned()));
        }
        let name = args.output.as_deref().and_then(Path::file_name).unwrap_or_default();
        let name = name.to_string_lossy().to_lowercase();
        let packed = name.strip_suffix(".zst").or(name.strip_suffix(".gz"));
        let named = match packed.unwrap_or(&name).rsplit_once('.') {
            Some((_, "csv")) => FormatArg::Csv,
            Some((_, "tsv")) => FormatArg::Tsv,
            _ => FormatArg::Json,
        };
        let delimiter = match args.format.unwrap_or(named) {
            FormatArg::Json if args.fields.is_empty() => {
                return Ok(Self::Json(args.json_mode.mode()));
            }
            // The others have columns of their own.
            FormatArg::Json | FormatArg::Parquet | FormatArg::Arrow => {
                let text = "--fields is for tables: --type csv or tsv; JSON has --project";
                return Err(Failure::Usage(text.to_owned()));
            }
            FormatArg::Csv => b',',
            FormatArg::Tsv => b'\t',
        };
        if args.json_mode.extended_json {
            return Err(Failure::Usage(NO_JSON.to_owned()));
        }
        if args.fields.is_empty() {
            let text = "a table needs its columns, as in --fields id,author.name";
            return Err(Failure::Usage(text.to_owned()));
        }
        let column = |text: &String| match FieldPath::parse(text.trim()) {
            Ok(path) => Ok((text.trim().to_owned(), path)),
            Err(error) => Err(Failure::Usage(format!("--fields {text}: {error}"))),
        };
        Ok(Self::Table(args.fields.iter().map(column).collect::<Result<_, _>>()?, delimiter))
    }

    /// Appends the line that names the columns.
    fn header(&self, line: &mut Vec<u8>) {
        let Self::Table(columns, delimiter) = self else { return };
        for (n, (name, _)) in columns.iter().enumerate() {
            append_field(n, name.as_bytes(), *delimiter, line);
        }
        line.push(b'\n');
    }

    /// Appends the line of the cursor's document.
    fn line(&self, cursor: &mut Cursor<'_>, line: &mut Vec<u8>) -> Result<(), Failure> {
        let (columns, delimiter) = match self {
            Self::Table(columns, delimiter) => (columns, delimiter),
            Self::Json(mode) => {
                cursor.append_json_as(*mode, line)?;
                line.push(b'\n');
                return Ok(());
            }
        };
        let view = cursor.view()?;
        let mut field = Vec::new();
        for (n, (_, path)) in columns.iter().enumerate() {
            field.clear();
            append_value(&view, path, &mut field)?;
            append_field(n, &field, *delimiter, line);
        }
        line.push(b'\n');
        Ok(())
    }
}

/// Appends what is at `path`: text as it is, nothing for null, other values as JSON. Several
/// values, which a path through an array reaches, are a JSON array.
fn append_value(view: &View<'_>, path: &FieldPath, out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut values = Vec::new();
    path.reach(view, |reached| {
        if let Reached::Value(value) = reached {
            values.push(value);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    match &values[..] {
        [] => {}
        [value] if value.is_null() => {}
        [value] => match value.as_str() {
            Some(text) => out.extend_from_slice(text.as_bytes()),
            None => append_json(value, out)?,
        },
        several => {
            for (n, value) in several.iter().enumerate() {
                out.push(if n == 0 { b'[' } else { b',' });
                append_json(value, out)?;
            }
            out.push(b']');
        }
    }
    Ok(())
}

/// Appends the field `n` of a line. CSV puts it in quotes where it needs them; TSV, which has none,
/// gets spaces for tabs and line ends.
fn append_field(n: usize, field: &[u8], delimiter: u8, line: &mut Vec<u8>) {
    if n > 0 {
        line.push(delimiter);
    }
    let is_special = |byte: &u8| matches!(*byte, b'\r' | b'\n') || *byte == delimiter;
    if delimiter == b'\t' {
        line.extend(field.iter().map(|byte| if is_special(byte) { b' ' } else { *byte }));
        return;
    }
    if !field.iter().any(|byte| is_special(byte) || *byte == b'"') {
        line.extend_from_slice(field);
        return;
    }
    line.push(b'"');
    for byte in field {
        line.extend_from_slice(if *byte == b'"' { b"\"\"" } else { std::slice::from_ref(byte) });
    }
    line.push(b'"');
}

/// Writes to `file`, compressed as the end of `path` says. Errors name the file `part`.
fn packed(
    cursor: Cursor<'_>,
    form: &Form,
    file: File,
    (path, part): (&Path, &Path),
) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| Failure::io("write", part, &error);
    match path.extension().and_then(|end| end.to_str()) {
        Some("zst") => {
            let mut encoder = zstd::Encoder::new(file, 3).map_err(failed)?;
            let count = write(cursor, form, &mut encoder, part)?;
            encoder.finish().map_err(failed)?;
            Ok(count)
        }
        Some("gz") => {
            let mut encoder = GzEncoder::new(file, Compression::default());
            let count = write(cursor, form, &mut encoder, part)?;
            encoder.finish().map_err(failed)?;
            Ok(count)
        }
        _ => {
            let mut file = BufWriter::new(file);
            let count = write(cursor, form, &mut file, part)?;
            flush(&mut file, part)?;
            Ok(count)
        }
    }
}

/// How many bytes are written at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Writes the documents of a cursor. Returns how many there are.
fn write(
    mut cursor: Cursor<'_>,
    form: &Form,
    to: &mut dyn Write,
    name: &Path,
) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::io("write", name, &error),
    };
    let (mut lines, mut count) = (Vec::new(), 0);
    form.header(&mut lines);
    while cursor.advance()? {
        interrupt::check()?;
        form.line(&mut cursor, &mut lines)?;
        count += 1;
        if lines.len() >= BUFFER_BYTES {
            to.write_all(&lines).map_err(failed)?;
            lines.clear();
        }
    }
    to.write_all(&lines).map_err(failed)?;
    Ok(count)
}

fn flush(to: &mut dyn Write, name: &Path) -> Result<(), Failure> {
    to.flush().map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::io("write", name, &error),
    })
}
