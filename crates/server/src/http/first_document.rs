//! The first document of a load's body. It is checked before the collection is created, so that a
//! body that is no good leaves no empty collection.

use super::response::{Arrived, Exchange};
use crate::failure::{Code, Failure, Outcome};
use flagstone::Document;
use flagstone::doc::JsonOptions;
use flagstone::internal::document::JsonParser;
use flagstone_load::Key;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How messages name the body.
pub(super) const NAME: &str = "the body";

/// How long one read waits.
const WAIT: Duration = Duration::from_secs(1);

/// What goes from the socket to the load.
pub(super) enum Piece {
    Bytes(Vec<u8>),
    End,
    Cut(String),
}

impl Piece {
    /// Returns what has arrived; `None` for nothing.
    pub(super) fn of(arrived: Arrived) -> Option<Self> {
        Some(match arrived {
            Arrived::Bytes(bytes) => Self::Bytes(bytes),
            Arrived::Nothing => return None,
            Arrived::End => Self::End,
            Arrived::Cut(why) => Self::Cut(why),
            Arrived::Stopping => Self::Cut("the server is shutting down".to_owned()),
        })
    }
}

/// The most of a body in which its first line is looked for.
const FIRST_BYTES_MAX: usize = 64 << 10;

/// How the first document of a body is checked.
pub(super) struct First {
    pub(super) json: JsonOptions,
    pub(super) key: Key,
    /// Whether it is checked at all.
    pub(super) looks: bool,
}

impl First {
    /// Reads the first line, checks the document in it, and adds what was read to `ahead`.
    ///
    /// # Errors
    /// If the load would end at that document, or the server stops.
    pub(super) fn read(&self, exchange: &mut dyn Exchange, ahead: &mut VecDeque<Piece>) -> Outcome {
        let bad = |text: String| Err(Failure::new(Code::FailedToParse, text));
        let (mut text, mut is_whole) = (Vec::new(), false);
        while self.looks && !is_whole && text.len() < FIRST_BYTES_MAX && !text.contains(&b'\n') {
            let arrived = exchange.read(Instant::now() + WAIT);
            if matches!(arrived, Arrived::Stopping) {
                return Err(interrupted());
            }
            let piece = Piece::of(arrived);
            match &piece {
                Some(Piece::Bytes(bytes)) => text.extend_from_slice(bytes),
                Some(Piece::End) => is_whole = true,
                Some(Piece::Cut(why)) => return bad(format!("{NAME}: {why}")),
                None => {}
            }
            ahead.extend(piece);
        }
        let line = match memchr::memchr(b'\n', &text) {
            Some(end) => &text[..end],
            None if is_whole => &text,
            None => return Ok(()),
        };
        // Compressed text and arrays are left to the load.
        let is_one = str::from_utf8(line).is_ok_and(|line| {
            let line = line.trim_ascii_start();
            !line.is_empty() && !line.starts_with(['[', '\u{FEFF}'])
        });
        if !is_one {
            return Ok(());
        }
        let document = match JsonParser::new(self.json).parse_value(line) {
            Ok(document) => document,
            // It may go on in the next line.
            Err(error) if error.offset >= line.trim_ascii_end().len() => return Ok(()),
            Err(error) => return bad(format!("{NAME}:1:{}: {error}", error.offset + 1)),
        };
        let document = match Document::from_value(&document) {
            Ok(document) => document,
            Err(error) => return bad(error.to_string()),
        };
        let missing = |path: &&String| !matches!(document.root().path(path.as_str()), Ok(Some(_)));
        match self.key.paths().iter().find(missing) {
            Some(path) => bad(format!("{NAME}:1: there is no field {path:?} to take the key from")),
            None => Ok(()),
        }
    }
}

/// The failure of a load that the end of the server has stopped.
pub(super) fn interrupted() -> Failure {
    let text = "the load was stopped: the server is shutting down";
    Failure::new(Code::InterruptedAtShutdown, text)
}
