//! Containers started by way of the script and by one bash, compared in all that they can observe.
//!
//! Launch contexts are generated, each from the seed that a failure prints. `NM_AGENT_LAUNCHES`
//! changes their number, `NM_AGENT_FIRST_LAUNCH` the first seed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use test_support::folders::make_container_dirs;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{BashDefaults, one_bash};
use crate::launch::context::{LaunchConfig, LaunchEvent, LaunchPlan, Link};
use crate::launch::environment::container_environment;
use crate::launch::launcher::Launcher;
use crate::launch::script::launch_command;
use crate::launch::testing;
use pools::{COLLIDING, COMMANDS, ENDS, NAMES, PIECES, SPECIAL};

mod pools;

/// Launch contexts of an ordinary run; each is launched twice.
const LAUNCHES: u64 = 400;
/// Comparisons of which one must find no difference.
const ATTEMPTS: usize = 3;
/// Only a launch that hangs reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

/// Links to resources. The agent leaves the last three to the script.
const LINKS: [&str; 6] = [
    "a.jar",
    "d/b",
    "my dir/c'",
    "d/$A",
    "tmp",
    "container_tokens/x",
];

/// Sourced by a container's bash: describes that bash and its process.
const DESCRIBE: &str = include_str!("describe.bash");

/// Beginnings of lines that differ from launch to launch. `FDSize` is the size of the kernel's
/// table of open files: 256 once a bash has read a script (its descriptor is 255), otherwise what
/// the highest descriptor of the agent makes it.
const VOLATILE: [&str; 12] = [
    "EPOCHREALTIME=",
    "EPOCHSECONDS=",
    "FDSize:",
    "Hugetlb",
    "RANDOM=",
    "Rss",
    "SECONDS=",
    "SRANDOM=",
    "SigQ:",
    "Vm",
    "nonvoluntary",
    "voluntary",
];

#[derive(Clone, Debug)]
struct Context {
    agent: BTreeMap<String, String>,
    container: BTreeMap<String, String>,
    commands: Vec<String>,
    links: Vec<&'static str>,
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        30 => select(&NAMES[..]),
        6 => select(&COLLIDING[..]),
        1 => select(&SPECIAL[..]),
    ]
    .prop_map(str::to_owned)
}

fn piece() -> impl Strategy<Value = &'static str> {
    // The last are those that only bash knows: fewer of them, or hardly any context takes one bash.
    let harmless = PIECES.len() - 15;
    prop_oneof![40 => select(&PIECES[..harmless]), 1 => select(&PIECES[harmless..])]
}

fn value() -> impl Strategy<Value = String> {
    vec(piece(), 0..4).prop_map(|pieces| pieces.concat())
}

fn commands() -> impl Strategy<Value = Vec<String>> {
    let one = prop_oneof![
        6 => select(&COMMANDS[..]).prop_map(str::to_owned),
        1 => piece().prop_map(|piece| format!("printf %q\\\\n \\\"{piece}\\\" {piece}")),
    ];
    let several = (vec(one, 0..4), select(&ENDS[..])).prop_map(|(mut commands, end)| {
        commands.push(". <LOG_DIR>/../describe".to_owned());
        commands.push(end.to_owned());
        // A list of commands is joined by a space, a here-document ends with its line.
        vec![commands.join("\n")]
    });
    let alone = select(&ENDS[..]).prop_map(|end| vec![end.to_owned()]);
    prop_oneof![8 => several, 1 => alone]
}

impl Context {
    /// Returns the contexts of all special names first, then random ones.
    fn of(seed: u64) -> Self {
        let index = usize::try_from(seed).unwrap();
        match SPECIAL.get(index / 2) {
            Some(name) => Self::with_special(name, index % 2 == 0),
            None => Self::random(seed),
        }
    }

    /// Sets and mentions, or only mentions, a variable that may mean something to bash.
    fn with_special(name: &str, is_set: bool) -> Self {
        let mut container = BTreeMap::from([("A".to_owned(), format!("<${{{name}}}>"))]);
        if is_set {
            container.insert(name.to_owned(), "1".to_owned());
        }
        Self {
            agent: BTreeMap::new(),
            container,
            commands: vec![". <LOG_DIR>/../describe".to_owned()],
            links: Vec::new(),
        }
    }

    fn random(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), random);
        let variables = || proptest::collection::btree_map(name(), value(), 0..5);
        let links = prop_oneof![3 => Just(Vec::new()), 1 => vec(select(&LINKS[..]), 1..4)];
        let all = (variables(), variables(), commands(), links);
        let (agent, container, commands, links) = all.new_tree(&mut runner).unwrap().current();
        Self {
            agent,
            container,
            commands,
            links,
        }
    }

    fn config(&self) -> LaunchConfig {
        LaunchConfig {
            env_whitelist: self.agent.keys().cloned().collect(),
            agent_environment: self.agent.clone(),
            sigkill_delay: Duration::ZERO,
            launch_threads_max: 1,
            ..testing::config()
        }
    }

    fn links(&self) -> Vec<Link> {
        let to_root = |link: &&str| Link {
            link: (*link).to_owned(),
            target: "/".into(),
        };
        self.links.iter().map(to_root).collect()
    }

    /// Returns whether one bash is enough.
    fn takes_one_bash(&self, plan: &LaunchPlan, defaults: &BashDefaults) -> bool {
        let config = self.config();
        let environment = container_environment(&config, plan).unwrap();
        let command = launch_command(&config, plan).unwrap();
        let log_dir = plan.dirs.log_dir.path().to_str().unwrap();
        one_bash(defaults, &environment, log_dir, &command).is_some()
    }
}

/// Launches a container in new folders; returns a description, without its pid, of all that
/// is left of it.
async fn observe(config: LaunchConfig, plan: &LaunchPlan, root: &Path) -> String {
    let container = root.join("c");
    let _ = fs::remove_dir_all(&container);
    let _dirs = make_container_dirs(&container);
    fs::write(container.join("describe"), DESCRIBE).unwrap();
    let (sender, mut events) = mpsc::channel(16);
    let runtime = tokio::runtime::Handle::current();
    let launcher = Launcher::start(config, sender, runtime).unwrap();
    launcher.launch(Box::new(plan.clone())).unwrap();
    let mut seen = String::new();
    let mut leader = String::new();
    loop {
        let event = timeout(DEADLINE, events.recv()).await;
        match event.expect("an event in time").unwrap() {
            LaunchEvent::Launched { pid, .. } => leader = pid.to_string(),
            LaunchEvent::ProcessesGone(_)
            | LaunchEvent::ProcessesStay(_)
            | LaunchEvent::LeftoversGone(_) => {}
            end @ (LaunchEvent::LaunchFailed { .. } | LaunchEvent::Exited { .. }) => {
                writeln!(seen, "{end:#?}").unwrap();
                break;
            }
        }
    }
    for folder in ["work", "log"] {
        list(&container.join(folder), &mut seen);
    }
    without_pid(&seen, &leader)
}

/// Appends names, modes and contents.
fn list(folder: &Path, text: &mut String) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let metadata = entry.metadata().unwrap();
        let mode = metadata.permissions().mode();
        writeln!(text, "{mode:o} {}", entry.path().display()).unwrap();
        if metadata.is_symlink() {
            writeln!(text, "{}", fs::read_link(entry.path()).unwrap().display()).unwrap();
        } else if metadata.is_dir() {
            list(&entry.path(), text);
        } else {
            let content = fs::read(entry.path()).unwrap();
            for line in content.split(|b| *b == b'\n') {
                let line = line.escape_ascii().to_string();
                if !is_volatile(&line) {
                    writeln!(text, "{line}").unwrap();
                }
            }
        }
    }
}

/// Returns whether a line is about the moment, of the shell's variables or of `/proc/PID/status`.
fn is_volatile(line: &str) -> bool {
    let value = line
        .strip_prefix("declare -")
        .and_then(|rest| rest.split_once(' '));
    let name = value.map_or(line, |(_, variable)| variable);
    VOLATILE.iter().any(|volatile| name.starts_with(volatile))
}

/// Replaces the numbers that are the pid.
fn without_pid(text: &str, pid: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for part in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        match part.strip_prefix(pid) {
            Some(rest) if !rest.starts_with(|c: char| c.is_ascii_digit()) => {
                result.extend(["PID", rest]);
            }
            Some(_) | None => result.push_str(part),
        }
    }
    result
}

fn number(variable: &str, default: u64) -> u64 {
    let set = std::env::var(variable).ok();
    set.map_or(default, |text| text.parse().expect("a number"))
}

/// Returns the lines that differ, for a message that people can read.
fn difference(script: &str, one: &str) -> String {
    let differ = script.lines().zip(one.lines()).filter(|(a, b)| a != b);
    let mut text: String = differ
        .take(8)
        .map(|(a, b)| format!("  script: {a}\n     one: {b}\n"))
        .collect();
    write!(
        text,
        "  lines: {} and {}",
        script.lines().count(),
        one.lines().count()
    )
    .unwrap();
    text
}

#[tokio::test]
async fn a_container_cannot_tell_one_bash_from_two() {
    let defaults = BashDefaults::of_this_machine().unwrap();
    let (launches, first) = (
        number("NM_AGENT_LAUNCHES", LAUNCHES),
        number("NM_AGENT_FIRST_LAUNCH", 0),
    );
    let root = tempfile::tempdir().unwrap();
    let mut short = 0;
    for seed in first..first + launches {
        let context = Context::of(seed);
        let mut plan = testing::plan(&root.path().join("c"));
        plan.environment = context.container.clone();
        plan.commands = context.commands.clone();
        plan.links = context.links();
        if !context.takes_one_bash(&plan, defaults) {
            continue;
        }
        short += 1;
        let mut config = context.config();
        config.one_bash = true;
        // A pid may be longer than the other, or like another number: such a difference goes away.
        for attempt in 1..=ATTEMPTS {
            let script = observe(context.config(), &plan, root.path()).await;
            let one = observe(config.clone(), &plan, root.path()).await;
            if script == one {
                break;
            }
            let difference = difference(&script, &one);
            assert!(
                attempt < ATTEMPTS,
                "seed {seed}\n{context:#?}\n{difference}"
            );
        }
    }
    assert!(
        short * 4 >= launches,
        "only {short} of {launches} took one bash"
    );
}
