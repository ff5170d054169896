//! `export`: documents to a file, as JSON lines or as a table of chosen paths.

use super::columnar;
use super::query::{self, Asked};
use super::source::{self, Query};
use super::table::{Column, Table};
use super::target;
use crate::args::{ExportArgs, FormatArg};
use crate::failure::Failure;
use crate::units::counted;
use crate::{interrupt, output};
use flagstone::doc::JsonMode;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

pub(super) fn run(args: &ExportArgs) -> Result<(), Failure> {
    if args.shard.is_some() && source::is_url(&args.collection.database) {
        let text = "--shard is for a directory or a cluster: a server exports all documents";
        return Err(Failure::Usage(text.to_owned()));
    }
    if let Some(path) = &args.output {
        columnar::ColumnarFormat::check_name(args.format, path)?;
    }
    if let Some(form) = columnar::ColumnarFormat::of(args.format, args.output.as_deref()) {
        if args.json_mode.extended_json {
            return Err(Failure::Usage(NO_JSON.to_owned()));
        }
        return columnar::export(args, form);
    }
    if let Some(project) = &args.project {
        query::check_option("--project", project)?;
    }
    let form = Form::of(args)?;
    let sort = args.sort.as_deref().map(query::check_sort).transpose()?;
    let asked = Asked::open(&args.collection, args.filter.as_deref(), args.memory)?;
    let project = args.project.as_deref();
    let query = Query { sort, project, limit: args.limit, shard: args.shard, ..asked.query() };
    let mut cursor = asked.documents.find(&query)?;
    let cursor = &mut *cursor;
    let Some(path) = args.output.as_deref().filter(|path| *path != Path::new("-")) else {
        let mut stdout = std::io::stdout().lock();
        write(cursor, &form, &mut stdout, Path::new("stdout"))?;
        return flush(&mut stdout, Path::new("stdout"));
    };
    let count = target::write(path, |file, part| packed(cursor, &form, file, path, part))?;
    output::note(&format!("{} written to {}", counted(count, "document"), path.display()));
    Ok(())
}

const NO_JSON: &str = "--extended-json is for JSON";

/// How a document is written.
enum Form {
    Json(JsonMode),
    Table(Table),
}

impl Form {
    fn of(args: &ExportArgs) -> Result<Self, Failure> {
        if args.key.is_some() || args.sample.is_some() {
            let text = "--key and --sample are for Parquet and Arrow";
            return Err(Failure::Usage(text.to_owned()));
        }
        let fields = args.fields();
        let name = args.output.as_deref().and_then(Path::file_name).unwrap_or_default();
        let name = name.to_string_lossy().to_lowercase();
        let packed = name.strip_suffix(".zst").or(name.strip_suffix(".gz"));
        let named = match packed.unwrap_or(&name).rsplit_once('.') {
            Some((_, "csv")) => FormatArg::Csv,
            Some((_, "tsv")) => FormatArg::Tsv,
            _ => FormatArg::Json,
        };
        let delimiter = match args.format.unwrap_or(named) {
            FormatArg::Json if fields.is_empty() => {
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
        if fields.is_empty() {
            let text = "a table needs its columns, as in --fields id,author.name";
            return Err(Failure::Usage(text.to_owned()));
        }
        let mut table = Table::new(delimiter);
        for text in fields {
            let column = Column::path(text);
            table.add(column.map_err(|error| Failure::Usage(format!("--fields {text}: {error}")))?);
        }
        Ok(Self::Table(table))
    }

    /// Appends the line that names the columns.
    fn header(&self, line: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Json(_) => Ok(()),
            Self::Table(table) => table.header(line),
        }
    }

    /// Appends the line of the cursor's document.
    fn line(&self, cursor: &mut dyn source::Rows, line: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Json(mode) => {
                cursor.append_json(*mode, line)?;
                line.push(b'\n');
                Ok(())
            }
            Self::Table(table) => table.row(None, &cursor.view()?, line),
        }
    }
}

/// Writes to `file`, compressed as the end of `path` says. Errors name the file `part`.
fn packed(
    cursor: &mut dyn source::Rows,
    form: &Form,
    file: File,
    path: &Path,
    part: &Path,
) -> Result<u64, Failure> {
    let failed = |error| failed(part, &error);
    match packing_of(path) {
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
    cursor: &mut dyn source::Rows,
    form: &Form,
    to: &mut dyn Write,
    name: &Path,
) -> Result<u64, Failure> {
    let failed = |error| failed(name, &error);
    let (mut lines, mut count) = (Vec::new(), 0);
    form.header(&mut lines)?;
    while cursor.advance()? {
        interrupt::check()?;
        if let Err(failure) = form.line(cursor, &mut lines) {
            return Err(failure.of_document(&cursor.key()?));
        }
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
    to.flush().map_err(|error| failed(name, &error))
}

/// Returns how a file of this name is compressed.
pub(super) fn packing_of(path: &Path) -> Option<&'static str> {
    let is = |end: &&str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(end));
    ["zst", "gz"].into_iter().find(is)
}

/// Returns the failure of writing `name`.
fn failed(name: &Path, error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::io("write", name, error),
    }
}
