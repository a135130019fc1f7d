//! The exposition as a whole: names, units, help, and that each method moves its series.

use std::collections::BTreeMap;
use std::time::Duration;

use records::{ContainerExitStatus, ContainerId, ExecutionType};
use refusals::Reason;
use sched::{Completion, Note, PassReason, PauseEnd, QueueOrder, RejectReason, ShedReason};

use super::*;

const ID: ContainerId = test_support::ids::container_of(7, 2);

/// Series by name and labels, without comments.
fn values(metrics: &Metrics) -> BTreeMap<String, f64> {
    metrics
        .encode()
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        })
        .collect()
}

/// The only series that differ, with how much they rose. Bucket and sum series are left out.
fn risen(metrics: &Metrics, before: &BTreeMap<String, f64>) -> Vec<(String, f64)> {
    values(metrics)
        .into_iter()
        .filter(|(series, _)| !series.contains("_bucket{") && !series.contains("_sum"))
        .filter_map(|(series, value)| {
            let rise = value - before[&series];
            (rise != 0.0).then_some((series, rise))
        })
        .collect()
}

fn assert_note_raises(note: Note, expected: &[&str]) {
    let metrics = Metrics::new();
    let before = values(&metrics);
    metrics.observe_note(&note);
    let expected: Vec<_> = expected
        .iter()
        .map(|name| ((*name).to_owned(), 1.0))
        .collect();
    assert_eq!(risen(&metrics, &before), expected, "{note:?}");
}

#[test]
fn every_family_has_a_prefix_a_unit_and_help_that_prometheus_rules_accept() {
    let text = Metrics::new().encode();
    let mut families = 0;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("# TYPE ") else {
            continue;
        };
        families += 1;
        let (name, kind) = rest.split_once(' ').unwrap();
        assert!(name.starts_with("nm_agent_"), "{name}");
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
            "{name}"
        );
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        if kind == "histogram" {
            assert!(name.ends_with("_seconds"), "{name} has no base unit");
        }
        for unit in ["_ms", "_millis", "_mb", "_minutes"] {
            assert!(!name.contains(unit), "{name} is not in a base unit");
        }
        let help = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("# HELP {name} ")))
            .unwrap_or_else(|| panic!("{name} has no help"));
        assert!(help.ends_with('.') && help.len() > 20, "{name}: {help}");
    }
    assert!(families > 25, "{families}");
}

#[test]
fn every_note_moves_its_own_series_and_no_other() {
    assert_note_raises(
        Note::Queued {
            id: ID,
            execution_type: ExecutionType::Opportunistic,
            position: 1,
            missing: records::Resource::new(0, 0),
        },
        &["nm_agent_container_queueings_total{execution_type=\"opportunistic\"}"],
    );
    assert_note_raises(
        Note::Started {
            id: ID,
            execution_type: ExecutionType::Guaranteed,
            queue_wait_ms: 1500,
            reported_wait_ms: None,
            estimated_wait_ms: None,
            resumed: false,
        },
        &[
            "nm_agent_container_queue_wait_seconds_count{execution_type=\"guaranteed\"}",
            "nm_agent_container_starts_total{execution_type=\"guaranteed\"}",
            "nm_agent_guaranteed_start_delay_seconds_count",
        ],
    );
    assert_note_raises(
        Note::Started {
            id: ID,
            execution_type: ExecutionType::Opportunistic,
            queue_wait_ms: 0,
            reported_wait_ms: None,
            estimated_wait_ms: None,
            resumed: true,
        },
        &["nm_agent_container_resumes_total"],
    );
    assert_note_raises(
        Note::LargerThanNode {
            id: ID,
            asked: Default::default(),
            node: Default::default(),
        },
        &["nm_agent_container_larger_than_node_starts_total"],
    );
    assert_note_raises(
        Note::Rejected {
            id: ID,
            reason: RejectReason::QueueFull,
        },
        &["nm_agent_container_rejections_total{reason=\"queue_full\"}"],
    );
    assert_note_raises(
        Note::Shed {
            id: ID,
            reason: ShedReason::QueueLength { limit: 3 },
        },
        &["nm_agent_container_sheds_total{limit=\"queue_length\"}"],
    );
}

#[test]
fn a_retry_is_counted() {
    assert_note_raises(
        Note::Retried {
            id: ID,
            status: ContainerExitStatus(1),
            after_ms: 1_000,
            remaining: None,
        },
        &["nm_agent_container_retries_total"],
    );
}

#[test]
fn starts_out_of_turn_are_counted_by_reason() {
    let passed = |reason| Note::Passed {
        id: ID,
        passed: ID,
        reason,
    };
    let order = PassReason::Order {
        order: QueueOrder::Shortest,
        expected_ms: 1,
        passed_expected_ms: 2,
    };
    assert_note_raises(
        passed(order),
        &["nm_agent_container_passes_total{reason=\"order\"}"],
    );
    assert_note_raises(
        passed(PassReason::Backfill { room_in_ms: 1 }),
        &["nm_agent_container_passes_total{reason=\"backfill\"}"],
    );
}

#[test]
fn changes_of_type_are_counted_by_direction() {
    assert_note_raises(
        Note::Promoted(ID),
        &["nm_agent_container_type_changes_total{direction=\"promotion\"}"],
    );
    assert_note_raises(
        Note::Demoted(ID),
        &["nm_agent_container_type_changes_total{direction=\"demotion\"}"],
    );
}

#[test]
fn making_room_counts_the_work_that_it_costs() {
    assert_note_raises(
        Note::Evicted {
            id: ID,
            for_container: ID,
            paused: true,
            ran_ms: 10,
        },
        &[
            "nm_agent_container_evicted_run_seconds_count{how=\"pause\"}",
            "nm_agent_container_evictions_total{how=\"pause\"}",
        ],
    );
    assert_note_raises(
        Note::Evicted {
            id: ID,
            for_container: ID,
            paused: false,
            ran_ms: 1_000,
        },
        &[
            "nm_agent_container_evicted_run_seconds_count{how=\"kill\"}",
            "nm_agent_container_evictions_total{how=\"kill\"}",
            "nm_agent_container_lost_work_seconds_total{cause=\"evicted\"}",
        ],
    );
    assert_note_raises(
        Note::PausedKilled {
            id: ID,
            reason: PauseEnd::TooLong,
            paused_ms: 300_000,
            ran_ms: 1_000,
        },
        &[
            "nm_agent_container_lost_work_seconds_total{cause=\"paused_too_long\"}",
            "nm_agent_container_paused_kills_total{reason=\"too_long\"}",
        ],
    );
}

#[test]
fn an_estimate_is_held_against_the_wait_that_followed() {
    for (estimated_ms, side) in [(500, "too_short"), (3_500, "too_long")] {
        let metrics = Metrics::new();
        metrics.observe_note(&Note::Started {
            id: ID,
            execution_type: ExecutionType::Opportunistic,
            queue_wait_ms: 1_500,
            reported_wait_ms: Some(estimated_ms),
            estimated_wait_ms: None,
            resumed: false,
        });
        let sum = format!("nm_agent_queue_wait_estimate_error_seconds_sum{{side=\"{side}\"}}");
        let error = f64::from(u32::try_from(estimated_ms.abs_diff(1_500)).unwrap()) / 1000.0;
        assert_eq!(values(&metrics)[&sum], error);
    }
}

#[test]
fn use_is_told_by_class_and_pressure_only_rises() {
    let metrics = Metrics::new();
    let mut sample = Sample::default();
    sample.by_type.opportunistic.pmem_mb = 2;
    sample.by_type.opportunistic.cpu_vcores = 1.5;
    sample.pressure.memory.some_us = 3_000_000;
    metrics.observe_sample(&sample);
    let memory = "nm_agent_containers_used_memory_bytes{execution_type=\"opportunistic\"}";
    let pressure = "nm_agent_node_pressure_seconds_total{resource=\"memory\",stalled=\"some\"}";
    let first = values(&metrics);
    assert_eq!((first[memory], first[pressure]), (2_097_152.0, 3.0));
    sample.pressure.memory.some_us = 2_000_000;
    metrics.observe_sample(&sample);
    assert_eq!(values(&metrics)[pressure], 3.0);
}

#[test]
fn a_class_has_pressure_only_where_the_kernel_tells() {
    let metrics = Metrics::new();
    let mut sample = Sample::default();
    metrics.observe_sample(&sample);
    let family = "nm_agent_containers_pressure_seconds_total";
    assert!(!metrics.encode().contains(family));
    let mut pressure = container_runtime::monitor::Pressure::default();
    pressure.cpu.all_us = 1_500_000;
    sample.pressure_by_type.opportunistic = Some(pressure);
    metrics.observe_sample(&sample);
    let values = values(&metrics);
    let of = |execution_type, resource, stalled| {
        let name = format!(
            "{family}{{execution_type=\"{execution_type}\",resource=\"{resource}\",stalled=\"{stalled}\"}}"
        );
        values.get(&name).copied()
    };
    assert_eq!(of("opportunistic", "cpu", "all"), Some(1.5));
    // Series without a wait so far are there, too, so that rates have a beginning.
    assert_eq!(of("opportunistic", "memory", "some"), Some(0.0));
    assert_eq!(of("guaranteed", "cpu", "all"), None);
}

#[test]
fn durations_are_exposed_in_seconds() {
    let metrics = Metrics::new();
    metrics.observe_launch(LaunchPhase::Total, Duration::from_millis(250));
    let values = values(&metrics);
    assert_eq!(
        values["nm_agent_container_launch_seconds_sum{phase=\"total\"}"],
        0.25
    );
}

#[test]
fn a_completion_counts_by_type_and_outcome() {
    let metrics = Metrics::new();
    metrics.observe_completion(&Completion {
        id: ID,
        exit_status: ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER,
        execution_type: ExecutionType::Opportunistic,
    });
    let series = "nm_agent_container_completions_total{execution_type=\"opportunistic\",outcome=\"killed_by_container_scheduler\"}";
    assert_eq!(values(&metrics)[series], 1.0);
}

#[test]
fn a_call_of_an_unknown_method_makes_no_new_series() {
    let metrics = Metrics::new();
    let before = values(&metrics).len();
    for name in ["a", "b", "startContainers"] {
        metrics.observe_rpc(
            RpcMethod::from_name(name),
            CallOutcome::Error,
            Duration::ZERO,
        );
    }
    let after = values(&metrics);
    assert_eq!(after.len(), before);
    assert_eq!(
        after["nm_agent_rpc_calls_total{method=\"other\",outcome=\"error\"}"],
        2.0
    );
}

#[test]
fn localization_counts_bytes_by_where_they_came_from() {
    let metrics = Metrics::new();
    metrics.observe_resource(CacheUse::Miss, 10);
    metrics.observe_resource(CacheUse::Miss, 5);
    metrics.observe_resource(CacheUse::Hit, 7);
    metrics.observe_localization(CallOutcome::Error, Duration::from_secs(9));
    let values = values(&metrics);
    assert_eq!(
        values["nm_agent_localized_bytes_total{cache=\"miss\"}"],
        15.0
    );
    assert_eq!(values["nm_agent_localized_bytes_total{cache=\"hit\"}"], 7.0);
    assert_eq!(
        values["nm_agent_localizations_total{outcome=\"error\"}"],
        1.0
    );
    assert_eq!(values["nm_agent_localization_seconds_count"], 0.0);
}

#[test]
fn gauges_follow_the_snapshot_and_a_missing_limit_is_infinite() {
    let metrics = Metrics::new();
    let mut node = crate::fixture::node();
    node.containers = vec![crate::fixture::container(1)];
    metrics.set_node(&node);
    let first = values(&metrics);
    assert_eq!(first["nm_agent_queue_limit_containers"], f64::INFINITY);
    assert_eq!(
        first["nm_agent_containers_running{execution_type=\"guaranteed\"}"],
        1.0
    );
    assert_eq!(
        first["nm_agent_memory_bytes{share=\"total\"}"],
        node.numbers.total.memory_mb as f64 * 1_048_576.0
    );
    node.numbers.queuing_limit = Some(sched::ContainerQueuingLimit {
        max_queue_length: Some(4),
        max_queue_wait_time_ms: Some(1500),
    });
    metrics.set_node(&node);
    let second = values(&metrics);
    assert_eq!(second["nm_agent_queue_limit_containers"], 4.0);
    assert_eq!(second["nm_agent_queue_wait_limit_seconds"], 1.5);
}

#[test]
fn uploads_of_logs_are_counted_with_their_files_and_bytes() {
    let metrics = Metrics::new();
    let before = values(&metrics);
    metrics.observe_log_upload(CallOutcome::Ok, 3, 70);
    metrics.observe_log_upload(CallOutcome::Error, 0, 0);
    let risen = risen(&metrics, &before);
    let expected = [
        ("nm_agent_log_uploads_total{outcome=\"error\"}", 1.0),
        ("nm_agent_log_uploads_total{outcome=\"ok\"}", 1.0),
        ("nm_agent_uploaded_log_bytes_total", 70.0),
        ("nm_agent_uploaded_log_files_total", 3.0),
    ];
    assert_eq!(risen, expected.map(|(name, rise)| (name.to_owned(), rise)));
}

#[test]
fn what_a_port_refuses_is_in_its_own_series_at_the_next_request() {
    let metrics = Metrics::new();
    let before = values(&metrics);
    let web = metrics.refusals(Port::Web);
    web.count(Reason::TooLarge);
    web.count(Reason::TooLarge);
    metrics.refusals(Port::Shuffle).count(Reason::Late);
    let expected = [
        (
            "nm_agent_refusals_total{port=\"shuffle\",reason=\"late\"}",
            1.0,
        ),
        (
            "nm_agent_refusals_total{port=\"web\",reason=\"too_large\"}",
            2.0,
        ),
    ];
    let expected = expected.map(|(series, rise)| (series.to_owned(), rise));
    assert_eq!(risen(&metrics, &before), expected);
    assert_eq!(risen(&metrics, &before), expected, "counted once");
}

#[test]
fn a_login_has_series_only_where_there_is_one() {
    const AGE: &str = "nm_agent_kerberos_login_age_seconds";
    const FAILING: &str = "nm_agent_kerberos_login_failing";
    let metrics = Metrics::new();
    const REFUSED: &str = "nm_agent_kerberos_refused_credentials_total";
    metrics.count_refused_credentials(1);
    let found = values(&metrics);
    let names = [AGE, FAILING, REFUSED];
    assert!(names.iter().all(|name| !found.contains_key(*name)));
    let asked = std::sync::atomic::AtomicU64::new(0);
    metrics.watch_login(move || {
        let times = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        LoginReading {
            age: (times > 0).then_some(Duration::from_millis(1500)),
            is_failing: times == 0,
        }
    });
    let found = values(&metrics);
    assert!(found[AGE].is_nan() && found[FAILING] == 1.0);
    let found = values(&metrics);
    assert!(found[AGE] == 1.5 && found[FAILING] == 0.0 && found[REFUSED] == 0.0);
    metrics.count_refused_credentials(2);
    assert_eq!(values(&metrics)[REFUSED], 2.0);
}
