//! An embedded, partitioned, log-structured storage engine for keys, values and documents.
