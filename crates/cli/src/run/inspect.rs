//! `inspect`: prints any file of a database.

use crate::args::InspectArgs;
use crate::failure::Failure;
use crate::output;
use std::fmt::{self, Write};

pub(super) fn run(args: &InspectArgs) -> Result<(), Failure> {
    // A missing file is reported before its name is judged.
    std::fs::metadata(&args.file).map_err(|error| Failure::io("read", &args.file, &error))?;
    let mut out = Pipe { buffer: String::new(), failure: None };
    let inspected = flagstone::internal::inspect::file(&args.file, &mut out);
    let rest = out.flush();
    match out.failure {
        // The readable part of a damaged file has been printed.
        None => rest.map_err(|_same| Failure::OutputClosed).and(Ok(inspected?)),
        Some(failure) => Err(failure),
    }
}

/// Stdout for formatted text.
struct Pipe {
    buffer: String,
    failure: Option<Failure>,
}

impl Pipe {
    fn flush(&mut self) -> fmt::Result {
        let written = output::write_all(self.buffer.as_bytes());
        self.buffer.clear();
        written.map_err(|failure| {
            self.failure = Some(failure);
            fmt::Error
        })
    }
}

impl Write for Pipe {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.buffer.push_str(text);
        if self.buffer.len() < 64 << 10 { Ok(()) } else { self.flush() }
    }
}
