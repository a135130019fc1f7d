//! Cost of a cgroup per launch, and of sampling a thousand containers. Prints; asserts nothing.
//!
//! `cargo bench -p cgroup`, where this user may create cgroups. Slow would be: more than 1 ms added
//! to a launch, more than 3 % of a CPU for a thousand samples each second.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that fails is worth nothing"
)]

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use cgroup::{
    Bound, Cgroup, Child, Command, Controller, Delegation, Layout, Limits, Parent, Root,
    RootConfig, Weight, spawn,
};
use rustix::process::{WaitId, WaitIdOptions, waitid};

/// Controllers that the agent wants unless devices are shared by weight.
const WANTED: [Controller; 5] = [
    Controller::Cpu,
    Controller::Cpuacct,
    Controller::Memory,
    Controller::Pids,
    Controller::Freezer,
];
const LAUNCHES: usize = 500;
const CONTAINERS: usize = 1_000;
const PASSES: u32 = 20;
const TIMEOUT: Duration = Duration::from_secs(10);

fn main() {
    let name = format!("nm-agent-bench-{}", std::process::id());
    let config = RootConfig {
        hierarchy: Some(&name),
        wanted: &WANTED,
        delegation: Delegation::AsMarked,
        own_leaf: "agent",
        delegated_root: "all",
    };
    let root = match Root::open(&Layout::of_this_process(), &config) {
        Ok(root) => root,
        Err(error) => {
            println!("cgroups cannot be used here: {error}");
            return;
        }
    };
    println!(
        "host: {}, {} hierarchies",
        root.version(),
        root.paths().len()
    );
    let parent = root.parent("bench").unwrap();
    launches(&parent);
    samples(&parent);
    for path in root.paths() {
        drop(std::fs::remove_dir(path.join("bench")));
        drop(std::fs::remove_dir(path));
    }
}

fn launches(parent: &Parent) {
    let plain = times(|_| {
        let child = start(None);
        reap(&child);
    });
    println!("spawn and end of /bin/true:            {}", shown(plain));
    let mut groups = Vec::new();
    let inside = times(|number| {
        let group = parent.create(&format!("c{number}")).unwrap();
        group.apply(&limits()).unwrap();
        let child = start(Some(&group));
        reap(&child);
        groups.push(group);
    });
    println!("the same in a new cgroup with limits:  {}", shown(inside));
    let mut groups = groups.into_iter();
    let removed = times(|_| groups.next().unwrap().destroy(TIMEOUT).unwrap());
    println!("removing it:                           {}", shown(removed));
    let group = parent.create("frozen").unwrap();
    let child = start_sleep(&group);
    let frozen = times(|_| {
        group.freeze(TIMEOUT).unwrap();
        group.thaw(TIMEOUT).unwrap();
    });
    println!("freeze and thaw of one process:        {}", shown(frozen));
    group.destroy(TIMEOUT).unwrap();
    reap(&child);
}

fn samples(parent: &Parent) {
    let make = |number| parent.create(&format!("s{number}")).unwrap();
    let groups: Vec<Cgroup> = (0..CONTAINERS).map(make).collect();
    let samplers: Vec<_> = groups
        .iter()
        .map(|group| group.sampler().unwrap())
        .collect();
    let begin = Instant::now();
    for _ in 0..PASSES {
        for sampler in &samplers {
            let _ = sampler.read().unwrap();
        }
    }
    let pass = begin.elapsed() / PASSES;
    println!(
        "a sample of {CONTAINERS} containers:           {:.2} ms, each second {:.2} % of a core",
        pass.as_secs_f64() * 1e3,
        pass.as_secs_f64() * 100.0
    );
    for group in groups {
        group.destroy(TIMEOUT).unwrap();
    }
}

fn limits() -> Limits {
    Limits {
        cpu_weight: Some(Weight::new(200)),
        memory_max: Some(Bound::At(1 << 30)),
        memory_low: Some(0),
        swap_max: Some(Bound::At(0)),
        swappiness: Some(0),
        oom_group: Some(true),
        pids_max: Some(Bound::At(10_000)),
        ..Limits::default()
    }
}

fn start(group: Option<&Cgroup>) -> Child {
    run(&[c"/bin/true"], group)
}

fn start_sleep(group: &Cgroup) -> Child {
    run(&[c"/bin/sleep", c"1000"], Some(group))
}

fn run(arguments: &[&std::ffi::CStr], group: Option<&Cgroup>) -> Child {
    let directory = File::open("/").unwrap();
    let environment: [CString; 0] = [];
    let command = Command {
        program: arguments[0],
        arguments,
        environment: &environment,
        pid_entry: None,
        directory: directory.as_fd(),
        stdio: [None, None, None],
        open_files: None,
        note: None,
        before_exec: None,
    };
    spawn(&command, group).unwrap()
}

fn reap(child: &Child) {
    waitid(WaitId::PidFd(child.handle.as_fd()), WaitIdOptions::EXITED).unwrap();
}

fn times(mut step: impl FnMut(usize)) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..LAUNCHES)
        .map(|number| {
            let begin = Instant::now();
            step(number);
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    times
}

fn shown(times: Vec<Duration>) -> String {
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    format!("p50 {:.2} ms, p99 {:.2} ms", at(50), at(99))
}
