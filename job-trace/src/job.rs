//! A job of a trace, and what makes it one: tasks that take time, and stages that can come to run.

use std::collections::BTreeMap;

use records::ExecutionType;

/// Most tasks of a job.
pub const TASKS_MAX: u64 = 1_000_000;

/// Most stages of a job.
pub const STAGES_MAX: usize = 10_000;

/// Longest task: some 35 years in milliseconds.
pub const LENGTH_MAX_MS: u64 = 1 << 40;

/// Latest arrival, whatever the trace's clock counts from: 2^53, which a float still has exactly.
const ARRIVAL_MAX_MS: u64 = 1 << 53;

/// Longest id, in bytes.
const ID_BYTES_MAX: usize = 256;

/// Tasks of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tasks {
    /// Number of tasks, at least 1.
    pub count: u64,
    /// Length of each in milliseconds, at least 1.
    pub length_ms: u64,
    /// Memory of each one's container in MB.
    pub memory_mb: u64,
    /// Virtual cores of each one's container.
    pub vcores: u32,
    /// Execution type of the container; `None`: the trace does not say it.
    pub execution_type: Option<ExecutionType>,
    /// Time for which each waited on its node, where it was recorded. What a simulation is compared
    /// with, not what it is told.
    pub waited_ms: Option<u64>,
}

impl Tasks {
    /// Returns one task of this length, in a container of the default size.
    #[must_use]
    pub const fn of(length_ms: u64) -> Self {
        Self {
            count: 1,
            length_ms,
            memory_mb: crate::MEMORY_MB,
            vcores: 1,
            execution_type: None,
            waited_ms: None,
        }
    }
}

/// Tasks that may start at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Numbers, from 0, of the stages of this job all of whose tasks must have ended before.
    /// All are smaller than this stage's own.
    pub after: Vec<usize>,
    /// Tasks.
    pub tasks: Vec<Tasks>,
}

/// Job of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceJob {
    /// Id, as the trace has it.
    pub id: String,
    /// Time of its submission in milliseconds since the begin of the trace's clock.
    pub submit_ms: u64,
    /// Stages; each comes after those that it waits for.
    pub stages: Vec<Stage>,
}

impl TraceJob {
    /// Returns the number of tasks.
    #[must_use]
    pub fn task_count(&self) -> u64 {
        self.tasks().map(|tasks| tasks.count).sum()
    }

    /// Returns the tasks of all stages.
    pub fn tasks(&self) -> impl Iterator<Item = &Tasks> {
        self.stages.iter().flat_map(|stage| &stage.tasks)
    }

    /// Returns the work of all tasks in milliseconds. Cannot overflow: both factors are bounded.
    #[must_use]
    pub fn work_ms(&self) -> u64 {
        self.tasks()
            .map(|tasks| tasks.count * tasks.length_ms)
            .sum()
    }
}

/// Stage as a trace names it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawStage {
    /// Name of the stage; stages of one job differ in it.
    pub(crate) name: u64,
    /// Names of stages that must have ended. One that the job does not have is no obstacle.
    pub(crate) after: Vec<u64>,
    pub(crate) tasks: Vec<Tasks>,
}

/// Job as a trace has it.
#[derive(Clone, Debug)]
pub(crate) struct RawJob {
    pub(crate) id: String,
    pub(crate) submit_ms: i64,
    pub(crate) stages: Vec<RawStage>,
}

impl RawJob {
    /// Returns a job whose stages run one after another.
    pub(crate) fn in_sequence(id: String, submit_ms: i64, stages: Vec<Vec<Tasks>>) -> Self {
        let stages = stages.into_iter().filter(|tasks| !tasks.is_empty());
        let stages = (1..).zip(stages).map(|(name, tasks)| RawStage {
            name,
            after: if name == 1 {
                Vec::new()
            } else {
                vec![name - 1]
            },
            tasks,
        });
        Self {
            id,
            submit_ms,
            stages: stages.collect(),
        }
    }

    /// Returns the job, or why it cannot be one.
    pub(crate) fn checked(self) -> Result<TraceJob, String> {
        if self.id.is_empty() || self.id.len() > ID_BYTES_MAX {
            return Err(format!("an id of {} bytes; it has 1 to 256", self.id.len()));
        }
        let id = self.id.escape_debug().to_string();
        let submit_ms = u64::try_from(self.submit_ms).ok();
        let submit_ms = submit_ms.filter(|at| *at <= ARRIVAL_MAX_MS);
        let submit_ms =
            submit_ms.ok_or_else(|| format!("job {id} arrives at {} ms", self.submit_ms))?;
        let mut count = 0_u64;
        for tasks in self.stages.iter().flat_map(|stage| &stage.tasks) {
            tasks
                .check()
                .map_err(|reason| format!("job {id}: {reason}"))?;
            count = count.saturating_add(tasks.count);
        }
        if count == 0 {
            return Err(format!("job {id} has no task"));
        }
        if count > TASKS_MAX {
            return Err(format!(
                "job {id} has {count} tasks; at most {TASKS_MAX} are read"
            ));
        }
        let stages = arranged(self.stages).map_err(|reason| format!("job {id}: {reason}"))?;
        let id = self.id;
        Ok(TraceJob {
            id,
            submit_ms,
            stages,
        })
    }
}

impl Tasks {
    fn check(&self) -> Result<(), String> {
        if self.count == 0 {
            return Err("0 tasks on a line of tasks".to_owned());
        }
        match self.length_ms {
            0 => Err("a task of length 0".to_owned()),
            1..=LENGTH_MAX_MS => Ok(()),
            length => Err(format!(
                "a task of {length} ms; at most {LENGTH_MAX_MS} are read"
            )),
        }
    }
}

/// Returns the length of a task from its begin to its end.
pub(crate) fn length_between(start_ms: i64, end_ms: i64) -> Result<u64, String> {
    let length = end_ms.checked_sub(start_ms);
    let length = length.and_then(|length| u64::try_from(length).ok());
    length.ok_or_else(|| format!("a task ends at {end_ms}, before its start at {start_ms}"))
}

/// Puts stages into an order in which each comes after those that it waits for.
fn arranged(stages: Vec<RawStage>) -> Result<Vec<Stage>, String> {
    if stages.len() > STAGES_MAX {
        return Err(format!(
            "{} stages; at most {STAGES_MAX} are read",
            stages.len()
        ));
    }
    let mut numbers = BTreeMap::new();
    for (number, stage) in stages.iter().enumerate() {
        if numbers.insert(stage.name, number).is_some() {
            return Err(format!("two stages are called {}", stage.name));
        }
        if stage.after.contains(&stage.name) {
            return Err(format!("stage {} waits for itself", stage.name));
        }
    }
    // For each stage: how many it waits for, and who waits for it.
    let mut waits = vec![0_usize; stages.len()];
    let mut behind = vec![Vec::new(); stages.len()];
    for (number, stage) in stages.iter().enumerate() {
        for before in stage.after.iter().filter_map(|name| numbers.get(name)) {
            waits[number] += 1;
            behind[*before].push(number);
        }
    }
    let free = (0..stages.len()).filter(|number| waits[*number] == 0);
    let mut order: Vec<usize> = free.collect();
    let mut next = 0;
    while let Some(number) = order.get(next).copied() {
        next += 1;
        for follower in &behind[number] {
            waits[*follower] -= 1;
            if waits[*follower] == 0 {
                order.push(*follower);
            }
        }
    }
    if let Some(stuck) = (0..stages.len()).find(|number| waits[*number] > 0) {
        let name = stages[stuck].name;
        return Err(format!("stage {name} waits for itself, by way of others"));
    }
    let mut places = vec![0; stages.len()];
    for (place, number) in order.iter().enumerate() {
        places[*number] = place;
    }
    let mut placed: Vec<(usize, Stage)> = (stages.into_iter().enumerate())
        .map(|(number, stage)| {
            let after = stage.after.iter().filter_map(|name| numbers.get(name));
            let mut after: Vec<usize> = after.map(|number| places[*number]).collect();
            after.sort_unstable();
            after.dedup();
            let tasks = stage.tasks;
            (places[number], Stage { after, tasks })
        })
        .collect();
    placed.sort_by_key(|(place, _)| *place);
    Ok(placed.into_iter().map(|(_, stage)| stage).collect())
}
