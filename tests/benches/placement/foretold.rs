//! The same jobs in the simulation.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use simulate::runner::run;
use simulate::scenario::Scenario;
use simulate::trace::Loaded;

use crate::PLACES;
use crate::cluster::Setting;
use crate::workload::Workload;

/// Delays that the real cluster has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delays {
    /// From the start of an application to its master's first call.
    pub(crate) start: Duration,
    /// Between two calls of a master.
    pub(crate) heartbeat: Duration,
}

/// Values of a figure over the seeds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) least: f64,
    pub(crate) mean: f64,
    pub(crate) most: f64,
}

impl Range {
    fn of(values: &[f64]) -> Self {
        Self {
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            mean: values.iter().sum::<f64>() / values.len() as f64,
            most: values.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// Figures of the simulated jobs, over ten seeds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foretold {
    /// Completion times of jobs.
    pub(crate) longest_s: Range,
    pub(crate) p50_s: Range,
    pub(crate) p95_s: Range,
    /// Containers refused or shed, per container.
    pub(crate) turned_away: Range,
}

/// Simulates the jobs.
pub(crate) fn foretell(setting: &Setting, workload: &Workload, delays: Delays) -> Foretold {
    let mut scenario = scenario(setting, delays);
    let loaded = Loaded::read(&scenario, workload.trace().map(Ok));
    let loaded = loaded.expect("the jobs fit the nodes");
    scenario.workload.loaded = Some(loaded);
    let results = run(&scenario, 1, &AtomicBool::new(false), &mut |_| ());
    let runs: Vec<_> = results.runs.iter().flatten().flatten().collect();
    let of = |value: &dyn Fn(&simulate::summary::RunFigures) -> f64| {
        Range::of(
            &runs
                .iter()
                .map(|figures| value(figures))
                .collect::<Vec<_>>(),
        )
    };
    Foretold {
        longest_s: of(&|figures| figures.value("jct_p99_s")),
        p50_s: of(&|figures| figures.value("jct_p50_s")),
        p95_s: of(&|figures| figures.value("jct_p95_s")),
        turned_away: of(&|figures| figures.value("refused") + figures.value("shed")),
    }
}

fn scenario(setting: &Setting, delays: Delays) -> Scenario {
    let Setting {
        placement,
        listed,
        nodes,
        ..
    } = setting;
    let (start_ms, heartbeat_ms) = (delays.start.as_millis(), delays.heartbeat.as_millis());
    let text = format!(
        "title = \"forty nodes\"\n\
         cluster = {{ nodes = {nodes}, places = {PLACES} }}\n\
         workload = {{ jobs = \"trace\", trace = \"-\", format = \"csv\" }}\n\
         delays = {{ profile = \"agent\", am-heartbeat-ms = {heartbeat_ms} }}\n\
         masters = {{ start-ms = {start_ms} }}\n\
         run = {{ seeds = 10, warm-up-percent = 0 }}\n\
         arm = [{{ policy = \"{placement}\", nodes-used = {listed} }}]\n"
    );
    Scenario::read(&text).unwrap_or_else(|error| panic!("{error}:\n{text}"))
}
