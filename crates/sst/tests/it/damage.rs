//! Can bytes hurt? Damaged files are told as such, and nothing panics or takes much memory.
