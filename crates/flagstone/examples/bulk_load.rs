//! A bulk load of JSON lines, with progress and an account of the lines that cannot be loaded.
//!
//! `cargo run --release --example bulk_load [FILE [DIRECTORY]]`. Each line of FILE is a
//! document with a field `id`, its primary key. Without FILE the program writes one of 100,000
//! lines. For files of many gigabytes use `flagstone load`: it has several threads.

#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use flagstone::doc::JsonOptions;
use flagstone::load::{DocumentParser, Refused};
use flagstone::load::{Lines, Place};
use flagstone::{Collection, Database, Error, Result, Space};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn load(db: &Database, collection: &Collection, file: &Path) -> Result<(u64, u64)> {
    let cannot_read = |error| Error::io("read", file, error);
    let input = File::open(file).map_err(cannot_read)?;
    let bytes = input.metadata().map_err(cannot_read)?.len();
    let (mut documents, mut refused) = (0, 0);
    let (began, mut shown) = (Instant::now(), Instant::now());

    let mut lines = Lines::of_stream(input, 16 << 20);
    let mut parser = DocumentParser::new(collection, JsonOptions::default());
    // A chunk is about 1 MiB of whole lines, and becomes one batch.
    while let Some(chunk) = lines.next_chunk().map_err(cannot_read)? {
        let mut batch = db.batch();
        for (at, json) in chunk.documents() {
            let mut put = parser.put(&mut batch, json, "id");
            if matches!(put, Err(Refused::Full)) {
                db.commit(std::mem::take(&mut batch))?;
                put = parser.put(&mut batch, json, "id");
            }
            match put {
                Ok(()) => documents += 1,
                // Bad input is counted and told. Other errors end the load.
                Err(Refused::Json(_) | Refused::NoKey(_)) => {
                    refused += 1;
                    let start = chunk.place.unwrap_or(Place::START);
                    let line = start.after(&chunk.bytes[..at]).line;
                    println!("line {line}: {}", String::from_utf8_lossy(json));
                }
                Err(other) => return Err(other.into()),
            }
        }
        db.commit(batch)?;
        if shown.elapsed() > Duration::from_millis(200) || chunk.end == bytes {
            shown = Instant::now();
            let rate = documents as f64 / began.elapsed().as_secs_f64();
            println!("{:3} %  {documents} documents, {rate:.0}/s", chunk.end * 100 / bytes.max(1));
        }
    }
    Ok((documents, refused))
}

fn generate(file: PathBuf) -> std::io::Result<PathBuf> {
    let mut out = BufWriter::new(File::create(&file)?);
    for id in 0..100_000 {
        writeln!(out, r#"{{"id":{id},"sensor":"s{}","celsius":{}.50}}"#, id % 40, 15 + id % 9)?;
    }
    writeln!(out, r#"{{"sensor":"s7","celsius":}}"#)?;
    out.flush().map(|()| file)
}

fn main() -> Result<()> {
    let in_temp = |error| Error::io("write a file in", &std::env::temp_dir(), error);
    let scratch = tempfile::tempdir().map_err(in_temp)?;
    let mut paths = std::env::args_os().skip(1).map(PathBuf::from);
    let file = paths.next().map_or_else(|| generate(scratch.path().join("readings.jsonl")), Ok);
    let db = Database::open(paths.next().unwrap_or_else(|| scratch.path().join("data")))?;
    let readings = db.collection("readings")?;

    let (documents, refused) = load(&db, &readings, &file.map_err(in_temp)?)?;
    // What was loaded survives a power cut when this has returned.
    db.flush()?;
    println!("{documents} documents loaded, {refused} lines refused, {} kept", readings.count()?);
    db.close()
}
