//! The commands of operators on `nm-agent rm` and agents: what they print, and their exit statuses.

mod policy;
mod reload;
mod restart;

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Output};

use serde_json::Value;
use tests::process::Process;
use tests::wait;

use crate::AGENT;
use crate::shell::cluster::{Cluster, DEADLINE};

/// Arguments of a job with two containers of a slot each, which a node has room for.
const TWO: [&str; 6] = ["--type", "opportunistic", "-n", "2", "--memory", "512"];

/// Arguments of a job with five of them.
const FIVE: [&str; 6] = ["--type", "opportunistic", "-n", "5", "--memory", "512"];

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the output is text")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the output is text")
}

/// Runs a command with `--json` that succeeds.
#[track_caller]
fn json(cluster: &Cluster, command: &str, arguments: &[&str]) -> Value {
    let output = cluster.operate(0, command, &[arguments, &["--json"]].concat());
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    serde_json::from_str(&out(&output)).expect("the output is JSON")
}

/// Returns arguments of `nm-agent shell` for a job whose containers wait for a gate.
fn gated<'a>(job: &[&'a str], command: &'a str) -> Vec<&'a str> {
    [job, &["--", "sh", "-c", command]].concat()
}

/// Waits until this many containers wait in the node's queue.
#[track_caller]
fn wait_queued(cluster: &Cluster, expected: u64) {
    wait::until("the queue", DEADLINE, || {
        let status = json(cluster, "status", &[]);
        wait::check(status["waiting"] == expected, format!("{status}"))
    });
}

#[test]
fn status_and_queue_show_what_runs_and_what_waits() {
    let cluster = Cluster::start(1);
    let idle = cluster.operate(0, "status", &[]);
    assert_eq!(code(&idle), Some(0), "{}", err(&idle));
    assert!(
        out(&idle).contains("health            healthy\n"),
        "{}",
        out(&idle)
    );
    let empty = cluster.operate(0, "queue", &[]);
    assert_eq!(
        (code(&empty), out(&empty).as_str()),
        (Some(0), "Nothing waits.\n")
    );

    let command = cluster.waiting_command("gate");
    let job = cluster.shell("shell", &gated(&FIVE, &command));
    cluster.wait_waiting("gate", 2);
    wait_queued(&cluster, 3);
    let status = json(&cluster, "status", &[]);
    assert_eq!(status["running_opportunistic"], 2, "{status}");
    assert_eq!(status["resource_manager"], "registered", "{status}");
    let queue = json(&cluster, "queue", &[]);
    let places: Vec<_> = queue["containers"].as_array().unwrap().iter().collect();
    assert_eq!(places.len(), 3, "{queue}");
    assert_eq!(
        (&places[0]["place"], &places[2]["place"]),
        (&1.into(), &3.into())
    );
    let text = out(&cluster.operate(0, "queue", &["--first", "1"]));
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("place  container "), "{text}");
    assert!(
        lines[1].contains(places[0]["container"].as_str().unwrap()),
        "{text}"
    );
    assert_eq!(lines[2], "and 2 more", "{text}");
    cluster.open("gate");
    drop(job);
}

#[test]
fn two_that_fit_leave_the_queue_empty() {
    let cluster = Cluster::start(1);
    let command = cluster.waiting_command("gate");
    let job = cluster.shell("shell", &gated(&TWO, &command));
    cluster.wait_waiting("gate", 2);
    assert_eq!(json(&cluster, "queue", &[])["total"], 0);
    cluster.open("gate");
    drop(job);
}

#[test]
fn a_node_that_does_not_run_and_a_path_that_is_no_socket_have_their_exit_status() {
    let cluster = Cluster::start(1);
    let nowhere = cluster.folder().join("nowhere.sock");
    let socket = ["--socket", nowhere.to_str().unwrap()];
    for command in ["status", "queue"] {
        let output = cluster.operate(0, command, &socket);
        assert_eq!(code(&output), Some(3), "{}", err(&output));
        assert!(
            err(&output).contains("no agent answers on"),
            "{}",
            err(&output)
        );
        assert_eq!(out(&output), "");
    }
    let misspelled = cluster.operate(0, "status", &["--jsn"]);
    assert_eq!(code(&misspelled), Some(2));
}

#[test]
fn another_user_may_not_ask_without_a_group() {
    tests::require!(root);
    let cluster = Cluster::start(1);
    let refused = cluster.operate_as(65_534, 0, "status");
    assert_eq!(code(&refused), Some(4), "{}", err(&refused));
    assert!(
        err(&refused).contains("not for this user"),
        "{}",
        err(&refused)
    );
}

/// Returns a counter of a node.
#[track_caller]
fn counter(cluster: &Cluster, node: usize, series: &str) -> f64 {
    let page = tests::http::get(&cluster.node_url(node, "metrics")).expect("the node answers");
    let line = page.body.lines().find_map(|line| line.strip_prefix(series));
    line.and_then(|value| value.trim().parse().ok())
        .unwrap_or(0.0)
}

/// Returns what the ResourceManager knows of a node.
fn at_rm(cluster: &Cluster, number: usize) -> Result<Value, String> {
    let states = "nodes?states=RUNNING,UNHEALTHY";
    let nodes = cluster.rest(states)?;
    let id = json(cluster, "status", &[])["node_id"].clone();
    let list = nodes["nodes"]["node"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let found = list
        .into_iter()
        .find(|node| (node["id"] == id) == (number == 0));
    found.ok_or_else(|| format!("{nodes}"))
}

#[test]
fn a_drained_node_gets_nothing_opportunistic_until_the_drain_is_cancelled() {
    let cluster = Cluster::start(2);
    let reason = ["--reason", "new kernel"];
    let drained = cluster.operate(0, "drain", &[&reason[..], &["--wait"]].concat());
    assert_eq!(code(&drained), Some(0), "{}", err(&drained));
    assert!(out(&drained).contains("graceful, by "), "{}", out(&drained));
    assert!(
        out(&drained).contains(": new kernel; 0 opportunistic"),
        "{}",
        out(&drained)
    );
    wait::until("the reason at the ResourceManager", DEADLINE, || {
        let node = at_rm(&cluster, 0)?;
        let report = node["healthReport"].as_str().unwrap_or_default();
        let is_told = node["state"] == "RUNNING" && report.ends_with("(graceful): new kernel");
        wait::check(is_told, format!("{node}"))
    });
    // The node before the ResourceManager's next sort may still be offered.
    let command = cluster.waiting_command("gate");
    let job = cluster.shell("shell", &gated(&FIVE, &command));
    wait::until("all on the other node", DEADLINE, || {
        let node = cluster.of_node(1, "live.json")?;
        let (running, waiting) = (&node["running"], &node["queue"]);
        let is_there = running["opportunistic"] == 2 && waiting["length"] == 3;
        wait::check(is_there, format!("{running} {waiting}"))
    });
    assert_eq!(json(&cluster, "status", &[])["running_opportunistic"], 0);
    let health = tests::http::get(&cluster.node_url(0, "health")).unwrap();
    assert!(health.body.ends_with(": new kernel\n"), "{}", health.body);
    wait::until("the metrics", DEADLINE, || {
        let draining = counter(&cluster, 0, "nm_agent_draining ");
        wait::check(draining == 1.0, draining.to_string())
    });

    let cancelled = cluster.operate(0, "drain", &["--cancel"]);
    assert_eq!(out(&cancelled), "The node is back in service.\n");
    // Readers of metrics share a snapshot for a moment.
    wait::until("the metrics", DEADLINE, || {
        let draining = counter(&cluster, 0, "nm_agent_draining ");
        wait::check(draining == 0.0, draining.to_string())
    });
    cluster.open("gate");
    drop(job);
}

#[test]
fn a_quick_drain_with_time_lets_containers_end_and_then_ends_them() {
    let cluster = Cluster::start(1);
    let command = cluster.waiting_command("gate");
    let job = cluster.shell("shell", &gated(&FIVE, &command));
    cluster.wait_waiting("gate", 2);
    let within = [
        "--mode",
        "quick",
        "--within",
        "1h",
        "--wait",
        "--timeout",
        "1s",
    ];
    let early = cluster.operate(0, "drain", &within);
    assert_eq!(code(&early), Some(1), "{}", out(&early));
    assert!(err(&early).contains("not drained yet"), "{}", err(&early));
    assert_eq!(json(&cluster, "status", &[])["waiting"], 0);
    assert_eq!(json(&cluster, "status", &[])["running_opportunistic"], 2);
    // Who only waits changes nothing about it.
    let waits = cluster.operate(0, "drain", &["--wait", "--timeout", "10ms"]);
    assert_eq!(code(&waits), Some(1), "{}", err(&waits));
    assert!(err(&waits).contains("quick, by "), "{}", err(&waits));
    let now = cluster.operate(0, "drain", &["--mode", "quick", "--wait"]);
    assert_eq!(code(&now), Some(0), "{}", err(&now));
    assert_eq!(json(&cluster, "status", &[])["running_opportunistic"], 0);
    drop(job);
}

#[test]
fn a_fast_drain_ends_all_and_the_resource_manager_takes_the_node_for_unhealthy() {
    let cluster = Cluster::start(1);
    let command = cluster.waiting_command("gate");
    let guaranteed = ["-n", "2", "--memory", "512"];
    let job = cluster.shell("shell", &gated(&guaranteed, &command));
    cluster.wait_waiting("gate", 2);
    let drained = cluster.operate(
        0,
        "drain",
        &["--mode", "fast", "--wait", "--timeout", "60s"],
    );
    assert_eq!(code(&drained), Some(0), "{}", err(&drained));
    cluster.assert_no_process_is_left();
    let is = |state: &str| {
        wait::until(state, DEADLINE, || {
            let node = at_rm(&cluster, 0)?;
            wait::check(node["state"] == state, format!("{node}"))
        });
    };
    is("UNHEALTHY");
    let status = out(&cluster.operate(0, "status", &[]));
    assert!(status.contains("drained           fast, by "), "{status}");
    assert_eq!(code(&cluster.operate(0, "drain", &["--cancel"])), Some(0));
    is("RUNNING");
    drop(job);
}

#[test]
fn a_reason_with_a_line_feed_and_a_duration_without_a_unit_are_refused() {
    let cluster = Cluster::start(1);
    let bad = cluster.operate(0, "drain", &["--reason", "a\nb"]);
    assert_eq!(code(&bad), Some(1));
    assert!(
        err(&bad).contains("one line of at most 200 characters"),
        "{}",
        err(&bad)
    );
    assert_eq!(
        code(&cluster.operate(0, "drain", &["--within", "10"])),
        Some(2)
    );
    assert_eq!(json(&cluster, "status", &[])["drain"], Value::Null);
    let nothing = cluster.operate(0, "drain", &["--cancel"]);
    assert_eq!(
        out(&nothing),
        "The node was not drained; it is in service.\n"
    );
}

/// Returns the texts of a container's steps.
fn steps(cluster: &Cluster, container: &str) -> Vec<String> {
    let explanation = json(cluster, "explain", &[container]);
    let steps = explanation["steps"].as_array().expect("there are steps");
    let text = |step: &Value| step["text"].as_str().unwrap_or_default().to_owned();
    steps.iter().map(text).collect()
}

#[test]
fn explain_tells_why_a_container_waits_and_how_it_went_on() {
    let cluster = Cluster::start(1);
    let command = cluster.waiting_command("gate");
    let mut job = cluster.shell("shell", &gated(&FIVE, &command));
    cluster.wait_waiting("gate", 2);
    wait_queued(&cluster, 3);
    let queue = json(&cluster, "queue", &[]);
    let ids: Vec<_> = queue["containers"].as_array().unwrap().iter().collect();
    let id = |place: usize| ids[place - 1]["container"].as_str().unwrap();
    let last = steps(&cluster, id(3));
    assert_eq!(last[0], "Accepted from its ApplicationMaster");
    let queued = last
        .iter()
        .find(|step| step.starts_with("Queued at place 3"));
    assert!(
        queued.is_some_and(|step| step.contains("short of ")),
        "{last:?}"
    );
    let text = out(&cluster.operate(0, "explain", &[id(3)]));
    assert!(
        text.contains("queued for ") && text.contains("now at place 3"),
        "{text}"
    );

    cluster.open("gate");
    assert!(job.wait_exit(DEADLINE).success());
    // The ResourceManager has acknowledged its end, or is about to.
    let first = steps(&cluster, id(1));
    let has = |begin: &str| first.iter().any(|step| step.starts_with(begin));
    let all = [
        "Queued at place 1",
        "Started after waiting",
        "Its process runs",
    ];
    assert!(all.into_iter().all(has), "{first:?}");
    assert!(has("Completed with exit status 0"), "{first:?}");
}

#[test]
fn explain_names_the_container_for_which_another_was_evicted() {
    let cluster = Cluster::start(1);
    let command = cluster.waiting_command("opportunistic");
    let first = cluster.shell("first", &gated(&TWO, &command));
    cluster.wait_waiting("opportunistic", 2);
    let live = cluster.of_node(0, "live.json").unwrap();
    let running = live["running"]["containers"].as_array().unwrap().clone();
    let opportunistic = running
        .iter()
        .filter(|each| each["execution_type"] == "OPPORTUNISTIC");
    let ids: Vec<_> = opportunistic
        .map(|each| each["container"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 2, "{running:?}");
    let command = cluster.waiting_command("guaranteed");
    let guaranteed = ["-n", "1", "--memory", "512"];
    let second = cluster.shell("second", &gated(&guaranteed, &command));
    cluster.wait_waiting("guaranteed", 1);
    let stories: Vec<_> = ids.iter().map(|id| steps(&cluster, id)).collect();
    let evicted = stories
        .iter()
        .flatten()
        .find(|step| step.starts_with("Evicted for container_"));
    let claimant = evicted.and_then(|step| step.split(' ').nth(2)).unwrap();
    let gets = steps(&cluster, claimant);
    assert!(
        gets.iter()
            .any(|step| step.starts_with("Gets resources of container_")),
        "{gets:?}"
    );
    for gate in ["opportunistic", "guaranteed"] {
        cluster.open(gate);
    }
    drop((first, second));
}

#[test]
fn a_container_that_was_never_here_and_a_word_that_is_no_id_have_their_exit_status() {
    let cluster = Cluster::start(1);
    let unknown = cluster.operate(0, "explain", &["container_1_0001_01_000001"]);
    assert_eq!(code(&unknown), Some(5), "{}", err(&unknown));
    assert!(
        err(&unknown).contains("is not known here"),
        "{}",
        err(&unknown)
    );
    let wrong = cluster.operate(0, "explain", &["job_1_0001"]);
    assert_eq!(code(&wrong), Some(2), "{}", err(&wrong));
    assert!(
        err(&wrong).contains("an id looks like container_"),
        "{}",
        err(&wrong)
    );
}

/// Runs `nm-agent top` in a terminal of this size, types keys, each when the screen has shown a
/// text, and returns what was written to the terminal.
#[track_caller]
fn in_terminal(
    cluster: &Cluster,
    size: (u16, u16),
    keys: &[(&str, &str)],
) -> (Option<i32>, String) {
    let (columns, rows) = size;
    let conf = cluster.folder().join("node0/conf");
    let top = format!(
        "stty rows {rows} cols {columns} && exec {AGENT} top --conf {}",
        conf.display()
    );
    let keyboard = cluster.folder().join("keyboard");
    let mode = nix::sys::stat::Mode::S_IRWXU;
    nix::unistd::mkfifo(&keyboard, mode).expect("a pipe can be made");
    let mut typed = File::options()
        .read(true)
        .write(true)
        .open(&keyboard)
        .expect("the pipe can be opened");
    // `script` of util-linux makes a terminal for a command, and passes on what is typed.
    let script = "exec script -q -f -e -c \"$0\" /dev/null <\"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, &top]).arg(&keyboard);
    let mut process = Process::start("top", &mut command, cluster.folder());
    for (shown, key) in keys {
        process.wait_log(shown, DEADLINE);
        typed
            .write_all(key.as_bytes())
            .expect("the terminal takes keys");
    }
    (process.wait_exit(DEADLINE).code(), process.log())
}

#[test]
fn top_shows_the_node_until_its_reader_quits_and_gives_the_terminal_back() {
    let cluster = Cluster::start(1);
    let keys = [("now by place", "s"), ("now by time", "q")];
    let (status, screen) = in_terminal(&cluster, (100, 24), &keys);
    assert_eq!(status, Some(0), "{screen}");
    assert!(
        screen.contains("ResourceManager   registered for "),
        "{screen}"
    );
    let left = screen
        .rfind("\u{1b}[?1049l")
        .expect("the other screen is left");
    assert!(
        screen
            .find("\u{1b}[?1049h")
            .is_some_and(|taken| taken < left),
        "{screen:?}"
    );
}

#[test]
fn top_fits_a_terminal_of_two_lines() {
    let cluster = Cluster::start(1);
    let (status, screen) = in_terminal(&cluster, (12, 2), &[("q quit, s so", "q")]);
    assert_eq!(status, Some(0), "{screen}");
    assert!(!screen.contains("vcores"), "{screen}");
}

#[test]
fn top_that_is_not_on_a_terminal_prints_one_look_and_says_so() {
    let cluster = Cluster::start(1);
    let once = cluster.operate(0, "top", &[]);
    assert_eq!(code(&once), Some(0), "{}", err(&once));
    assert!(
        err(&once).contains("not on a terminal, so this is one look"),
        "{}",
        err(&once)
    );
    assert!(
        out(&once).contains("container  user  type"),
        "{}",
        out(&once)
    );
    assert!(!out(&once).contains('\u{1b}'));
}
