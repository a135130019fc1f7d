//! `nm-agent simulate` as a program: its results, its refusals, and a signal in the middle.

#![expect(clippy::unwrap_used, reason = "helpers of tests: they fail with it")]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use job_trace::samples::Sample;
use job_trace::{Format, jobs};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const SCENARIO: &str = r#"
    title = "small"
    cluster = { nodes = 10, places = 4 }
    workload = { jobs = "two", tasks = 10, count = 30, load = 0.7 }
    run = { seeds = 2 }
    arm = [{ policy = "spread" }, { policy = "looks" }]
"#;

fn simulate(folder: &Path, scenario: &str) -> Command {
    let file = folder.join("scenario.toml");
    fs::write(&file, scenario).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nm-agent"));
    command.arg("simulate").arg(file);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[test]
fn a_scenario_becomes_a_table_a_page_and_csv() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let output = simulate(folder.path(), SCENARIO)
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    assert_eq!(status(&output), 0, "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "no terminal, no progress");
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    assert_eq!(read("table.txt"), text(&output.stdout));
    assert!(read("table.txt").contains("spread, list of 10 (ships)"));
    assert_eq!(read("runs.csv").lines().count(), 1 + 2 * 2);
    assert_eq!(read("jobs.csv").lines().count(), 1 + 2 * 2 * 30);
    assert!(read("index.html").contains("<svg"));
}

#[test]
fn a_trace_from_a_pipe_takes_the_place_of_the_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let trace = Sample::new(Format::Sls, 3, 25).text();
    let run = |arguments: &[&str]| {
        let mut command = simulate(folder.path(), SCENARIO);
        command.args(["--trace", "-", "--format", "sls", "--seeds", "1"]);
        let pipes = command.args(arguments).stdin(Stdio::piped());
        let mut running = pipes.stdout(Stdio::piped()).spawn().unwrap();
        let mut input = running.stdin.take().unwrap();
        input.write_all(trace.as_bytes()).unwrap();
        drop(input);
        let output = running.wait_with_output().unwrap();
        assert_eq!(status(&output), 0);
        text(&output.stdout)
    };
    let shown = run(&[]);
    assert!(shown.contains("25 jobs in stages with "), "{shown}");
    assert!(shown.contains("of a trace, as recorded"), "{shown}");
    let surveyed = run(&["--check"]);
    assert!(
        surveyed.contains("The whole trace has 25 jobs"),
        "{surveyed}"
    );
    let csv = run(&["--write-trace", "-"]);
    assert_eq!(
        jobs(Format::Csv, csv.as_bytes())
            .map(Result::unwrap)
            .count(),
        25
    );
}

#[test]
fn a_generated_trace_gives_the_results_of_its_generator() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.csv");
    let mut command = simulate(folder.path(), SCENARIO);
    let output = command.arg("--write-trace").arg(&file).output().unwrap();
    assert_eq!(status(&output), 0);
    let of = |scenario: &str| {
        let out = folder.path().join("results");
        let mut command = simulate(folder.path(), scenario);
        let output = command
            .args(["--seeds", "1", "--out"])
            .arg(&out)
            .output()
            .unwrap();
        assert_eq!(status(&output), 0, "{}", text(&output.stderr));
        fs::read_to_string(out.join("jobs.csv")).unwrap()
    };
    let from_trace = SCENARIO.replace(
        r#"{ jobs = "two", tasks = 10, count = 30, load = 0.7 }"#,
        r#"{ jobs = "trace", trace = "jobs.csv" }"#,
    );
    let work = |csv: &str| {
        let lines = csv
            .lines()
            .skip(1)
            .map(|line| line.split(',').rev().nth(1).unwrap().to_owned());
        lines.collect::<Vec<_>>()
    };
    assert_eq!(work(&of(&from_trace)), work(&of(SCENARIO)));
}

#[test]
fn what_is_no_trace_is_refused_with_status_2_and_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.csv");
    for (rows, expected) in [
        (
            "a,0,1,,1,1000,,,,\na,0,1,,1",
            "jobs.csv: line 3, byte 93: 5 fields in place of 10",
        ),
        (
            "a,0,1,,1,0,,,,\n",
            "jobs.csv: line 2, byte 75: job a: a task of length 0",
        ),
        (
            "big,0,1,,1,1000,8192,1,,\n",
            "jobs.csv: job big: a container of 8192 MB and 1 vcores is larger than any node",
        ),
        ("", "jobs.csv: the trace has no job"),
    ] {
        fs::write(&file, format!("{}\n{rows}", job_trace::csv::HEAD)).unwrap();
        let mut command = simulate(folder.path(), SCENARIO);
        let output = command.arg("--trace").arg(&file).output().unwrap();
        assert_eq!(status(&output), 2);
        let error = text(&output.stderr);
        assert!(error.contains(expected), "{error}");
    }
    let mut command = simulate(folder.path(), SCENARIO);
    let output = command.args(["--trace", "/dev/null"]).output().unwrap();
    assert_eq!(status(&output), 2);
    assert!(text(&output.stderr).contains("--format is one of csv, sls"));
}

#[test]
fn wrong_json_far_inside_a_trace_is_named_with_its_byte() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.json");
    let good = Sample::new(Format::Sls, 3, 5_000).text();
    let lines: Vec<&str> = good.lines().collect();
    // A job is two lines.
    let doubled = lines[lines.len() - 2..].join("\n");
    for (end, expected) in [
        ("{\"job.id\" 5", format!("byte {}: ", good.len() + 11)),
        ("{\"job.id\": \"j\", ", ": cut off: ".to_owned()),
        (&doubled, " comes a second time".to_owned()),
    ] {
        fs::write(&file, format!("{good}{end}")).unwrap();
        let mut command = simulate(folder.path(), SCENARIO);
        command.arg("--trace").arg(&file);
        let output = command.args(["--format", "sls", "--check"]).output();
        let output = output.unwrap();
        assert_eq!(status(&output), 2, "{end}");
        let error = text(&output.stderr);
        let next = lines.len() + 1;
        let line = format!("jobs.json: line {next}, byte ");
        assert!(error.contains(&line), "{error}");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn a_load_that_nobody_can_do_is_simulated_and_said_not_to_settle() {
    let folder = tempfile::tempdir().unwrap();
    let overloaded = SCENARIO
        .replace("count = 30, load = 0.7", "count = 150, load = 1.5")
        .replace("seeds = 2", "seeds = 4")
        .replace("\"spread\"", "\"omniscient-fifo\"");
    let output = simulate(folder.path(), &overloaded).output().unwrap();
    assert_eq!(status(&output), 0, "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let mut unsettled = shown
        .lines()
        .filter(|line| line.ends_with("does not settle"));
    let bound = unsettled.next().unwrap();
    assert!(bound.starts_with("omniscient-fifo"), "{shown}");
    assert!(
        shown.contains("An arm that does not settle has no completion time of its own"),
        "{shown}"
    );
}

#[test]
fn the_settings_of_a_configuration_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let site = "<configuration><property>\
         <name>yarn.resourcemanager.opportunistic-container-allocation.enabled</name>\
         <value>true</value></property></configuration>";
    fs::write(folder.path().join("yarn-site.xml"), site).unwrap();
    let mut command = simulate(folder.path(), SCENARIO);
    let output = command.arg("--conf").arg(folder.path()).arg("--check");
    let output = output.output().unwrap();
    assert_eq!(status(&output), 0, "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(
        shown.contains("\nas configured: central, list of 10 (ships)\n"),
        "{shown}"
    );
}

#[test]
fn what_is_no_scenario_is_refused_with_status_2_and_the_place() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, expected) in [
        ("places = 4", "place = 4", "line 3"),
        ("nodes = 10", "nodes = 0", "cluster.nodes: 0"),
    ] {
        let broken = SCENARIO.replace(from, to);
        let output = simulate(folder.path(), &broken).output().unwrap();
        assert_eq!(status(&output), 2);
        let error = text(&output.stderr);
        assert!(error.contains(expected), "{error}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_nm-agent"));
    let output = command.args(["simulate", "two-10"]).output().unwrap();
    assert_eq!(status(&output), 2);
    assert!(text(&output.stderr).contains("two-1000"));
}

#[test]
fn an_interrupted_simulation_leaves_what_has_ended_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let many = SCENARIO.replace("seeds = 2", "seeds = 1000");
    let mut command = simulate(folder.path(), &many);
    command.arg("--out").arg(&out).stdout(Stdio::piped());
    let mut running = command.spawn().unwrap();
    // The program listens for signals before it creates the folder.
    while !out.exists() {
        assert_eq!(running.try_wait().unwrap(), None);
        std::thread::yield_now();
    }
    kill(
        Pid::from_raw(i32::try_from(running.id()).unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!(status(&output), 130);
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.contains("Partial"));
    assert!(text(&output.stdout).contains("Partial: interrupted"));
}
