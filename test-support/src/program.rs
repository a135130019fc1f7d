//! Programs that tests write and execute.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program that everybody may execute. Another process writes the file: this one would
/// have it open for writing, and so would for a moment each child that another test starts just
/// then, and no such file can be executed (`ETXTBSY` of execve(2)).
///
/// # Panics
/// When it cannot be written.
pub fn write_program(path: &Path, text: &str) {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path);
    let child = shell.stdin(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("sh: {error}"));
    if let Some(mut input) = child.stdin.take() {
        let written = input.write_all(text.as_bytes());
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let status = child.wait();
    let status = status.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(status.success(), "{}: {status}", path.display());
}
