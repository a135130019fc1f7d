//! The log of the agents and the ResourceManager, written to a file apart from the story.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Mutex;

use program::logging::Format;

/// Lines shown of the log when something went wrong: it goes with its folder.
const TAIL_LINES: usize = 20;

/// Logs to `file`, or to standard error when `NM_AGENT_LOG` says what is wanted.
pub(super) fn start(environment: &BTreeMap<String, String>, file: &Path) -> io::Result<()> {
    let _filter_stays = match environment.get("NM_AGENT_LOG") {
        Some(level) => {
            program::logging::start(level, Format::Text, io::stderr, io::stderr().is_terminal())
        }
        None => {
            program::logging::start("info", Format::Text, Mutex::new(File::create(file)?), false)
        }
    };
    Ok(())
}

/// The last lines of the log; none when it went to standard error.
pub(super) fn tail(file: &Path) -> Vec<String> {
    // Tens of kilobytes: a story is short.
    let log = fs::read(file).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    let first = lines.len().saturating_sub(TAIL_LINES);
    lines[first..].iter().map(|&line| line.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_last_lines_and_nothing_of_a_file_that_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        assert!(tail(&file).is_empty());
        let text: Vec<String> = (0..50).map(|line| line.to_string()).collect();
        fs::write(&file, text.join("\n")).unwrap();
        assert_eq!(tail(&file), text[30..]);
    }
}
