//! The `nm-agent` program, so that a test can run it as a process: Cargo tells a test only of its own package's programs.

use std::process::ExitCode;

fn main() -> ExitCode {
    nm_agent::cli::main()
}
