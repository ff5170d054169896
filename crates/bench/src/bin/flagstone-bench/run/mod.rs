//! The commands: workloads, where they run, and reports.

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

use crate::args::Command;
use crate::failure::Failure;
use flagstone_bench::workload::{Asked, Mix, Ycsb};

/// Runs a command.
pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::PutHeavy(args) => mix::run(Mix::PUT_HEAVY, args),
        Command::GetHeavy(args) => mix::run(Mix::GET_HEAVY, args),
        Command::DeleteHeavy(args) => mix::run(Mix::DELETE_HEAVY, args),
        Command::Balanced(args) => mix::run(Mix::BALANCED, args),
        Command::YcsbA(args) => ycsb::run(Ycsb::A, args),
        Command::YcsbB(args) => ycsb::run(Ycsb::B, args),
        Command::YcsbC(args) => ycsb::run(Ycsb::C, args),
        Command::YcsbD(args) => ycsb::run(Ycsb::D, args),
        Command::YcsbE(args) => ycsb::run(Ycsb::E, args),
        Command::YcsbF(args) => ycsb::run(Ycsb::F, args),
        Command::Durability(args) => durability::run(args),
        Command::DurableWriters(args) => durability::run_writers(args),
        Command::Sequential(args) => stores::sequential(args),
        Command::CachedGet(args) => stores::gets(Asked::Present, args),
        Command::AbsentGet(args) => stores::gets(Asked::Absent, args),
        Command::Larger(args) => stores::larger(args),
        Command::Sizes(args) => stores::sizes(args),
        Command::FullScan(args) => stores::full_scan(args),
        Command::Overwrite(args) => stores::overwrite(args),
        Command::ShortScan(args) => stores::short_scan(args),
        Command::Load(args) => documents::load(args),
        Command::Get(args) => documents::get(args),
        Command::Update(args) => documents::update(args),
        Command::Device(args) => device::run(args),
        Command::DocumentMatrix(args) => document_matrix::run(args),
        Command::Matrix(args) => matrix::run(args),
        Command::Report(args) => report::run(args),
        Command::Smoke(args) => smoke::run(args),
    }
}
