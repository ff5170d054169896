//! Reads of ranges: pages of buckets, merged in the order of their keys or one after another.

mod count;
mod pages;
mod rows;
mod sample;

pub(crate) use count::{about, count, mean_bytes};
pub(crate) use rows::Scan;
pub(crate) use sample::sample;
