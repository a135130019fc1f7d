//! Tests that this machine cannot run: skipped with one line on standard error, or failed where the
//! machine is said to be complete.

use std::fmt::Display;
use std::io::Write as _;

/// Variable that makes a missing requirement fail a test instead of skipping it. `1`: programs that
/// could be installed. `kernel`: also interfaces that this kernel lacks, as in the guest.
pub const REQUIRE_ALL: &str = "NM_AGENT_REQUIRE_ALL";

/// Prints that a test is skipped for want of a program, as `SKIPPED: <test>: <why>`.
///
/// # Panics
/// When [`REQUIRE_ALL`] is `1` or `kernel`.
pub fn skip(test: &str, why: &dyn Display) {
    let required = std::env::var(REQUIRE_ALL).unwrap_or_default();
    assert!(
        required != "1" && required != "kernel",
        "{test} would be skipped although {REQUIRE_ALL}={required}: {why}"
    );
    print_line(&format!("SKIPPED: {test}: {why}"));
}

/// Prints that a test is skipped for want of a kernel interface, as
/// `SKIPPED BY KERNEL: <test>: <why>`.
///
/// # Panics
/// When [`REQUIRE_ALL`] is `kernel`.
pub fn skip_by_kernel(test: &str, why: &dyn Display) {
    assert!(
        std::env::var(REQUIRE_ALL).as_deref() != Ok("kernel"),
        "{test} would be skipped although {REQUIRE_ALL}=kernel: {why}"
    );
    print_skipped_by_kernel(test, why);
}

/// Prints `SKIPPED BY KERNEL: <test>: <why>` for a test, or a part of one, that no complete machine
/// can run: of interfaces that exclude each other only some are there.
pub fn print_skipped_by_kernel(test: &str, why: &dyn Display) {
    print_line(&format!("SKIPPED BY KERNEL: {test}: {why}"));
}

/// Writes one line to the real standard error, past the test harness's capturing of output. It
/// begins with a line break, since the harness may have left its own line unfinished.
pub fn print_line(line: &str) {
    // A closed standard error is no reason to fail a test.
    drop(writeln!(std::io::stderr().lock(), "\n{line}"));
}
