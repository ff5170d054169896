//! Transactions: what they see, what they promise beside others, and what they refuse.

mod conditions;
mod documents;
mod expiry;
mod histories;
mod indexes;
mod refused;
mod scans;
mod serializable;
mod snapshots;
