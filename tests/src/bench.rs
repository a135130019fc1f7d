//! Start of every benchmark of this crate: reads its arguments, chooses the file system of its
//! files, prints the conditions.
//!
//! `--quick` measures everything with few samples. `--no-java` leaves Hadoop's NodeManager out, as
//! does a missing Java; `--java` insists on it. A benchmark may know more arguments.

mod place;
mod table;

use std::process::ExitCode;

use crate::requirements;

pub use table::{Row, Table, Unit, Value};

/// Exit status for arguments that no benchmark can obey.
const BAD_ARGUMENTS: u8 = 2;

/// Arguments of a benchmark.
#[derive(Debug, Default)]
pub struct Arguments {
    /// Whether everything is measured with few samples.
    pub quick: bool,
    /// Whether Hadoop's NodeManager is measured too.
    pub java: bool,
    /// Further arguments that were given, all of them known to the benchmark.
    others: Vec<String>,
}

impl Arguments {
    /// Returns whether a further argument was given.
    #[must_use]
    pub fn has(&self, argument: &str) -> bool {
        self.others.iter().any(|other| other == argument)
    }
}

/// Reads the arguments, chooses the file system and prints the conditions. `others` are arguments
/// that this benchmark knows beside the common ones.
///
/// # Errors
/// With the exit status, after the reason was printed: an unknown argument, `--java` without Java,
/// or a file system whose figures would mislead.
pub fn start(others: &[&str]) -> Result<Arguments, ExitCode> {
    let arguments = parse(std::env::args().skip(1), others, &requirements::hadoop);
    let arguments = arguments.map_err(|why| {
        eprintln!("{why}");
        ExitCode::from(BAD_ARGUMENTS)
    })?;
    let place = place::choose().map_err(|why| {
        eprintln!("{why}");
        ExitCode::FAILURE
    })?;
    println!("files on: {place}");
    println!("processors: {}", processors());
    println!("load average before: {}", load_average());
    Ok(arguments)
}

/// Returns the number of processors that this process may use; 1 when the kernel does not tell.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn parse(
    given: impl Iterator<Item = String>,
    known: &[&str],
    hadoop: &dyn Fn() -> Result<(), String>,
) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    let mut java = None;
    for argument in given {
        match argument.as_str() {
            "--quick" => arguments.quick = true,
            "--java" => java = Some(true),
            "--no-java" => java = Some(false),
            // Cargo passes this to every benchmark.
            "--bench" => {}
            other if known.contains(&other) => arguments.others.push(argument),
            other => {
                let known = [&["--quick", "--java", "--no-java"], known].concat();
                return Err(format!(
                    "unknown argument {other}; known are {}",
                    known.join(", ")
                ));
            }
        }
    }
    arguments.java = match java {
        Some(false) => false,
        Some(true) => hadoop().map(|()| true)?,
        None => hadoop()
            .inspect_err(|why| println!("without Hadoop's NodeManager: {why}"))
            .is_ok(),
    };
    Ok(arguments)
}

/// Returns the load average: other work on the machine makes every figure worse, though not all
/// alike.
fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg").map_or_else(
        |error| error.to_string(),
        |text| text.split(' ').take(3).collect::<Vec<_>>().join(" "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(given: &[&str], has_java: bool) -> Result<Arguments, String> {
        let given = given.iter().map(|argument| (*argument).to_owned());
        let hadoop = || has_java.then_some(()).ok_or_else(|| "no Java".to_owned());
        parse(given, &["--classes"], &hadoop)
    }

    #[test]
    fn java_is_left_out_when_it_is_missing_unless_it_is_required() {
        assert!(parsed(&["--bench"], true).unwrap().java);
        assert!(!parsed(&["--bench"], false).unwrap().java);
        assert!(!parsed(&["--no-java"], true).unwrap().java);
        assert_eq!(parsed(&["--java"], false).unwrap_err(), "no Java");
    }

    #[test]
    fn only_known_arguments_are_taken() {
        let arguments = parsed(&["--quick", "--classes"], false).unwrap();
        assert!(arguments.quick && arguments.has("--classes"));
        assert!(parsed(&["--clases"], false).is_err());
    }
}
