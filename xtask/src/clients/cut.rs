//! A port in front of a server that loses connections where the messages ask for it: after a
//! message with the text `cut reply NAME` the server's reply is dropped, and a message of the
//! server with `cut event NAME` is. Each name counts once, so that what is sent again goes through.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The port, which is open until the process ends.
pub(super) struct Cut {
    pub(super) port: u16,
    seen: Arc<Mutex<HashSet<Vec<u8>>>>,
}

impl Cut {
    /// Returns how many connections were lost.
    pub(super) fn cuts(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

/// Opens a port in front of `server` of this machine.
pub(super) fn start(server: u16) -> io::Result<Cut> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let marks = Arc::clone(&seen);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A connection that cannot be made is one that the client sees closed.
            let _ = connect(client, server, &marks);
        }
    });
    Ok(Cut { port, seen })
}

fn connect(client: TcpStream, server: u16, seen: &Arc<Mutex<HashSet<Vec<u8>>>>) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server))?;
    let drops_reply = Arc::new(AtomicBool::new(false));
    for (from, to, kind) in [
        (client.try_clone()?, server.try_clone()?, &b"cut reply "[..]),
        (server, client, &b"cut event "[..]),
    ] {
        let (seen, drops_reply) = (Arc::clone(seen), Arc::clone(&drops_reply));
        std::thread::spawn(move || {
            pass(&from, &to, |message| {
                let is_reply = kind == b"cut reply ";
                let is_new = mark(message, kind)
                    .is_some_and(|mark| seen.lock().unwrap().insert(mark.to_vec()));
                if is_reply {
                    drops_reply.fetch_or(is_new, Ordering::AcqRel);
                    true
                } else {
                    !is_new && !drops_reply.load(Ordering::Acquire)
                }
            });
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}

/// Passes messages on until one side ends, or one may not pass.
fn pass(mut from: &TcpStream, mut to: &TcpStream, may_pass: impl Fn(&[u8]) -> bool) {
    while let Ok(message) = read(&mut from) {
        if !may_pass(&message) || to.write_all(&message).is_err() {
            return;
        }
    }
}

/// Reads a message: its length comes first, and counts itself.
fn read(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let rest = u64::from(u32::from_le_bytes(len)).saturating_sub(4);
    let mut message = len.to_vec();
    if from.take(rest).read_to_end(&mut message)? as u64 != rest {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(message)
}

/// Returns the mark of this kind in a message, with its name.
fn mark<'m>(message: &'m [u8], kind: &[u8]) -> Option<&'m [u8]> {
    let start = message.windows(kind.len()).position(|window| window == kind)?;
    let name = message[start + kind.len()..].iter().take_while(|byte| byte.is_ascii_alphanumeric());
    Some(&message[start..start + kind.len() + name.count()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_with_their_names() {
        assert_eq!(mark(b"..cut reply js1\0..", b"cut reply "), Some(&b"cut reply js1"[..]));
        assert_eq!(mark(b"..cut reply js1", b"cut event "), None);
        assert_eq!(mark(b"", b"cut event "), None);
    }

    #[test]
    fn the_reply_to_a_marked_message_is_lost_once() {
        let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let cut = start(server.local_addr().unwrap().port()).unwrap();
        std::thread::spawn(move || {
            for stream in server.incoming().flatten() {
                let mut from = &stream;
                while let Ok(message) = read(&mut from) {
                    (&stream).write_all(&message).unwrap();
                }
            }
        });
        let message = |text: &str| {
            let len = u32::try_from(text.len() + 4).unwrap().to_le_bytes();
            [&len[..], text.as_bytes()].concat()
        };
        let ask = |text: &str| {
            let mut stream = TcpStream::connect(("127.0.0.1", cut.port)).unwrap();
            stream.write_all(&message(text)).unwrap();
            read(&mut stream).ok()
        };
        assert_eq!(ask("plain"), Some(message("plain")));
        for text in ["a cut reply x1", "a cut event x2"] {
            assert_eq!(ask(text), None);
            assert_eq!(ask(text), Some(message(text)));
        }
        assert_eq!(cut.cuts(), 2);
    }
}
