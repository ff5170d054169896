//! The program `flagstone-bench`: tables on stdout, everything else on stderr.

use std::process::ExitCode;

fn main() -> ExitCode {
    flagstone_bench::command::main()
}
