//! `generate`: realistic data as JSON lines.

use super::target;
use crate::args::{CommentsArgs, Generate, GenerateArgs};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::note;
use crate::units::{counted, per_second, show_bytes};
use flagstone_comments::Comments;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::Instant;

pub(super) fn run(args: &GenerateArgs) -> Result<(), Failure> {
    match &args.what {
        Generate::Comments(args) => comments(args),
    }
}

/// A file that takes no more once a stop was requested.
struct Stopping(File);

impl Write for Stopping {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if interrupt::is_asked() {
            return Err(io::Error::other("stopped"));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn comments(args: &CommentsArgs) -> Result<(), Failure> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or_else(cores, usize::from);
    let started = Instant::now();
    let make = |writer: &mut dyn Write| {
        let made = Comments::new(args.seed).generate(0..args.count, threads, writer)?;
        writer.flush()?;
        Ok(made)
    };
    let output = args.output.as_deref().filter(|path| *path != Path::new("-"));
    let failed = |error: io::Error, path: &Path| match error.kind() {
        _ if interrupt::is_asked() => Failure::Interrupted("stopped before the end".to_owned()),
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::io("write", path, &error),
    };
    let bytes = match output {
        Some(path) => target::write(path, |file, path| {
            make(&mut Stopping(file)).map_err(|error| failed(error, path))
        })?,
        None => make(&mut io::stdout().lock()).map_err(|e| failed(e, Path::new("stdout")))?,
    };
    if output.is_some() {
        let took = started.elapsed();
        let (count, rate) = (counted(args.count, "comment"), show_bytes(per_second(bytes, took)));
        note(&format!("{count}, {} in {:.1} s: {rate}/s", show_bytes(bytes), took.as_secs_f64()));
    }
    Ok(())
}
