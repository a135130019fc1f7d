//! Hadoop's own command line tool, `yarn`: several commands in one JVM.

use std::path::Path;

use crate::java;
use crate::lab::Lab;

/// Output of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub text: String,
}

/// Runs these commands, each the words after `yarn`, one after the other as clients of the lab's
/// ResourceManager.
///
/// # Panics
/// When Java does not run, or prints something else than the commands' outputs.
#[must_use]
#[track_caller]
pub fn run(lab: &Lab, commands: &[&str]) -> Vec<Printed> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/YarnCommands.java");
    let mut command = java::source_command_at(&lab.conf(), &source);
    command.args(commands.join(" -- ").split(' '));
    let output = command.output().expect("a required Java runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    let printed: Vec<_> = format!("\n{text}")
        .split("\n== ")
        .skip(1)
        .map(parse)
        .collect();
    assert_eq!(printed.len(), commands.len(), "{text}\n{errors}");
    printed
}

fn parse(text: &str) -> Printed {
    let (status, text) = text.split_once('\n').unwrap_or((text, ""));
    Printed {
        status: status
            .parse()
            .unwrap_or_else(|_| panic!("{status} is no status")),
        text: text.to_owned(),
    }
}
