//! `nm-agent history show` and the options of a role history as people and scripts call them.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// File in the layout of Slider 0.80.
const GOLDEN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../role-history/golden/slider-0.80.json"
);

/// Most bytes that the program may hold while it prints a file of any length. It needs about 10 MB,
/// most of which is the program itself.
const RESIDENT_BYTES_MAX: u64 = 24 << 20;

fn history(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nm-agent"));
    command.arg("history").args(arguments);
    command
}

fn shell(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nm-agent"));
    command.arg("shell").args(arguments).args(["--", "true"]);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Writes the golden file with a text replaced.
fn changed(folder: &Path, from: &str, to: &str) -> PathBuf {
    let path = folder.join("rolehistory-0000015216ced600.json");
    let golden = fs::read_to_string(GOLDEN).unwrap();
    assert!(golden.contains(from), "{from}");
    fs::write(&path, golden.replacen(from, to, 1)).unwrap();
    path
}

#[test]
fn a_path_and_a_file_uri_show_the_same_table() {
    let golden = fs::canonicalize(GOLDEN).unwrap();
    let golden = golden.to_str().unwrap();
    for name in [
        golden.to_owned(),
        format!("file:{golden}"),
        format!("file://{golden}"),
    ] {
        let output = history(&["show", &name]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let table = text(&output.stdout);
        for line in [
            "roles  3\n",
            "role   1 is store\n",
            "2016-01-05 13:20:00  running      store      rack2-n07\n",
            "2016-01-05 10:33:20  1 d 1 h      query      rack3-n01\n",
        ] {
            assert!(table.contains(line), "{line} in {table}");
        }
        assert_eq!(text(&output.stderr), "");
    }
}

#[test]
fn a_check_exits_with_2_and_names_line_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let sound = history(&["show", "--check", GOLDEN]);
    assert_eq!(sound.status.code(), Some(0));
    assert_eq!(text(&sound.stdout), "a complete history of 2 entries\n");
    for (from, to, found) in [
        ("\"role\":4", "\"role\":\"4\"", "line 4: field entry."),
        ("\"version\":1", "\"version\":7", "line 1: version 7"),
        ("\"count\":2", "\"count\":9", "the footer counts 9"),
        ("\"count\":2}}}", "", "the record at line 5 is cut off"),
    ] {
        let path = changed(folder.path(), from, to);
        let output = history(&["show", "--check", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{to}");
        assert!(text(&output.stdout).starts_with(found), "{output:?}");
        assert_eq!(text(&output.stderr), "");
    }
}

#[test]
fn a_broken_file_is_shown_up_to_its_fault_which_goes_to_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = changed(folder.path(), "\"role\":4", "\"role\":4.5");
    let output = history(&["show", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).ends_with("rack2-n07\n"), "{output:?}");
    assert!(
        text(&output.stderr).starts_with("line 4: field entry."),
        "{output:?}"
    );
}

#[test]
fn what_cannot_be_opened_is_said_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    for (name, reason) in [
        (
            "hdfs:///h/f.json",
            "hdfs:/h/f.json names no host, and fs.defaultFS is of another file system",
        ),
        (
            "s3a://bucket/f.json",
            "not a path or file: URI of this machine",
        ),
        (
            "file://other-host/f.json",
            "not a path or file: URI of this machine",
        ),
        (
            folder,
            "is a directory: name one of the files rolehistory-*.json",
        ),
        (
            "/no/such/\u{1b}[2Jfile",
            "cannot open /no/such/\\u{1b}[2Jfile: No such file",
        ),
    ] {
        let output = history(&["show", name]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(text(&output.stderr).contains(reason), "{output:?}");
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn help_says_what_the_table_and_the_exit_status_mean() {
    let output = history(&["show", "--help"]);
    let help = text(&output.stdout);
    for word in [
        "rolehistory-*.json",
        "Exit status:",
        "--check",
        "file: URI",
        "Example:",
    ] {
        assert!(help.contains(word), "{word} in {help}");
    }
}

#[test]
fn a_job_with_a_service_that_cannot_be_is_refused() {
    let output = shell(&["--role-history", "../other"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let reason = "a service has a name of 1 to 80 letters";
    assert!(text(&output.stderr).starts_with(reason), "{output:?}");
    let output = shell(&["--role-history-guaranteed"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        text(&output.stderr).contains("--role-history <NAME>"),
        "{output:?}"
    );
}

#[test]
fn a_long_file_takes_no_more_memory_than_a_short_one() {
    let golden = fs::read_to_string(GOLDEN).unwrap();
    let mut lines = golden.lines();
    let header = lines.next().unwrap();
    let entry = lines.nth(1).unwrap();
    let (before, after) = entry.split_once("rack2-n07").unwrap();
    let host = "n".repeat(4_000);
    let entries = 100 * 1_024 * 1_024 / host.len();
    let mut process = command(&["show", "--check", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    writeln!(input, "{header}").unwrap();
    for number in 0..entries {
        writeln!(input, "{before}{number}.{host}{after}").unwrap();
    }
    // All but the content of the pipe has been read, and the footer is awaited.
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.unwrap().trim().strip_suffix(" kB").unwrap();
    let peak = peak.parse::<u64>().unwrap() * 1_024;
    let footer = golden.lines().last().unwrap();
    let count = format!("\"count\":{entries}");
    writeln!(input, "{}", footer.replacen("\"count\":2", &count, 1)).unwrap();
    drop(input);
    let mut found = String::new();
    process
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut found)
        .unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(0), "{found}");
    assert_eq!(found, format!("a complete history of {entries} entries\n"));
    assert!(peak < RESIDENT_BYTES_MAX, "{peak} bytes");
}
