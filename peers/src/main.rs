//! The workloads of flagstone over other engines.

mod engines;

fn main() {
    println!("{}", engines::KINDS.len());
}
