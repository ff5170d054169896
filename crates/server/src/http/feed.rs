//! The body of a load as the load reads it.

use super::asked::RoutedRequest;
use super::response::Arrived;
use crossbeam_channel::Receiver;
use std::io::{self, Read};

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

/// How a body is compressed, as its head says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// As its first bytes say.
    Any,
    Gzip,
    Zstd,
}

impl Packing {
    /// Returns `None` if the head says anything else.
    pub(super) fn of(asked: &RoutedRequest<'_>) -> Option<Self> {
        let head = asked.request.head;
        let mut codings = head.list("content-encoding").map(str::to_ascii_lowercase);
        match (codings.next().as_deref(), codings.next()) {
            (None | Some("identity"), None) => {}
            (Some("gzip" | "x-gzip"), None) => return Some(Self::Gzip),
            (Some("zstd"), None) => return Some(Self::Zstd),
            _ => return None,
        }
        Some(match head.content_type().as_str() {
            "application/gzip" | "application/x-gzip" => Self::Gzip,
            "application/zstd" => Self::Zstd,
            _ => Self::Any,
        })
    }

    fn fits(self, head: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Gzip => head.starts_with(&[0x1F, 0x8B]),
            Self::Zstd => matches!(head, [0x28 | 0x50..=0x5F, 0xB5 | 0x2A, ..]),
        }
    }
}

/// The pieces of the body.
pub(super) struct Feed {
    pieces: Receiver<Piece>,
    /// What the first bytes must be.
    packing: Packing,
    piece: Vec<u8>,
    at: usize,
    has_ended: bool,
}

impl Feed {
    pub(super) const fn new(pieces: Receiver<Piece>, packing: Packing) -> Self {
        Self { pieces, packing, piece: Vec::new(), at: 0, has_ended: false }
    }

    /// Receives the next piece. Returns false at the end.
    fn receive(&mut self) -> io::Result<bool> {
        match self.pieces.recv() {
            Ok(Piece::Bytes(bytes)) => {
                self.piece.drain(..self.at);
                self.at = 0;
                if self.piece.is_empty() {
                    self.piece = bytes;
                } else {
                    self.piece.extend_from_slice(&bytes);
                }
                Ok(true)
            }
            Ok(Piece::End) => {
                self.has_ended = true;
                Ok(false)
            }
            Ok(Piece::Cut(why)) => Err(io::Error::other(why)),
            Err(_dropped) => Err(io::Error::other("the connection has ended in it")),
        }
    }

    /// Refuses a body that is not compressed as its head says.
    fn check_packing(&mut self) -> io::Result<()> {
        while self.packing != Packing::Any && !self.has_ended && self.piece.len() < 2 {
            self.receive()?;
        }
        if !(self.packing.fits(&self.piece) || self.piece.is_empty()) {
            let text = "it is not compressed as Content-Encoding or Content-Type says";
            return Err(io::Error::other(text));
        }
        self.packing = Packing::Any;
        Ok(())
    }
}

impl Read for Feed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.check_packing()?;
        while self.at == self.piece.len() {
            if self.has_ended || !self.receive()? {
                return Ok(0);
            }
        }
        let count = (&self.piece[self.at..]).read(buffer)?;
        self.at += count;
        Ok(count)
    }
}
