//! `bench`: workloads, and where they run.

mod device;
mod document_matrix;
mod documents;
mod durability;
mod matrix;
mod mix;
mod place;
mod report;
mod smoke;
mod stores;
mod ycsb;

use crate::args::{Bench, BenchArgs};
use crate::failure::Failure;
use flagstone_bench::workload::{Asked, Mix, Ycsb};

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
        Bench::Sequential(args) => stores::sequential(args),
        Bench::CachedGet(args) => stores::gets(Asked::Present, args),
        Bench::AbsentGet(args) => stores::gets(Asked::Absent, args),
        Bench::Larger(args) => stores::larger(args),
        Bench::Sizes(args) => stores::sizes(args),
        Bench::FullScan(args) => stores::full_scan(args),
        Bench::Overwrite(args) => stores::overwrite(args),
        Bench::ShortScan(args) => stores::short_scan(args),
        Bench::Load(args) => documents::load(args),
        Bench::Get(args) => documents::get(args),
        Bench::Update(args) => documents::update(args),
        Bench::Device(args) => device::run(args),
        Bench::DocumentMatrix(args) => document_matrix::run(args),
        Bench::Matrix(args) => matrix::run(args),
        Bench::Report(args) => report::run(args),
        Bench::Smoke(args) => smoke::run(args),
    }
}
