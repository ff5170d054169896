//! Files of Parquet and Arrow, as readers of record batches.

use super::ColumnarFormat;
use crate::args::LoadArgs;
use crate::failure::Failure;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, SchemaRef};
use flagstone_arrow::LoadOptions;
use flagstone_load::identity_of;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// A file that is open.
pub(super) struct ColumnarFile {
    pub(super) name: PathBuf,
    reader: Box<dyn RecordBatchReader>,
    /// The number of its rows, if it says so.
    pub(super) rows: Option<u64>,
    pub(super) bytes: Option<u64>,
    /// Its length and checksum, if the load can be continued.
    pub(super) identity: Option<String>,
}

impl ColumnarFile {
    /// Opens a file for the columns that a load with these options reads.
    pub(super) fn open(
        path: &Path,
        args: &LoadArgs,
        options: &LoadOptions,
    ) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::Io(format!("{}: {why}", path.display()));
        let refused =
            |error: flagstone::Error| Failure::Usage(format!("{}: {error}", path.display()));
        let form = ColumnarFormat::of(args.format, Some(path)).unwrap_or(ColumnarFormat::Parquet);
        if path == Path::new("-") {
            if form == ColumnarFormat::Parquet || args.files.len() > 1 {
                let text = "stdin can be one stream of Arrow; a Parquet file is read from its end";
                return Err(Failure::Usage(text.to_owned()));
            }
            let mut magic = Vec::new();
            let read = std::io::stdin().take(6).read_to_end(&mut magic);
            read.map_err(|error| Failure::Io(format!("cannot read stdin: {error}")))?;
            if !magic.starts_with(&[0xff; 4]) {
                return Err(Failure::Usage(format!(
                    "stdin: expected a stream of Arrow, found \"{}\"; an Arrow file, which begins \
                     with ARROW1, is read from its end: name it",
                    magic.escape_ascii()
                )));
            }
            // It tells its columns once: all of them are read.
            let stream = Cursor::new(magic).chain(std::io::stdin());
            let reader = guarded(|| StreamReader::try_new(stream, None));
            let reader = Box::new(reader.map_err(wrong)?);
            return Ok(Self {
                name: "stdin".into(),
                reader,
                rows: None,
                bytes: None,
                identity: None,
            });
        }
        let mut file = File::open(path).map_err(|error| Failure::io("open", path, &error))?;
        let mut magic = [0; 6];
        let found = first(&mut file, &mut magic)
            .map_err(|error| Failure::io("read", path, &error))?
            .escape_ascii()
            .to_string();
        let bytes = file.metadata().ok().map(|metadata| metadata.len());
        // Of what is loaded, even if the path leads to another file by now.
        let identity = args.resume.then(|| identity_of(path, &mut file)).transpose()?;
        let (reader, rows): (Box<dyn RecordBatchReader>, _) = match form {
            ColumnarFormat::Parquet if !magic.starts_with(b"PAR1") => {
                return Err(wrong(format!(
                    "expected a Parquet file, which begins with PAR1, found \"{found}\""
                )));
            }
            ColumnarFormat::Parquet => {
                let opened = guarded(|| ParquetRecordBatchReaderBuilder::try_new(file));
                let builder = opened.map_err(wrong)?;
                let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).ok();
                let columns = options.columns(builder.schema()).map_err(refused)?;
                let mask = ProjectionMask::roots(builder.parquet_schema(), columns);
                let builder = builder.with_projection(mask);
                (Box::new(guarded(|| builder.build()).map_err(wrong)?), rows)
            }
            ColumnarFormat::Arrow if magic == *b"ARROW1" => {
                let reader = guarded(|| FileReader::try_new(BufReader::new(&file), None));
                let schema = reader.map_err(wrong)?.schema();
                let columns = options.columns(&schema).map_err(refused)?;
                file.rewind().map_err(|error| Failure::io("read", path, &error))?;
                let reader = guarded(|| FileReader::try_new(BufReader::new(file), Some(columns)));
                (Box::new(reader.map_err(wrong)?), None)
            }
            // The mark of a message, in streams of version 0.15 or newer.
            ColumnarFormat::Arrow if magic.starts_with(&[0xff; 4]) => {
                let reader = guarded(|| StreamReader::try_new(BufReader::new(file), None));
                (Box::new(reader.map_err(wrong)?), None)
            }
            ColumnarFormat::Arrow => {
                return Err(wrong(format!(
                    "expected an Arrow file, which begins with ARROW1, or an Arrow stream, found \
                     \"{found}\""
                )));
            }
        };
        Ok(Self { name: path.to_owned(), reader, rows, bytes, identity })
    }

    pub(super) fn at(&self, error: &flagstone::Error) -> Failure {
        Failure::Usage(format!("{}: {error}", self.name.display()))
    }
}

/// Reads the first bytes of a file, as many as there are, and goes back to its begin.
fn first<'a>(file: &mut File, bytes: &'a mut [u8]) -> std::io::Result<&'a [u8]> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read(&mut bytes[length..])? {
            0 => break,
            more => length += more,
        }
    }
    // A pipe cannot be read again, and a Parquet file not without going to its end.
    file.seek(SeekFrom::Start(0))?;
    Ok(&bytes[..length])
}

impl Iterator for ColumnarFile {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = guarded(|| self.reader.next().transpose());
        next.map_err(|why| ArrowError::ExternalError(why.into())).transpose()
    }
}

impl RecordBatchReader for ColumnarFile {
    fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }
}

/// Reads by the libraries of these formats. A file that makes one panic is damaged as others are.
fn guarded<T, E: std::fmt::Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_panic) => Err("the file is damaged: its reader panicked".to_owned()),
    }
}
