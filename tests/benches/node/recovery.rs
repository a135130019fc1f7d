//! Cost of recovery for a launch, and the time for which a node that was killed is away.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use records::ContainerId;
use test_support::LaunchContext;
use test_support::scripted::{ScriptedAm, ScriptedRm};
use tests::conf::Properties;
use tests::node::NodeKind;
use tests::node_process::NodeProcess;
use tests::ports::Port;
use tests::proc;
use tests::samples::Samples;

use crate::load::{Bench, Lives, NODE_MB};
use crate::measure::site;

/// Containers of the node that is killed.
const RUNNING: u64 = 900;
const QUEUED: u64 = 100;
/// Containers started by one call.
const BATCH: u64 = 50;

/// Pause between two looks whether the node serves again.
const POLL: Duration = Duration::from_millis(1);
/// Deadline for a node to come back.
const DEADLINE: Duration = Duration::from_secs(60);

/// Numbers of samples.
pub(crate) struct Effort {
    rounds: usize,
    launches: usize,
    sustained: Duration,
    kills: usize,
}

impl Effort {
    pub(crate) fn new(quick: bool) -> Self {
        Self {
            rounds: if quick { 3 } else { 7 },
            launches: if quick { 50 } else { 200 },
            sustained: Duration::from_secs(if quick { 2 } else { 5 }),
            kills: if quick { 3 } else { 10 },
        }
    }
}

/// Measures nodes without and with recovery in turns, so that other work meets both. Returns the
/// table: medians of the rounds.
pub(crate) fn cost(kind: &NodeKind, effort: &Effort) -> String {
    let nodes = [false, true].map(|recovers| Node::start(kind, recovers));
    let mut rounds = [(); 2].map(|()| Vec::new());
    for node in &nodes {
        let _warm_up = node.bench().one_at_a_time(effort.launches, 0);
    }
    for _ in 0..effort.rounds {
        for (node, rounds) in nodes.iter().zip(&mut rounds) {
            let bench = node.bench();
            let launches = bench.one_at_a_time(effort.launches, 0);
            rounds.push(Round {
                launch_ms: launches.p50(),
                serial: bench.serial(effort.sustained / 2),
                lives: bench.sustained(effort.sustained),
            });
        }
    }
    table(&rounds)
}

/// Figures of one node in one turn.
struct Round {
    launch_ms: f64,
    serial: Lives,
    lives: Lives,
}

fn table(rounds: &[Vec<Round>; 2]) -> String {
    type Figure = fn(&Round) -> f64;
    let rows: [(&str, Figure); 4] = [
        (
            "`startContainers` to the command's first instruction, p50, ms",
            |round| round.launch_ms,
        ),
        ("lives of one container at a time, /s", |round| {
            round.serial.per_s
        }),
        ("container lives, 32 at once, /s", |round| round.lives.per_s),
        ("CPU time of the node for each of them, ms", |round| {
            round.lives.processor_ms
        }),
    ];
    let mut text = "| | without recovery | with | ratio |\n|---|---|---|---|\n".to_owned();
    for (name, figure) in rows {
        let [without, with] = [0, 1].map(|node: usize| {
            let figures = rounds.get(node).into_iter().flatten().map(figure);
            median(figures.collect())
        });
        let ratio = with / without;
        let _infallible = writeln!(text, "| {name} | {without:.3} | {with:.3} | {ratio:.3} |");
    }
    text
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Times from the start of an agent whose predecessor was killed beside 1,000 containers.
pub(crate) struct Returns {
    /// Until it answers a call of the containers' ApplicationMaster.
    pub(crate) serving: Samples,
    /// Until it has registered with all containers.
    pub(crate) registered: Samples,
}

/// Kills the agent again and again while 900 containers run and 100 wait.
pub(crate) fn returns(agent: &Path, effort: &Effort) -> Returns {
    let mut node = Node::start(&NodeKind::Agent(agent.to_owned()), true);
    let last = node.fill();
    let before = node.processes();
    let times: Vec<(Duration, Duration)> = (0..effort.kills)
        .map(|kill| {
            node.process.process.kill();
            node.process.start_agent_again(agent);
            let times = node.times_until_back(kill + 2, last);
            assert_eq!(node.processes(), before, "containers have other processes");
            times
        })
        .collect();
    Returns {
        serving: times.iter().map(|(serving, _)| *serving).collect(),
        registered: times.iter().map(|(_, registered)| *registered).collect(),
    }
}

/// A node between scripted peers. Fields are dropped in this order.
struct Node {
    am: ScriptedAm,
    process: NodeProcess,
    rm: ScriptedRm,
    /// Process that does the work: below a front and a keeper with recovery.
    agent: u32,
}

impl Node {
    fn start(kind: &NodeKind, recovers: bool) -> Self {
        let rm = ScriptedRm::start();
        rm.with(|tracker| tracker.acknowledge_all = true);
        let port = Port::reserve().release();
        let process = NodeProcess::start(kind, &rm, |properties: &mut Properties| {
            site(properties);
            properties
                .set("yarn.nodemanager.recovery.enabled", recovers)
                .set("yarn.nodemanager.address", format!("127.0.0.1:{port}"));
        });
        let am = ScriptedAm::connect(&rm, 1);
        let front = process.process.id();
        Self {
            agent: if recovers {
                proc::agent_below(front)
            } else {
                front
            },
            am,
            process,
            rm,
        }
    }

    fn bench(&self) -> Bench<'_> {
        Bench::of_process(&self.rm, &self.am, &self.process, self.agent)
    }

    /// Starts containers that fill the node, and others that wait. Returns the last one, when the
    /// ResourceManager knows of all.
    fn fill(&self) -> ContainerId {
        let size_mb = NODE_MB / RUNNING;
        let mut ids = Vec::new();
        for batch in 0..(RUNNING + QUEUED) / BATCH {
            let requests: Vec<_> = (0..BATCH)
                .map(|_| {
                    let allocation = self.am.allocate().memory_mb(size_mb).opportunistic();
                    (allocation, LaunchContext::command("exec sleep 6000"))
                })
                .collect();
            ids.extend(requests.iter().map(|(allocation, _)| allocation.id));
            let started = self.am.start_all(requests);
            started.unwrap_or_else(|refusal| panic!("{refusal}"));
            self.rm.wait(format!("batch {batch}"), |tracker| {
                let known = ids.iter().filter(|id| tracker.status(**id).is_some());
                (known.count() == ids.len()).then_some(())
            });
        }
        let last = ids.last().copied();
        last.expect("the node is filled by some batches")
    }

    /// Returns the processes of containers.
    fn processes(&self) -> BTreeSet<i32> {
        let found = self.process.container_processes().into_iter();
        let found = found.filter(|found| found.command.contains("sleep 6000"));
        found.map(|found| found.pid).collect()
    }

    /// Returns the times from the start of the process until it answers a call about `container`,
    /// and until the ResourceManager has its registration.
    fn times_until_back(
        &mut self,
        registrations: usize,
        container: ContainerId,
    ) -> (Duration, Duration) {
        let begin = self.process.started_at;
        let (mut serving, mut registered) = (None, None);
        loop {
            if registered.is_none() {
                registered = self.rm.with(|tracker| {
                    let registration = tracker.registrations.get(registrations - 1)?;
                    let containers = registration.container_statuses.len();
                    assert_eq!(containers as u64, RUNNING + QUEUED, "registered containers");
                    Some(begin.elapsed())
                });
            }
            if serving.is_none() && self.am.reconnect(&self.rm).is_ok() {
                let answer = self.am.status(container);
                serving = answer.is_ok().then(|| begin.elapsed());
            }
            if let (Some(serving), Some(registered)) = (serving, registered) {
                return (serving, registered);
            }
            assert!(begin.elapsed() < DEADLINE, "the node does not come back");
            std::thread::sleep(POLL);
        }
    }
}

/// Prints what [`cost`] and [`returns`] measure.
pub(crate) fn print(agent: &Path, quick: bool) {
    let effort = Effort::new(quick);
    println!("measuring nodes without and with recovery");
    let table = cost(&NodeKind::Agent(agent.to_owned()), &effort);
    println!("killing a node with {} containers", RUNNING + QUEUED);
    let begin = Instant::now();
    let returns = returns(agent, &effort);
    let text = |times: &Samples| {
        format!(
            "{:.0} ms (longest of {}: {:.0})",
            times.p50(),
            times.count(),
            times.p99()
        )
    };
    println!(
        "\n{table}\nFrom the start of the agent, after a kill with {RUNNING} containers running and \
         {QUEUED} waiting, until it answers its ApplicationMaster: {}; until it has registered \
         with all of them: {} ({:.0} s in all)",
        text(&returns.serving),
        text(&returns.registered),
        begin.elapsed().as_secs_f64(),
    );
}
