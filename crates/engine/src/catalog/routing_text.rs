//! The text form of a routing, for messages and dumps.

use crate::options::Routing;
use std::fmt;

/// Displays a routing, with at most four of its bounds.
pub(super) struct RoutingText<'a>(pub(super) &'a Routing);

impl fmt::Display for RoutingText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 4;
        let bounds = match self.0 {
            Routing::Hash(1) => return f.write_str("1 hash partition"),
            Routing::Hash(n) => return write!(f, "{n} hash partitions"),
            Routing::Auto => return f.write_str("1 key range"),
            Routing::Range(bounds) if bounds.is_empty() => return f.write_str("1 key range"),
            Routing::Range(bounds) => bounds,
        };
        write!(f, "{} key ranges cut at", bounds.len() + 1)?;
        for bound in bounds.iter().take(SHOWN) {
            write!(f, " {}", bound[..bound.len().min(32)].escape_ascii())?;
        }
        if bounds.len() > SHOWN { f.write_str(" ..") } else { Ok(()) }
    }
}
