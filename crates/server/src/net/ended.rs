//! Why a connection has ended.

use std::fmt;
use std::io;
use std::time::Instant;

/// Why a connection has ended.
#[derive(Debug)]
pub(super) enum Ended {
    ByClient,
    Stopped,
    Http,
    Refused(String),
    /// By a limit of time.
    Late(Late),
    Malformed(String),
    Tls(String),
    Io(io::Error),
    Panicked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    Login,
    Message,
    Reply,
    Idle,
}

/// Until when a client may be silent, and what it is late with then.
#[derive(Clone, Copy)]
pub(super) struct Silence {
    pub(super) deadline: Option<Instant>,
    pub(super) late: Late,
}

impl Silence {
    pub(super) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByClient => f.write_str("the client closed it"),
            Self::Stopped => f.write_str("the server stops"),
            Self::Http => f.write_str("HTTP"),
            Self::Refused(text) | Self::Malformed(text) => f.write_str(text),
            Self::Late(Late::Login) => f.write_str("no login in time (--login-timeout)"),
            Self::Late(Late::Message) => {
                f.write_str("no whole message in time (--message-timeout)")
            }
            Self::Late(Late::Reply) => f.write_str("a reply not taken in time (--reply-timeout)"),
            Self::Late(Late::Idle) => f.write_str("idle (--idle-timeout, --login-idle-timeout)"),
            Self::Tls(text) => write!(f, "TLS: {text}"),
            Self::Io(error) => error.fmt(f),
            Self::Panicked => f.write_str("a command panicked"),
        }
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        match error.get_ref() {
            #[cfg(feature = "tls")]
            Some(inner) if inner.is::<rustls::Error>() => Self::Tls(inner.to_string()),
            _ => Self::Io(error),
        }
    }
}
