//! What has happened to connections since the start.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Declares the counters once, for the struct and the list.
macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// What has happened to connections since the start, for metrics and `serverStatus`.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[doc = $doc])* pub(super) $name: Counter,)*
        }

        impl Counters {
            /// Returns the counters by name.
            ///
            /// ```
            /// use flagstone_server::net::Counters;
            /// let counters = Counters::default();
            /// assert!(counters.list().iter().any(|(name, _)| *name == "accepted"));
            /// ```
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.get()),)*]
            }
        }
    };
}

counters! {
    /// Connections that were accepted.
    accepted,
    /// Connections above the limit.
    refused_connections,
    /// Connections before the database was ready, or while the server stops.
    refused_not_ready,
    /// Connections from other machines while there are no users.
    refused_remote,
    /// Accepting that failed, for want of descriptors or memory.
    failed_accepts,
    /// Threads that could not be started.
    failed_threads,
    /// Connections with HTTP.
    http,
    /// TLS that was not agreed on, and its absence where it is required.
    failed_tls,
    /// Requests of HTTP that were answered.
    http_requests,
    /// Messages and requests that are damaged, or longer than allowed.
    bad_messages,
    /// Messages and requests for which there was no room in memory.
    refused_messages,
    /// Logins with a wrong name or password.
    failed_logins,
    /// Requests of HTTP without a login.
    http_without_login,
    /// Requests of HTTP that their user may not make.
    http_forbidden,
    /// Requests of HTTP from another site, or for another host.
    http_foreign,
    /// Clients that took too long to log in.
    login_timeouts,
    /// Clients that took too long to send a message.
    message_timeouts,
    /// Clients that took too long to take a reply.
    reply_timeouts,
    /// Connections that were idle for too long.
    idle_timeouts,
    /// Commands that panicked.
    panics,
    /// Commands that were slow.
    slow_commands,
}
