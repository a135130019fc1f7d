//! Workloads of Hadoop's load simulator that are drawn from distributions (SYNTH): one object with
//! classes of jobs, from which `num_jobs` jobs are drawn with the seed `rand_seed`.
//!
//! Both forms are read: a list of `tasks` with samples, and the older one with `mtasks_avg` and so
//! on. A sample is a number (`val`), log-normal or normal around it (`std`, `dist`), or one of a
//! list (`discrete`, `weights`). Times are in seconds, as the format says. The random numbers are
//! ours: the distributions are Hadoop's, the single jobs are not. Jobs come in the order in which
//! they are drawn, not in that of their arrival.

use std::io::BufRead;

use serde::Deserialize;
use sim::{Random, Streams};

use crate::input::Place;
use crate::job::{RawJob, TASKS_MAX, Tasks};
use crate::json::{Objects, Whole, bounded};
use crate::{MEMORY_MB, Source, TraceError};

/// Longest description in bytes.
const BYTES_MAX: u64 = 4 << 20;

/// Largest number that is drawn; what is above is a fault of the description.
const DRAWN_MAX: f64 = 1e12;

#[derive(Deserialize)]
struct Trace {
    num_jobs: Whole,
    #[serde(default = "no_seed")]
    rand_seed: Whole,
    #[serde(deserialize_with = "bounded")]
    workloads: Vec<Workload>,
}

const fn no_seed() -> Whole {
    Whole(0)
}

#[derive(Deserialize)]
struct Workload {
    workload_weight: f64,
    #[serde(deserialize_with = "bounded")]
    job_classes: Vec<Class>,
    #[serde(deserialize_with = "bounded")]
    time_distribution: Vec<Time>,
}

/// Second from which arrivals have this weight, up to the next one's.
#[derive(Deserialize)]
struct Time {
    time: Whole,
    weight: f64,
}

#[derive(Deserialize)]
struct Class {
    #[serde(default)]
    class_name: String,
    class_weight: f64,
    #[serde(default, deserialize_with = "bounded")]
    tasks: Vec<Kind>,
    mtasks_avg: Option<f64>,
    mtasks_stddev: Option<f64>,
    mtime_avg: Option<f64>,
    mtime_stddev: Option<f64>,
    map_max_memory_avg: Option<f64>,
    map_max_vcores_avg: Option<f64>,
    rtasks_avg: Option<f64>,
    rtasks_stddev: Option<f64>,
    rtime_avg: Option<f64>,
    rtime_stddev: Option<f64>,
    reduce_max_memory_avg: Option<f64>,
    reduce_max_vcores_avg: Option<f64>,
}

#[derive(Deserialize)]
struct Kind {
    count: Sample,
    time: Sample,
    max_memory: Option<Sample>,
    max_vcores: Option<Sample>,
}

#[derive(Default, Deserialize)]
struct Sample {
    val: Option<f64>,
    std: Option<f64>,
    dist: Option<Shape>,
    #[serde(default, deserialize_with = "bounded")]
    discrete: Vec<Number>,
    #[serde(default, deserialize_with = "bounded")]
    weights: Vec<f64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Shape {
    LogNorm,
    Norm,
}

/// Number that may be written as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Value(f64),
    Text(String),
}

impl Sample {
    fn of(val: Option<f64>, std: Option<f64>) -> Option<Self> {
        val.map(|val| Self {
            val: Some(val),
            std: std.filter(|std| *std > 0.0),
            ..Self::default()
        })
    }

    /// Draws a whole number.
    fn draw(&self, random: &mut Random) -> Result<u64, String> {
        let drawn = match (self.val, self.std) {
            (None, _) => {
                let ones = vec![1.0; self.discrete.len()];
                let weights = if self.weights.is_empty() {
                    &ones
                } else {
                    &self.weights
                };
                if weights.len() != self.discrete.len() {
                    return Err("a sample with other numbers of values and weights".to_owned());
                }
                match &self.discrete[weighted(weights, random)?] {
                    Number::Value(value) => *value,
                    Number::Text(text) => text.parse().unwrap_or(f64::NAN),
                }
            }
            (Some(mean), None) => mean,
            (Some(mean), _) if mean <= 0.0 => 0.0,
            (Some(mean), Some(deviation)) => match self.dist.unwrap_or(Shape::LogNorm) {
                Shape::Norm => mean + deviation * normal(random),
                Shape::LogNorm => {
                    let variance = (1.0 + (deviation / mean).powi(2)).ln();
                    (mean.ln() - variance / 2.0 + variance.sqrt() * normal(random)).exp()
                }
            },
        };
        if !(drawn.is_finite() && drawn <= DRAWN_MAX) {
            return Err(format!("a sample drew {drawn}"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "below the bound; what is negative becomes 0"
        )]
        let whole = drawn.round() as u64;
        Ok(whole)
    }
}

/// Draws from the normal distribution with the mean 0 and the variance 1 (Box and Muller, 1958).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.fraction()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.fraction()).cos()
}

/// Draws an index with a probability in proportion to its weight.
fn weighted(weights: &[f64], random: &mut Random) -> Result<usize, String> {
    let sum: f64 = weights.iter().sum();
    let are_weights = weights.iter().all(|weight| *weight >= 0.0);
    if !(are_weights && sum.is_finite() && sum > 0.0) {
        return Err("weights whose sum is not above 0".to_owned());
    }
    let mut left = random.fraction() * sum;
    let last = weights.iter().rposition(|weight| *weight > 0.0);
    for (number, weight) in weights.iter().enumerate() {
        if left < *weight {
            return Ok(number);
        }
        left -= weight;
    }
    Ok(last.unwrap_or(0))
}

impl Class {
    /// Returns the kinds of tasks in either form.
    fn kinds(&mut self) -> Vec<Kind> {
        let map = Sample::of(self.mtasks_avg, self.mtasks_stddev)
            .zip(Sample::of(self.mtime_avg, self.mtime_stddev))
            .map(|(count, time)| Kind {
                count,
                time,
                max_memory: Sample::of(self.map_max_memory_avg, None),
                max_vcores: Sample::of(self.map_max_vcores_avg, None),
            });
        let reduce = Sample::of(self.rtasks_avg, self.rtasks_stddev)
            .zip(Sample::of(self.rtime_avg, self.rtime_stddev))
            .map(|(count, time)| Kind {
                count,
                time,
                max_memory: Sample::of(self.reduce_max_memory_avg, None),
                max_vcores: Sample::of(self.reduce_max_vcores_avg, None),
            });
        let tasks = std::mem::take(&mut self.tasks);
        if tasks.is_empty() {
            map.into_iter().chain(reduce).collect()
        } else {
            tasks
        }
    }
}

impl Kind {
    /// Draws the tasks of this kind, at most `room` of them.
    fn draw(&self, room: u64, random: &mut Random) -> Result<Vec<Tasks>, String> {
        let count = self.count.draw(random)?;
        if count > room {
            return Err(format!("a job of more than {TASKS_MAX} tasks"));
        }
        let or = |sample: &Option<Sample>, random: &mut Random, least: u64| match sample {
            Some(sample) => Ok(sample.draw(random)?.max(least)),
            None => Ok::<u64, String>(least),
        };
        let memory_mb = or(&self.max_memory, random, MEMORY_MB)?;
        let vcores = u32::try_from(or(&self.max_vcores, random, 1)?).unwrap_or(u32::MAX);
        let length = |_| {
            let seconds = self.time.draw(random)?;
            Ok(Tasks {
                memory_mb,
                vcores,
                ..Tasks::of(seconds.saturating_mul(1_000))
            })
        };
        (0..count).map(length).collect()
    }
}

/// Description that jobs are drawn from.
struct Drawing {
    trace: Trace,
    /// Kinds of tasks of each class of each workload.
    kinds: Vec<Vec<Vec<Kind>>>,
    random: Random,
    drawn: i64,
}

impl Drawing {
    fn new(mut trace: Trace) -> Self {
        let workloads = trace.workloads.iter_mut();
        let kinds = workloads
            .map(|workload| workload.job_classes.iter_mut().map(Class::kinds).collect())
            .collect();
        let seed = u64::from_le_bytes(trace.rand_seed.0.to_le_bytes());
        Self {
            trace,
            kinds,
            random: Streams::new(seed).stream("synth", 0),
            drawn: 0,
        }
    }

    fn draw(&mut self) -> Result<Option<RawJob>, String> {
        if self.drawn >= self.trace.num_jobs.0 {
            return Ok(None);
        }
        self.drawn += 1;
        let random = &mut self.random;
        let weights = self.trace.workloads.iter().map(|one| one.workload_weight);
        let workload = weighted(&weights.collect::<Vec<f64>>(), random)?;
        let of_workload = &self.trace.workloads[workload];
        let times = &of_workload.time_distribution;
        let weights: Vec<f64> = times.iter().map(|time| time.weight).collect();
        let from = weighted(&weights, random)?;
        let start = times[from].time.0;
        let end = times.get(from + 1).map_or(start, |next| next.time.0);
        let range = u64::try_from(end.saturating_sub(start)).unwrap_or(0);
        let within = i64::try_from(random.below(range)).unwrap_or(0);
        let weights = of_workload.job_classes.iter().map(|one| one.class_weight);
        let class = weighted(&weights.collect::<Vec<f64>>(), random)?;
        let name: String = of_workload.job_classes[class]
            .class_name
            .chars()
            .take(60)
            .collect();
        let mut room = TASKS_MAX;
        let mut stages = Vec::new();
        for kind in &self.kinds[workload][class] {
            let tasks = kind.draw(room, random)?;
            room -= tasks.len() as u64;
            stages.push(tasks);
        }
        let submit_ms = start.saturating_add(within).saturating_mul(1_000);
        let id = format!("{name}_{}", self.drawn);
        Ok(Some(RawJob::in_sequence(id, submit_ms, stages)))
    }
}

pub(crate) struct Reader<R: BufRead> {
    objects: Objects<R, Trace>,
    /// The description and its place, once read.
    drawing: Option<(Place, Drawing)>,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self {
            objects: Objects::new(input, BYTES_MAX),
            drawing: None,
        }
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn next_job(&mut self) -> Result<Option<(Place, RawJob)>, TraceError> {
        if self.drawing.is_none() {
            let read = self.objects.next_object()?;
            let Some((place, trace)) = read else {
                let place = Place { line: 1, byte: 0 };
                return Err(TraceError::new(place, "no description"));
            };
            self.drawing = Some((place, Drawing::new(trace)));
        }
        let Some((place, drawing)) = &mut self.drawing else {
            return Ok(None);
        };
        let job = drawing.draw();
        let job = job.map_err(|reason| TraceError::new(*place, reason))?;
        Ok(job.map(|job| (*place, job)))
    }
}
