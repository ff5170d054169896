//! Finds what an isolation level forbids in a recorded history of concurrent transactions.
//!
//! The values are lists: a transaction appends values that are used once, and reads whole lists. So
//! each read tells the order of all writes before it. This is Elle's check of list-append
//! (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations").
//!
//! ```text
//! T1 -ww-> T2   T2 appends right after T1          T1 -rw-> T2   T1 has not read what T2 appends
//! T1 -wr-> T2   T2 reads up to what T1 appends     T1 -rt-> T2   T1 had ended when T2 began
//! ```
//! A circle of these is an anomaly; its name says which of them it needs.

mod anomaly;

mod history;

mod graph;

mod check;

pub use anomaly::{Anomaly, Found, Level};
pub use check::{check, find};
pub use history::{Op, Transaction};
