//! Are these the bytes? What version 1 writes never changes.
