//! An embedded, partitioned, log-structured storage engine for keys, values and documents.

mod options;
mod partition;

mod catalog;
mod manifest;
