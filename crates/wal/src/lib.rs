//! The write-ahead log: records, segments, writer, reader.
