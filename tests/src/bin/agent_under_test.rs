//! The `nm-agent` program as a target of this package: Cargo gives a test the paths of its own
//! package's programs only.

use std::process::ExitCode;

fn main() -> ExitCode {
    nm_agent::cli::main()
}
