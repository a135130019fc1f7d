//! Applications whose calls pass the node's AMRMProxy: their rows in the document, and the texts
//! in words. Pure.

use std::collections::BTreeMap;

use amrm_proxy::attempts::{AttemptActivity, AttemptNumbers};
use serde::Serialize;

use crate::overview::Overview;
use crate::overview::words::{fine_duration, number};

/// Text in a place without data.
const NONE: &str = "–";

/// Attempts whose AMs call the ResourceManager through this node.
#[derive(Debug, Serialize)]
pub(super) struct Masters {
    /// Attempts that called most recently, in the order of their ids.
    pub(super) attempts: Vec<ProxiedAttempt>,
    /// How many `attempts` leaves out.
    pub(super) more: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct ProxiedAttempt {
    pub(super) application: String,
    pub(super) attempt: String,
    pub(super) user: String,
    /// Calls that were answered or refused since the AM was started here.
    pub(super) calls: u64,
    /// Since the last of them was; `null` before the first.
    pub(super) last_call_ms: Option<u64>,
    /// Mean time that a call took on this node; `null` before the first call.
    pub(super) own_mean_us: Option<u64>,
    /// Mean time that a call waited for the ResourceManager; `null` before the first call.
    pub(super) rm_mean_us: Option<u64>,
    /// Opportunistic containers that were given or are outstanding.
    pub(super) containers_asked: u64,
    /// Opportunistic containers that are asked for and not given yet.
    pub(super) containers_outstanding: u64,
    /// Opportunistic containers that this node gave on a host that was asked for.
    pub(super) given_node_local: u64,
    /// On a rack that was asked for.
    pub(super) given_rack_local: u64,
    /// Containers given on any other node.
    pub(super) given_off_switch: u64,
    /// Containers among those given whose end has not been reported.
    pub(super) containers_live: u64,
    /// Since the list of nodes came that containers are given on; `null` without one.
    pub(super) nodes_age_ms: Option<u64>,
    /// Calls that were delayed or refused by this node.
    pub(super) throttled_calls: u64,
    /// Containers in asks that a rule made opportunistic, each time they were asked for.
    pub(super) relabelled_containers: u64,
    /// Promotions of such containers that this node asked for.
    pub(super) promotions_asked: u64,
    /// Texts of the row, by the names of its places.
    pub(super) words: BTreeMap<&'static str, String>,
}

/// `None` without an AMRMProxy.
pub(super) fn of(overview: &Overview) -> Option<Masters> {
    let masters = overview.node.masters.as_ref()?;
    let attempts: Vec<_> = masters
        .most_active
        .iter()
        .map(|master| attempt(master, overview))
        .collect();
    let more = masters.total.saturating_sub(attempts.len());
    Some(Masters { attempts, more })
}

fn attempt(master: &AttemptActivity, overview: &Overview) -> ProxiedAttempt {
    let numbers = &master.numbers;
    let mean = numbers.mean();
    let us = |duration: std::time::Duration| u64::try_from(duration.as_micros()).ok();
    let since = |at| overview.now.mono.since(at);
    let mut attempt = ProxiedAttempt {
        application: master.attempt.application_id.to_string(),
        attempt: master.attempt.to_string(),
        user: master.user.clone(),
        calls: numbers.calls,
        last_call_ms: numbers.last_call_at.map(since),
        own_mean_us: mean.and_then(|mean| us(mean.total.saturating_sub(mean.rm))),
        rm_mean_us: mean.and_then(|mean| us(mean.rm)),
        containers_asked: numbers.containers_asked(),
        containers_outstanding: numbers.gauges.containers_outstanding,
        given_node_local: numbers.given.node_local,
        given_rack_local: numbers.given.rack_local,
        given_off_switch: numbers.given.off_switch,
        containers_live: numbers.gauges.containers_live,
        nodes_age_ms: numbers.gauges.nodes_at.map(since),
        throttled_calls: numbers.throttled,
        relabelled_containers: numbers.relabelled,
        promotions_asked: numbers.promotions_asked,
        words: BTreeMap::new(),
    };
    attempt.words = words(&attempt, numbers);
    attempt
}

fn words(attempt: &ProxiedAttempt, numbers: &AttemptNumbers) -> BTreeMap<&'static str, String> {
    let fine = |us: Option<u64>| us.map_or_else(|| NONE.to_owned(), fine_duration);
    let rm = attempt
        .rm_mean_us
        .map(|us| format!("to the RM's {}", fine_duration(us)));
    BTreeMap::from([
        ("user", attempt.user.clone()),
        ("calls", number(attempt.calls)),
        ("own", fine(attempt.own_mean_us)),
        ("rm", rm.unwrap_or_default()),
        ("wanted", wanted(attempt)),
        ("given", given(numbers)),
        ("done", done(attempt)),
    ])
}

fn wanted(attempt: &ProxiedAttempt) -> String {
    match attempt.containers_asked {
        0 => "none asked for".to_owned(),
        asked => format!(
            "{} wanted of {} asked for, {} live",
            number(attempt.containers_outstanding),
            number(asked),
            number(attempt.containers_live)
        ),
    }
}

fn given(numbers: &AttemptNumbers) -> String {
    let given = numbers.given;
    match given.total() {
        0 => String::new(),
        total => format!(
            "{} given: {} node, {} rack, {} any",
            number(total),
            number(given.node_local),
            number(given.rack_local),
            number(given.off_switch)
        ),
    }
}

/// Returns the number of containers whose asks this node changed, in words.
fn done(attempt: &ProxiedAttempt) -> String {
    let done = [
        (attempt.throttled_calls, "held back"),
        (attempt.relabelled_containers, "relabelled"),
        (attempt.promotions_asked, "to be promoted"),
    ];
    let done: Vec<String> = done
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", number(count)))
        .collect();
    if done.is_empty() {
        return NONE.to_owned();
    }
    done.join(", ")
}

/// Returns the line below the table.
pub(super) fn more(masters: Option<&Masters>) -> String {
    match masters {
        None => String::new(),
        Some(masters) if masters.more > 0 => format!(
            "And {} more, which called less recently.",
            number(masters.more as u64)
        ),
        Some(masters) if masters.attempts.is_empty() => {
            "None passes. ApplicationMasters that this node starts do when \
             yarn.resourcemanager.scheduler.address in their configuration is that of its AMRMProxy."
                .to_owned()
        }
        Some(_) => String::new(),
    }
}
