//! `bench`: workloads, and where they run.

mod durability;
mod matrix;
mod mix;
mod place;
mod report;
mod smoke;
mod ycsb;

use crate::args::{Bench, BenchArgs};
use crate::failure::Failure;
use flagstone_bench::workload::{Mix, Ycsb};

/// Does what a workload's arguments say.
pub(super) fn run(args: &BenchArgs) -> Result<(), Failure> {
    match &args.workload {
        Bench::PutHeavy(args) => mix::run(Mix::PUT_HEAVY, args),
        Bench::GetHeavy(args) => mix::run(Mix::GET_HEAVY, args),
        Bench::DeleteHeavy(args) => mix::run(Mix::DELETE_HEAVY, args),
        Bench::Balanced(args) => mix::run(Mix::BALANCED, args),
        Bench::YcsbA(args) => ycsb::run(Ycsb::A, args),
        Bench::YcsbB(args) => ycsb::run(Ycsb::B, args),
        Bench::YcsbC(args) => ycsb::run(Ycsb::C, args),
        Bench::YcsbD(args) => ycsb::run(Ycsb::D, args),
        Bench::YcsbE(args) => ycsb::run(Ycsb::E, args),
        Bench::YcsbF(args) => ycsb::run(Ycsb::F, args),
        Bench::Durability(args) => durability::run(args),
        Bench::DurableWriters(args) => durability::run_writers(args),
        Bench::Matrix(args) => matrix::run(args),
        Bench::Report(args) => report::run(args),
        Bench::Smoke(args) => smoke::run(args),
    }
}
