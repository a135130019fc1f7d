//! Words about applications whose calls pass the node's AMRMProxy.

use std::time::Duration;

use amrm_proxy::attempts::{AttemptActivity, AttemptNumbers};
use node_view::overview::words::{fine_duration, number};
use serde::Serialize;

use super::NONE;
use crate::overview::Overview;

/// Mean time of a call, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct MeanMicros {
    /// Time that the call took on this node.
    pub(in super::super) own: u64,
    /// Time that the call waited for the ResourceManager.
    pub(in super::super) rm: u64,
}

/// Returns the mean times of an attempt's calls; `None` before the first.
pub(in super::super) fn mean_us(numbers: &AttemptNumbers) -> Option<MeanMicros> {
    let mean = numbers.mean()?;
    let us = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    Some(MeanMicros {
        own: us(mean.total.saturating_sub(mean.rm)),
        rm: us(mean.rm),
    })
}

/// Texts of an attempt's row, by the names of their places.
#[derive(Debug, Serialize)]
pub(in super::super) struct AttemptTexts {
    pub(in super::super) user: String,
    pub(in super::super) calls: String,
    pub(in super::super) own: String,
    pub(in super::super) rm: String,
    pub(in super::super) wanted: String,
    pub(in super::super) given: String,
    pub(in super::super) done: String,
}

impl AttemptTexts {
    pub(in super::super) fn of(master: &AttemptActivity) -> Self {
        let numbers = &master.numbers;
        let mean = mean_us(numbers);
        let rm = mean.map(|mean| format!("to the RM's {}", fine_duration(mean.rm)));
        Self {
            user: master.user.clone(),
            calls: number(numbers.calls),
            own: mean.map_or_else(|| NONE.to_owned(), |mean| fine_duration(mean.own)),
            rm: rm.unwrap_or_default(),
            wanted: wanted(numbers),
            given: given(numbers),
            done: done(numbers),
        }
    }
}

fn wanted(numbers: &AttemptNumbers) -> String {
    match numbers.containers_asked() {
        0 => "none asked for".to_owned(),
        asked => format!(
            "{} wanted of {} asked for, {} live",
            number(numbers.gauges.containers_outstanding),
            number(asked),
            number(numbers.gauges.containers_live)
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
fn done(numbers: &AttemptNumbers) -> String {
    let done = [
        (numbers.throttled, "held back"),
        (numbers.relabelled, "relabelled"),
        (numbers.promotions_asked, "to be promoted"),
        (numbers.looks.asked, "looks at nodes"),
        (numbers.looks.held_back, "left for want of room"),
        (numbers.looks.unseen, "placed unseen"),
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
pub(super) fn more(overview: &Overview) -> String {
    let Some(masters) = &overview.masters else {
        return String::new();
    };
    match masters.total.saturating_sub(masters.most_active.len()) {
        0 if masters.total == 0 => {
            "None passes. ApplicationMasters that this node starts do when \
             yarn.resourcemanager.scheduler.address in their configuration is that of its AMRMProxy."
                .to_owned()
        }
        0 => String::new(),
        more => format!(
            "And {} more, which called less recently.",
            number(more as u64)
        ),
    }
}
