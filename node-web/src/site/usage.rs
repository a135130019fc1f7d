//! What containers use, beside what they were asked: figures for pages and documents for REST.
//! Pure.
//!
//! Hadoop's REST documents stay as they are; these are below `/ws/v1/node/agent`.

use maud::{Markup, html};
use node_view::overview::words::{duration, number, vcores};
use node_view::snapshot::{ApplicationSnapshot, ContainerSnapshot, NodeSnapshot};
use node_view::usage::Used;
use records::EpochMillis;
use serde::Serialize;

use super::viewer::Viewer;

/// Containers and applications that the document of the node lists, the most memory in use first.
const LISTED_MAX: usize = 100;

/// Text in a place without a number.
const NONE: &str = "–";

/// Returns what a container or several use, as figures at the top of a page. `None`: not measured.
pub(super) fn tiles(used: Option<&Used>) -> Markup {
    let [memory, cpu, moved, stalled] = figures(used);
    html! {
        section aria-labelledby="usage" {
            h2.unseen id="usage" { "In use" }
            dl.tiles { (memory) (cpu) (moved) (stalled) }
        }
    }
}

fn figures(used: Option<&Used>) -> [Markup; 4] {
    let tile = |title: &str, figure: Option<String>, note: &str| {
        html! {
            div {
                dt { (title) }
                dd.figure { (figure.as_deref().unwrap_or(NONE)) }
                dd { (note) }
            }
        }
    };
    let moved = used.and_then(|used| Some((used.read_mb?, used.written_mb?)));
    let stalled = used.and_then(|used| used.stalled);
    let greatest = stalled.map(|parts| {
        parts
            .cpu_percent
            .max(parts.memory_percent)
            .max(parts.io_percent)
    });
    let stalled_note = stalled.map_or("not measured".to_owned(), |parts| {
        format!(
            "of the time: CPU {} %, memory {} %, devices {} %",
            parts.cpu_percent, parts.memory_percent, parts.io_percent
        )
    });
    [
        tile(
            "Memory in use",
            used.map(|used| format!("{} MiB", number(used.memory_mb))),
            &used.map_or("not measured".to_owned(), memory_note),
        ),
        tile(
            "CPUs busy",
            used.map(Used::cpus),
            &used.map_or("not measured".to_owned(), cpu_note),
        ),
        tile(
            "Read and written",
            moved.map(|(read, written)| format!("{} MiB", number(read.saturating_add(written)))),
            &moved.map_or("not measured".to_owned(), |(read, written)| {
                format!("{} MiB read, {} written", number(read), number(written))
            }),
        ),
        tile(
            "Waits",
            greatest.map(|percent| format!("{percent} %")),
            &stalled_note,
        ),
    ]
}

fn memory_note(used: &Used) -> String {
    let mut note = format!("of {} MiB asked", number(used.memory_asked_mb));
    if let Some(peak) = used.memory_peak_mb {
        note.push_str(&format!(", at most {}", number(peak)));
    }
    note
}

fn cpu_note(used: &Used) -> String {
    let (asked, time) = (vcores(used.vcores_asked), duration(used.cpu_time_ms));
    format!("of {asked} asked; {time} so far")
}

/// Use as REST has it. Memory is in mebibytes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsedInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    containers: usize,
    #[serde(rename = "memoryAskedMB")]
    memory_asked_mb: u64,
    #[serde(rename = "memoryUsedMB")]
    memory_used_mb: u64,
    #[serde(rename = "memoryPeakMB", skip_serializing_if = "Option::is_none")]
    memory_peak_mb: Option<u64>,
    #[serde(
        rename = "memoryChargedPeakMB",
        skip_serializing_if = "Option::is_none"
    )]
    charged_peak_mb: Option<u64>,
    vcores_asked: u32,
    cpu_millis: u32,
    cpu_time_millis: u64,
    #[serde(rename = "readMB", skip_serializing_if = "Option::is_none")]
    read_mb: Option<u64>,
    #[serde(rename = "writtenMB", skip_serializing_if = "Option::is_none")]
    written_mb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_stalled_percent: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_stalled_percent: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    io_stalled_percent: Option<u8>,
}

impl UsedInfo {
    pub(super) fn of(id: Option<String>, used: &Used) -> Self {
        let stalled = used.stalled;
        Self {
            id,
            containers: used.containers,
            memory_asked_mb: used.memory_asked_mb,
            memory_used_mb: used.memory_mb,
            memory_peak_mb: used.memory_peak_mb,
            charged_peak_mb: used.charged_peak_mb,
            vcores_asked: used.vcores_asked,
            cpu_millis: used.cpu_millis,
            cpu_time_millis: used.cpu_time_ms,
            read_mb: used.read_mb,
            written_mb: used.written_mb,
            cpu_stalled_percent: stalled.map(|parts| parts.cpu_percent),
            memory_stalled_percent: stalled.map(|parts| parts.memory_percent),
            io_stalled_percent: stalled.map(|parts| parts.io_percent),
        }
    }
}

/// Document of `/ws/v1/node/agent/usage`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageInfo {
    /// When it was measured; not there: it was not yet, or is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured_time: Option<i64>,
    /// Memory of the machine that is not available.
    #[serde(rename = "machineMemoryUsedMB")]
    machine_memory_mb: u64,
    /// Sum over all containers, those too that the reader may not see.
    #[serde(skip_serializing_if = "Option::is_none")]
    all: Option<UsedInfo>,
    /// The most memory in use first, at most [`LISTED_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    application: Vec<UsedInfo>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    container: Vec<UsedInfo>,
}

impl UsageInfo {
    pub(super) fn of(node: &NodeSnapshot, viewer: &Viewer) -> Self {
        let uses = &node.uses;
        let listed = |app: &ApplicationSnapshot| viewer.lists(app);
        let applications = uses.by_application().into_iter();
        let applications = applications.filter(|(id, _)| node.application(id).is_some_and(listed));
        let is_listed = |container: &ContainerSnapshot| viewer.lists_container(node, container);
        let containers = uses.containers();
        let containers = containers
            .filter(|(id, _)| node.container(id).is_some_and(is_listed))
            .map(|(id, container)| (*id, Used::from(container)));
        Self {
            measured_time: uses.at.map(|EpochMillis(at)| at),
            machine_memory_mb: uses.machine_memory_mb,
            all: uses.of_all().map(|used| UsedInfo::of(None, &used)),
            application: greatest(applications.collect()),
            container: greatest(containers.collect()),
        }
    }
}

fn greatest<I: ToString>(mut all: Vec<(I, Used)>) -> Vec<UsedInfo> {
    all.sort_by_key(|(_, used)| std::cmp::Reverse(used.memory_mb));
    let listed = all.iter().take(LISTED_MAX);
    listed
        .map(|(id, used)| UsedInfo::of(Some(id.to_string()), used))
        .collect()
}
