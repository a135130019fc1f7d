//! The document, the page and the events, with an overview made up by each test.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use amrm_proxy::attempts::{AttemptNumbers, ProxiedAttempts};
use node_view::overview::{Decision, LISTED_MAX, Listing, RecentDecision};
use node_view::snapshot::{Counts, NodeNumbers, NodeSnapshot, RmContact};
use records::{ContainerExitStatus, EpochMillis, ExecutionType, MonoMillis};
use sched::Completion;

use super::*;
use crate::fixture::container_id;
use crate::overview::MASTERS_LISTED_MAX;
use crate::overview::fixture::{master, overview, waiting};
use crate::source::{Changes, NodeSource, RoleHistories};

const UTC: UtcOffset = UtcOffset::UTC;
const HOSTILE: &str = "<script>alert('x')</script>&\"";

fn html(view: &Overview) -> String {
    page::page(view, UTC)
}

fn of_json(view: &Overview) -> serde_json::Value {
    serde_json::from_str(&document::text(view, UTC)).unwrap()
}

#[test]
fn the_page_shows_the_node_without_a_script() {
    let page = html(&overview());
    for text in [
        "<span data-text=\"node_id\">node-1.example:8041</span>",
        "Registered with the ResourceManager for <span data-ms=\"119000\">1 min 59 s</span>.",
        "data-text=\"running_guaranteed\">1<",
        "data-text=\"running_opportunistic\">1<",
        "data-text=\"waiting\">2<",
        "data-text=\"longest_wait\">40 s<",
        "data-text=\"wait_note\">one more: about 12 s<",
        "data-text=\"limit\">4<",
        "Last 2 minutes",
        "dashed: limit 4",
        "<td class=\"n\" data-cell=\"age\" data-ms=\"40000\">40 s</td>",
        ">opportunistic, bob</span>",
        "512 MiB, 1 vcore<",
        "Queued at place 2</td>",
        "datetime=\"2023-11-14T22:15:10Z\">22:15:10</time>",
        "<a data-cell=\"container\" href=\"/node/container/container_1700000000000_0007_01_000004\">\
         <span class=\"dim\">container_1700000000000_</span>0007_01_000004</a>",
        "up <span data-ms=\"120000\" data-text=\"uptime\">2 min 00 s</span>",
    ] {
        assert!(page.contains(text), "{text} is not in\n{page}");
    }
}

#[test]
fn texts_from_outside_stay_text() {
    let mut view = overview();
    let about = Arc::make_mut(&mut view.node.about);
    about.health.healthy = false;
    about.health.report = HOSTILE.to_owned();
    about.node_id.host = HOSTILE.to_owned();
    about.versions.node_manager_build = HOSTILE.to_owned();
    view.node.running.first[0].user = HOSTILE.to_owned();
    view.node.waiting.first[0].user = HOSTILE.to_owned();
    view.masters = Some(masters(1));
    if let Some(masters) = &mut view.masters {
        masters.most_active[0].user = HOSTILE.to_owned();
    }
    view.node.decisions = vec![RecentDecision {
        sequence: 1,
        at: EpochMillis(0),
        decision: Decision::Completed {
            completion: Completion {
                id: container_id(1),
                exit_status: ContainerExitStatus(1),
                execution_type: ExecutionType::Opportunistic,
            },
            said: HOSTILE.to_owned(),
        },
        folded: 0,
    }];
    let page = html(&view);
    assert!(!page.contains("<script>"), "{page}");
    let shown = page.matches("&lt;script&gt;alert('x')").count();
    // Twice the node's name, and once each of the others.
    assert_eq!(shown, 8, "{page}");
    assert_eq!(of_json(&view)["queue"]["containers"][0]["user"], HOSTILE);
}

#[test]
fn a_queue_of_ten_thousand_shows_its_head_and_says_how_many_follow() {
    let mut view = overview();
    let all = (0..10_000).map(|id| waiting(id, 100_000));
    view.node.waiting = Listing::cut(all, 10_000);
    view.node.numbers.counts.waiting = 10_000;
    let page = html(&view);
    assert_eq!(page.matches("opportunistic, bob").count(), LISTED_MAX);
    assert!(page.contains("And 9,975 more behind these."), "{page}");
    assert!(page.contains("data-text=\"waiting\">10,000<"));
    assert!(document::text(&view, UTC).len() < 20_000);
}

fn masters(total: usize) -> ProxiedAttempts {
    let listed = i32::try_from(total.min(MASTERS_LISTED_MAX)).unwrap();
    ProxiedAttempts {
        most_active: (1..=listed).map(master).collect(),
        total,
    }
}

#[test]
fn applications_that_pass_the_proxy_show_what_it_did_for_them() {
    let mut view = overview();
    view.masters = Some(masters(1));
    let page = html(&view);
    for text in [
        "<section id=\"masters\" aria-labelledby=\"masters-head\">",
        "<a data-cell=\"attempt\" href=\"/node/application/application_1700000000000_0001\">\
         <span class=\"dim\">appattempt_1700000000000_</span>0001_000001</a>",
        "data-word=\"user\">carol<",
        "data-word=\"calls\">1,200<",
        ">last <span data-ms=\"800\">800 ms</span> ago<",
        "data-word=\"own\">53 µs<",
        "data-word=\"rm\">to the RM's 1.5 ms<",
        "data-word=\"wanted\">20 wanted of 140 asked for, 12 live<",
        "data-word=\"given\">120 given: 100 node, 15 rack, 5 any<",
        ">list of nodes <span data-ms=\"2000\">2.0 s</span> old<",
        "data-word=\"done\">3 held back, 2 to be promoted, 9 looks at nodes, 5 left for want of room, \
         1 placed unseen<",
    ] {
        assert!(page.contains(text), "{text} is not in\n{page}");
    }
    let document = of_json(&view);
    let attempt = &document["masters"]["attempts"][0];
    assert_eq!(attempt["attempt"], "appattempt_1700000000000_0001_000001");
    assert_eq!(attempt["own_mean_us"], 53);
    assert_eq!(attempt["rm_mean_us"], 1_500);
    assert_eq!(attempt["containers_asked"], 140);
    assert_eq!(attempt["containers_outstanding"], 20);
    assert_eq!(attempt["given_node_local"], 100);
    assert_eq!(attempt["nodes_age_ms"], 2_000);
    assert_eq!(document["masters"]["more"], 0);
}

#[test]
fn the_table_of_masters_is_there_only_with_a_proxy_and_says_when_nobody_passes() {
    let mut view = overview();
    let page = html(&view);
    assert!(
        page.contains("aria-labelledby=\"masters-head\" hidden>"),
        "{page}"
    );
    assert_eq!(of_json(&view)["masters"], serde_json::Value::Null);
    view.masters = Some(masters(0));
    let page = html(&view);
    assert!(page.contains("aria-labelledby=\"masters-head\">"), "{page}");
    assert!(page.contains("class=\"masters\" hidden>"), "{page}");
    assert!(page.contains("None passes."), "{page}");
}

#[test]
fn a_master_that_has_not_called_has_no_times() {
    let mut view = overview();
    view.masters = Some(masters(1));
    if let Some(masters) = &mut view.masters {
        masters.most_active[0].numbers = AttemptNumbers::default();
    }
    let page = html(&view);
    for text in [
        "data-cell=\"last\" hidden>",
        "data-cell=\"nodes\" hidden>",
        "data-word=\"own\">–<",
        "data-word=\"rm\"><",
        "data-word=\"wanted\">none asked for<",
        "data-word=\"done\">–<",
    ] {
        assert!(page.contains(text), "{text} is not in\n{page}");
    }
    assert_eq!(
        of_json(&view)["masters"]["attempts"][0]["own_mean_us"],
        serde_json::Value::Null
    );
}

#[test]
fn ten_thousand_masters_are_a_bounded_list_and_a_number() {
    let mut view = overview();
    view.masters = Some(masters(10_000));
    let page = html(&view);
    assert_eq!(
        page.matches("data-word=\"user\">carol<").count(),
        MASTERS_LISTED_MAX
    );
    assert!(page.contains("And 9,900 more, which called less recently."));
    assert!(document::text(&view, UTC).len() < 100_000);
}

#[test]
fn an_idle_node_says_what_there_would_be_to_see() {
    let mut view = overview();
    view.node.numbers.counts = Counts::default();
    view.node.running = Listing::cut(std::iter::empty(), 0);
    view.node.waiting = Listing::cut(std::iter::empty(), 0);
    view.node.decisions.clear();
    view.node.numbers.queuing_limit = None;
    let page = html(&view);
    for text in [
        "<table id=\"queue-table\" hidden>",
        "<table id=\"running-table\" hidden>",
        "hidden><thead><tr><th scope=\"col\">Time",
        "Nothing waits. Containers line up here when the node is full.",
        "Nothing runs. Submit a job",
        "No decisions yet.",
        "data-text=\"limit\">none<",
        "data-text=\"longest_wait\">–<",
    ] {
        assert!(page.contains(text), "{text} is not in\n{page}");
    }
    view.node.numbers.opportunistic.opport_queue_capacity = 0;
    assert!(html(&view).contains("opportunistic-containers-max-queue-length is above 0."));
}

#[test]
fn a_silent_or_searched_for_resource_manager_is_told_with_what_to_do() {
    let mut view = overview();
    view.node.rm = (RmContact::Silent, MonoMillis(100_000));
    let page = html(&view);
    assert!(page.contains("data-state=\"silent\""), "{page}");
    assert!(page.contains("has not answered for <span data-ms=\"20000\">20 s</span>."));
    view.node.rm = (RmContact::Registering, MonoMillis(0));
    let page = html(&view);
    assert!(
        page.contains("Not registered; trying for <span data-ms=\"120000\">2 min 00 s</span>.")
    );
    assert!(page.contains("yarn.resourcemanager.resource-tracker.address"));
}

#[test]
fn a_limit_far_above_the_queue_is_not_drawn_into_the_chart() {
    let mut view = overview();
    if let Some(limit) = &mut view.node.numbers.queuing_limit {
        limit.max_queue_length = Some(1_000);
    }
    let page = html(&view);
    assert!(page.contains("<span data-text=\"limit_mark\"></span>"));
    assert!(page.contains("data-text=\"limit\">1,000<"));
}

#[test]
fn the_chart_is_a_step_for_each_change_within_the_frame() {
    let page = html(&overview());
    // Nothing for the first minute of two, then two of at most four (the limit) at half the height.
    assert!(
        page.contains("<path class=\"line\" d=\"M0.0 100.0H300.0V53.0H1200\">"),
        "{page}"
    );
    assert!(
        page.contains("d=\"M0.0 100.0H300.0V6.0H1200V100H0.0Z\""),
        "{page}"
    );
}

#[test]
fn the_document_has_units_in_its_names() {
    let document = of_json(&overview());
    assert_eq!(document["at_epoch_ms"], 1_700_000_120_000_i64);
    assert_eq!(document["at_local"], "22:15:20");
    assert_eq!(document["node"]["id"], "node-1.example:8041");
    assert_eq!(document["node"]["uptime_ms"], 120_000);
    assert_eq!(document["resource_manager"]["state"], "registered");
    assert_eq!(document["resource_manager"]["since_ms"], 119_000);
    assert_eq!(document["resources"]["memory_total_mb"], 8192);
    assert_eq!(document["running"]["guaranteed"], 1);
    assert_eq!(document["queue"]["limit_length"], 4);
    assert_eq!(document["queue"]["limit_wait_ms"], serde_json::Value::Null);
    assert_eq!(document["queue"]["longest_wait_ms"], 40_000);
    assert_eq!(document["queue"]["estimated_wait_ms"], 12_000);
    assert_eq!(document["history"]["steps"][1]["second"], 60);
    assert_eq!(document["history"]["steps"][1]["waiting"], 2);
    assert_eq!(document["decisions"][0]["words"], "Queued at place 2");
    assert_eq!(document["decisions"][0]["kind"], "queued");
    assert_eq!(
        document["decisions"][1]["container"],
        serde_json::Value::Null
    );
}

/// The relative luminance of a colour `#rrggbb` (WCAG 2).
fn luminance(colour: &str) -> f64 {
    let part = |at: usize| {
        let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.040_45 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

#[test]
fn every_text_colour_stands_out_from_both_grounds_in_light_and_dark() {
    let sheet = include_str!("static/agent.css");
    let schemes: Vec<BTreeMap<&str, &str>> = sheet
        .split(":root {")
        .skip(1)
        .map(|rest| {
            let block = rest.split('}').next().unwrap();
            block
                .split(';')
                .filter_map(|line| line.trim().strip_prefix("--")?.split_once(": "))
                .collect()
        })
        .collect();
    assert_eq!(schemes.len(), 2, "light and dark");
    for scheme in schemes {
        for name in [
            "ink",
            "soft",
            "link",
            "guaranteed",
            "opportunistic",
            "waiting",
            "bad",
            "good",
        ] {
            for ground in ["ground", "raised"] {
                let mut pair = [luminance(scheme[name]), luminance(scheme[ground])];
                pair.sort_by(f64::total_cmp);
                let contrast = (pair[1] + 0.05) / (pair[0] + 0.05);
                assert!(contrast >= 4.5, "{name} on {ground}: {contrast:.1}");
            }
        }
    }
}

/// A node whose overview a test changes.
struct Changing {
    view: Mutex<Overview>,
    changes: tokio::sync::watch::Sender<u64>,
}

impl Changing {
    fn new() -> Self {
        Self {
            view: Mutex::new(overview()),
            changes: tokio::sync::watch::Sender::new(0),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Overview)) {
        change(&mut self.view.lock().unwrap());
        self.changes.send_modify(|revision| *revision += 1);
    }
}

impl NodeSource for Changing {
    async fn snapshot(&self) -> Option<Arc<NodeSnapshot>> {
        None
    }

    async fn numbers(&self) -> Option<NodeNumbers> {
        None
    }

    async fn overview(&self) -> Option<Overview> {
        Some(self.view.lock().unwrap().clone())
    }

    async fn role_histories(&self) -> Option<RoleHistories> {
        None
    }

    fn changes(&self) -> Changes {
        Changes::new(self.changes.subscribe(), None)
    }
}

mod following;
