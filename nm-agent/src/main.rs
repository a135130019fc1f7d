//! The `nm-agent` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    nm_agent::cli::main()
}
