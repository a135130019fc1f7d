//! Levels of simulation, and what each has.

use serde::Deserialize;

use super::Scenario;
use super::arm::{Arm, Nature, Settings};
use super::cluster::RmKind;
use super::problem::ScenarioProblem;

/// Most nodes of the embedded ResourceManager.
const AGENTS_NODES_MAX: usize = 20_000;

/// Most jobs at level *agents*: the embedded ResourceManager takes so many applications at a time.
const AGENTS_JOBS_MAX: u64 = 10_000;

/// Programs that run in a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// The schedulers of nodes and the allocators of an arm alone: the fast one.
    #[default]
    Decisions,
    /// Whole agents, the embedded ResourceManager and the proxies, with their messages: the one
    /// that proves the other.
    Agents,
}

impl Level {
    /// Returns what headlines say of it; empty for the usual one.
    pub(crate) const fn described(self) -> &'static str {
        match self {
            Self::Decisions => "",
            Self::Agents => "; whole agents",
        }
    }
}

/// Returns what a scenario has that its level has not.
pub(super) fn problems(scenario: &Scenario) -> Vec<ScenarioProblem> {
    let mut found = Vec::new();
    let mut add = |key: &str, reason: &str| {
        let (key, reason) = (key.to_owned(), reason.to_owned());
        found.push(ScenarioProblem { key, reason });
    };
    let is_embedded = scenario.cluster.resource_manager == RmKind::Embedded;
    if is_embedded {
        if scenario.masters.container && scenario.masters.share_percent != 100 {
            add(
                "masters.share-percent",
                "cluster.resource-manager = \"embedded\" does not limit masters: set 100",
            );
        }
        if scenario.failures.up_s > 0 {
            add(
                "failures.up-s",
                "nodes do not fail under cluster.resource-manager = \"embedded\" yet: set 0",
            );
        }
    }
    if scenario.run.level == Level::Agents {
        if !is_embedded {
            add(
                "cluster.resource-manager",
                "run.level = \"agents\" has the embedded ResourceManager: set \"embedded\"",
            );
        }
        if !scenario.masters.container {
            add(
                "masters.container",
                "at run.level = \"agents\" every master has a container: set true",
            );
        }
        if scenario.cluster.node_count() > AGENTS_NODES_MAX {
            add(
                "cluster.nodes",
                "the embedded ResourceManager has at most 20000 nodes",
            );
        }
        if !(1..=AGENTS_JOBS_MAX).contains(&scenario.workload.count) {
            add(
                "workload.count",
                "run.level = \"agents\" takes 1 to 10000 jobs",
            );
        }
        if scenario.cluster.kinds().any(|kind| kind.news_age_ms > 0) {
            add(
                "cluster.news-age-ms",
                "at run.level = \"agents\" all nodes are ours and tell their load of the moment: \
                 set 0",
            );
        }
    }
    for (number, arm) in scenario.arms.iter().enumerate() {
        let refused = match scenario.run.level {
            Level::Agents => refused_by_agents(arm),
            Level::Decisions => None,
        };
        if let Some((name, reason)) = refused.or_else(|| refused_by_embedded(arm, is_embedded)) {
            add(&format!("arm {}.{name}", number + 1), reason);
        }
    }
    found
}

/// Returns the key of an arm that level *agents* has not, with the reason.
fn refused_by_agents(arm: &Arm) -> Option<(&'static str, &'static str)> {
    let defaults = Settings::default();
    if arm.policy.nature() != Nature::Ships {
        let reason = "run.level = \"agents\" runs what ships: look, spread, list-order or central";
        return Some(("policy", reason));
    }
    if arm.settings.holds_back != defaults.holds_back {
        return Some((
            "holds-back",
            "at run.level = \"agents\" proxies hold back: set true",
        ));
    }
    if arm.settings.queue_order != defaults.queue_order || arm.settings.hints {
        let reason = "run.level = \"agents\" has no lengths of earlier runs: set \"fifo\"";
        return Some(("queue-order", reason));
    }
    if arm.settings.uses_old_news != defaults.uses_old_news {
        let reason = "at run.level = \"agents\" proxies use no old news: set false";
        return Some(("uses-old-news", reason));
    }
    None
}

/// Returns the key of an arm that the embedded ResourceManager has not, with the reason.
fn refused_by_embedded(arm: &Arm, is_embedded: bool) -> Option<(&'static str, &'static str)> {
    let reason =
        "guaranteed-* are models of Hadoop's scheduler: set cluster.resource-manager = \"hadoop\"";
    (is_embedded && arm.policy.is_guaranteed()).then_some(("policy", reason))
}
