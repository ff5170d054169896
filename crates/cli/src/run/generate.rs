//! `generate`: realistic data as JSON lines.

use crate::args::{CommentsArgs, Generate, GenerateArgs};
use crate::failure::Failure;
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
    let made: io::Result<u64> = match output {
        Some(path) => {
            let mut file = File::create(path).map_err(|e| Failure::io("create", path, &e))?;
            make(&mut file)
        }
        None => make(&mut io::stdout().lock()),
    };
    let bytes = made.map_err(|error| match (error.kind(), output) {
        (ErrorKind::BrokenPipe, None) => Failure::OutputClosed,
        (_, output) => Failure::io("write", output.unwrap_or(Path::new("stdout")), &error),
    })?;
    if output.is_some() {
        let took = started.elapsed();
        let (count, rate) = (counted(args.count, "comment"), show_bytes(per_second(bytes, took)));
        note(&format!("{count}, {} in {:.1} s: {rate}/s", show_bytes(bytes), took.as_secs_f64()));
    }
    Ok(())
}
