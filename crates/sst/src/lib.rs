//! The immutable sorted file: blocks, index, filters, writer, reader, block cache.
