//! `nm-agent simulate --capture`: the jobs that nodes have recorded, as a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use event_record::{CONTAINERS_MAX, Came, Lives, Task};
use job_trace::{Stage, Tasks, TraceJob};
use records::{ApplicationId, ContainerId};
use serde::Deserialize;

use super::recorded::{as_recorded, has_records, runs_in, unusable};
use super::{Failure, print, trace};

/// Most nodes whose records are read.
const NODES_MAX: usize = 100_000;

/// Longest answer of a ResourceManager's REST, in bytes. An application takes some 2 KiB.
const APPLICATIONS_BYTES_MAX: u64 = 1 << 30;

/// Records of all nodes, gathered.
#[derive(Default)]
struct Captured {
    nodes: usize,
    events: u64,
    tasks: BTreeMap<ApplicationId, Vec<Task>>,
    count: usize,
    /// Containers that did not end by themselves.
    left_out: usize,
}

/// Answer of a ResourceManager to `GET /ws/v1/cluster/apps`.
#[derive(Deserialize)]
struct Answer {
    apps: Option<Applications>,
}

#[derive(Deserialize)]
struct Applications {
    #[serde(default)]
    app: Vec<Application>,
}

#[derive(Deserialize)]
struct Application {
    id: String,
    #[serde(rename = "startedTime")]
    started_ms: i64,
}

/// Writes the jobs of the nodes whose records are in `dir`, or each in a folder of it, to `out`.
/// `applications`: a ResourceManager's list of applications; `-` for standard input.
pub(super) fn capture(dir: &Path, applications: Option<&Path>, out: &Path) -> Result<(), Failure> {
    let submitted = applications.map(submitted).transpose()?;
    let mut captured = Captured::default();
    for node in nodes_in(dir)? {
        captured.take_node(&node)?;
    }
    let (jobs, masters, unknown) = captured.jobs(submitted.as_ref());
    if jobs.is_empty() {
        let reason = "no container of these records ended by itself";
        return Err(unusable(dir, reason));
    }
    trace::write_jobs(jobs.iter(), out)?;
    if out == Path::new("-") {
        return Ok(());
    }
    let tasks: u64 = jobs.iter().map(TraceJob::task_count).sum();
    let Captured {
        nodes,
        events,
        left_out,
        ..
    } = captured;
    let mut words = format!(
        "{} jobs with {tasks} tasks, from {events} events of {nodes} nodes. Left out: {masters} \
         masters, and {left_out} containers that had not ended or were ended by somebody.\n",
        jobs.len()
    );
    if unknown > 0 {
        words += &format!(
            "{unknown} of the jobs arrive with the first container that these nodes got of them, \
             since no list has their submission.\n"
        );
    }
    print(&words)
}

/// Returns the folder, or those in it, that have records.
fn nodes_in(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut nodes = Vec::new();
    if has_records(dir)? {
        nodes.push(dir.to_owned());
    }
    let listed = fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    for entry in listed {
        let path = entry
            .with_context(|| format!("reading {}", dir.display()))?
            .path();
        if path.is_dir() && has_records(&path)? {
            nodes.push(path);
        }
        if nodes.len() > NODES_MAX {
            return Err(unusable(dir, format!("more than {NODES_MAX} folders")));
        }
    }
    if nodes.is_empty() {
        let reason = "no records (*.jsonl) are in it, nor in a folder of it";
        return Err(unusable(dir, reason));
    }
    nodes.sort();
    Ok(nodes)
}

/// Returns when each application was submitted, in milliseconds since 1970.
fn submitted(file: &Path) -> Result<BTreeMap<ApplicationId, i64>, Failure> {
    let input: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file).map_err(|error| unusable(file, error))?)
    };
    let input = BufReader::new(input.take(APPLICATIONS_BYTES_MAX));
    let answer: Answer = serde_json::from_reader(input).map_err(|error| unusable(file, error))?;
    let listed = answer.apps.map(|apps| apps.app).unwrap_or_default();
    let read = listed.into_iter().map(|application| {
        let id = application.id.parse().map_err(|_| {
            let shown: String = application.id.chars().take(60).collect();
            unusable(file, format!("{shown:?} is no application id"))
        })?;
        Ok((id, application.started_ms))
    });
    read.collect()
}

impl Captured {
    fn take_node(&mut self, node: &Path) -> Result<(), Failure> {
        self.nodes += 1;
        let mut came = Came::default();
        for run in runs_in(node)? {
            let mut lives = Lives::default();
            self.events += as_recorded(&run, &mut lives, |step| came.step(step))?;
            for task in came.take_ended(&lives) {
                let application = task.id.application_id();
                self.tasks.entry(application).or_default().push(task);
                self.count += 1;
            }
            if self.count > CONTAINERS_MAX {
                let reason = format!("with it more than {CONTAINERS_MAX} containers");
                return Err(unusable(node, reason));
            }
        }
        self.left_out += came.left();
        Ok(())
    }

    /// Returns the jobs in the order of their arrival, without names; how many containers were
    /// masters; and of how many jobs the submission is not known.
    fn jobs(
        &self,
        submitted: Option<&BTreeMap<ApplicationId, i64>>,
    ) -> (Vec<TraceJob>, usize, usize) {
        let (mut masters, mut unknown) = (0, 0);
        let mut jobs = Vec::new();
        for (id, tasks) in &self.tasks {
            let of_masters = masters_of(tasks);
            let kept = |task: &&Task| !of_masters.contains(&task.id);
            let mut kept: Vec<&Task> = tasks.iter().filter(kept).collect();
            masters += of_masters.len();
            let first = tasks.iter().map(|task| task.came.0).min();
            let known = submitted.and_then(|times| times.get(id)).copied();
            let Some(arrived) = known.or(first).filter(|_| !kept.is_empty()) else {
                continue;
            };
            unknown += usize::from(known.is_none());
            kept.sort_by_key(|task| (task.came, task.id));
            let stage = Stage {
                after: Vec::new(),
                tasks: kept.into_iter().map(in_trace).collect(),
            };
            jobs.push((arrived, stage));
        }
        jobs.sort_by_key(|(arrived, _)| *arrived);
        let first = jobs.first().map_or(0, |(arrived, _)| *arrived);
        let named = (1..).zip(jobs).map(|(number, (arrived, stage))| TraceJob {
            id: format!("job_{number}"),
            submit_ms: u64::try_from(arrived.saturating_sub(first)).unwrap_or(0),
            stages: vec![stage],
        });
        (named.collect(), masters, unknown)
    }
}

/// Returns the containers of masters: the first of each attempt, by their number. After a restart
/// of the ResourceManager another container of an attempt has the number 1, in another epoch.
fn masters_of(tasks: &[Task]) -> BTreeSet<ContainerId> {
    let mut first: BTreeMap<_, ContainerId> = BTreeMap::new();
    for id in tasks.iter().map(|task| task.id) {
        if id.number() == 1 && id.id > 0 {
            let least = first.entry(id.attempt).or_insert(id);
            *least = (*least).min(id);
        }
    }
    first.into_values().collect()
}

fn in_trace(task: &Task) -> Tasks {
    Tasks {
        count: 1,
        length_ms: task.ran_ms.max(1),
        memory_mb: task.resource.memory_mb,
        vcores: task.resource.vcores,
        execution_type: Some(task.execution_type),
        waited_ms: task.waited_ms,
    }
}

#[cfg(test)]
mod tests {
    use records::{EpochMillis, ExecutionType, Resource};

    use super::*;

    #[test]
    fn the_first_container_of_each_attempt_is_its_masters() {
        let attempt = |number| ApplicationId::new(1_700_000_000_000, 7).attempt(number);
        let (later, of_node) = ((1 << 40) + 1, -(1 << 40) + 1);
        let ids = [
            attempt(1).container(2),
            attempt(1).container(later),
            attempt(1).container(1),
            // Its name has the number 1, too.
            attempt(1).container(of_node),
            attempt(2).container(later),
        ];
        let tasks = ids.map(|id| Task {
            id,
            came: EpochMillis(0),
            resource: Resource::new(1, 1),
            execution_type: ExecutionType::Guaranteed,
            waited_ms: None,
            ran_ms: 1,
        });
        let masters = masters_of(&tasks);
        assert_eq!(masters, [ids[2], ids[4]].into());
    }
}
