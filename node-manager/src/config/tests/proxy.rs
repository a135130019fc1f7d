//! The AMRMProxy's section.

use std::time::Duration;

use amrm_proxy::config::{
    HistoryRule, InterceptorKind, OptIn, RelabelRule, ThrottleConfig, TokenPolicy,
};

use super::{config, problems, warnings};

#[test]
fn there_is_no_proxy_unless_it_is_wanted() {
    let default = config(&[]).amrm_proxy;
    assert!(!default.enabled);
    assert_eq!(default.address.to_string(), "0.0.0.0:8049");
    assert_eq!(default.proxy.throttle, ThrottleConfig::default());
    assert_eq!(
        (default.proxy.keys.interval, default.proxy.keys.overlap),
        (86_400_000, 1_350_000)
    );
    assert_eq!(default.proxy.rm.max_wait, Some(Duration::from_secs(900)));
    assert_eq!(default.proxy.relabel, []);
    assert_eq!(
        default.proxy.allocator,
        sched::DistributedAllocatorConfig {
            placement: sched::Placement::Look,
            ..sched::DistributedAllocatorConfig::default()
        }
    );
    assert!(config(&[("amrmproxy.enabled", "true")]).amrm_proxy.enabled);
}

#[test]
fn placement_is_spread_in_the_order_of_the_list_or_by_looks() {
    let name = "agent.amrmproxy.placement";
    let read = |word| config(&[(name, word)]).amrm_proxy.proxy.allocator.placement;
    assert_eq!(read("spread"), sched::Placement::Spread);
    assert_eq!(read("list-order"), sched::Placement::ListOrder);
    assert_eq!(read("look"), sched::Placement::Look);
    assert_eq!(problems(&[(name, "random")]).len(), 1);
    let wait = "agent.amrmproxy.look-wait-ms";
    assert_eq!(config(&[]).amrm_proxy.look_wait_ms, 20);
    assert_eq!(config(&[(wait, "5")]).amrm_proxy.look_wait_ms, 5);
    assert_eq!(problems(&[(wait, "0")]).len(), 1);
}

#[test]
fn who_turns_the_proxy_on_without_a_choice_hears_what_becomes_of_other_jobs() {
    let name = "agent.amrmproxy.token";
    let enabled = ("amrmproxy.enabled", "true");
    let read = |word| config(&[(name, word)]).amrm_proxy.proxy.token;
    assert_eq!(read("replace"), TokenPolicy::Replace);
    assert_eq!(read("keep"), TokenPolicy::Keep);
    assert_eq!(config(&[]).amrm_proxy.proxy.token, TokenPolicy::Replace);
    assert_eq!(problems(&[(name, "both")]).len(), 1);
    for on in ["amrmproxy.enabled", "distributed-scheduling.enabled"] {
        let told = warnings(&[(on, "true")]);
        let [told] = told.as_slice() else {
            panic!("{told:?}");
        };
        for part in [name, "= replace", "Invalid AMRMToken", "keep"] {
            assert!(told.contains(part), "{told}");
        }
    }
    for quiet in [
        vec![],
        vec![enabled, (name, "keep")],
        vec![enabled, (name, "replace")],
    ] {
        assert_eq!(warnings(&quiet), [""; 0]);
    }
}

#[test]
fn it_speaks_to_every_resource_managers_scheduler() {
    let proxy = config(&[
        ("yarn.resourcemanager.ha.enabled", "true"),
        ("yarn.resourcemanager.ha.rm-ids", "b, a"),
        ("yarn.resourcemanager.hostname.a", "one.example"),
        ("yarn.resourcemanager.hostname.b", "two.example"),
        (
            "yarn.resourcemanager.scheduler.address.a",
            "one.example:9030",
        ),
    ])
    .amrm_proxy
    .proxy;
    assert_eq!(proxy.rm.addresses, ["two.example:8030", "one.example:9030"]);
}

#[test]
fn a_chain_is_read_by_either_name_and_an_unknown_one_refused_with_the_known() {
    let name = "amrmproxy.interceptor-class.pipeline";
    let read = config(&[(name, "throttle, forwarder")])
        .amrm_proxy
        .proxy
        .pipeline;
    assert_eq!(
        read,
        [
            InterceptorKind::CallMetrics,
            InterceptorKind::Throttle,
            InterceptorKind::Forwarder
        ]
    );
    let enabled = ("amrmproxy.enabled", "true");
    let messages = problems(&[enabled, (name, "org.example.Mine,forwarder")]);
    assert_eq!(messages.len(), 1, "{messages:?}");
    for part in [
        name,
        "org.example.Mine",
        "DefaultRequestInterceptor",
        "relabel",
    ] {
        assert!(messages[0].contains(part), "{messages:?}");
    }
}

#[test]
fn distributed_scheduling_wants_a_proxy_and_puts_its_scheduler_into_the_chain() {
    let config = config(&[
        ("distributed-scheduling.enabled", "true"),
        ("resourcemanager.connect.max-wait.ms", "7000"),
        (
            "yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat",
            "12",
        ),
    ]);
    let proxy = config.amrm_proxy;
    assert!(proxy.enabled && proxy.proxy.rm.distributed_scheduling);
    assert!(
        proxy
            .proxy
            .pipeline
            .contains(&InterceptorKind::DistributedScheduler)
    );
    assert_eq!(proxy.proxy.rm.max_wait, Some(Duration::from_secs(7)));
    let max = proxy.proxy.allocator.max_per_heartbeat;
    assert_eq!(max.map(std::num::NonZeroU32::get), Some(12));
}

#[test]
fn a_proxy_that_would_call_itself_is_refused() {
    let scheduler = ("yarn.resourcemanager.scheduler.address", "localhost:8049");
    let messages = problems(&[scheduler, ("amrmproxy.enabled", "true")]);
    assert!(
        messages.len() == 1 && messages[0].contains("own AMRMProxy"),
        "{messages:?}"
    );
    assert!(!config(&[scheduler]).amrm_proxy.enabled);
    let elsewhere = ("yarn.resourcemanager.scheduler.address", "rm.example:8049");
    assert!(
        config(&[elsewhere, ("amrmproxy.enabled", "true")])
            .amrm_proxy
            .enabled
    );
}

#[test]
fn keys_that_roll_faster_than_masters_call_are_refused_as_in_hadoop() {
    let interval = (
        "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs",
        "2700",
    );
    let messages = problems(&[interval, ("amrmproxy.enabled", "true")]);
    assert!(
        messages.len() == 1 && messages[0].contains("more than 2700 s"),
        "{messages:?}"
    );
    // Without a proxy it is none of the node's business.
    assert!(!config(&[interval]).amrm_proxy.enabled);
}

#[test]
fn rules_are_read_one_by_one() {
    const RULE: &str = "agent.amrmproxy.relabel.";
    let of = |what: &str| format!("{RULE}{what}");
    let pairs = [
        (of("rules"), "spark,rest"),
        (of("spark.user"), "alice"),
        (of("spark.tag"), "nightly"),
        (of("spark.priorities"), "1 - 20"),
        (of("spark.percent"), "60"),
        (of("spark.promote-after-ms"), "600000"),
        (of("rest.priorities"), "5"),
    ];
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, value)| (name.as_str(), *value))
        .collect();
    let proxy = config(&pairs).amrm_proxy.proxy;
    let spark = RelabelRule {
        name: "spark".to_owned(),
        user: Some("alice".to_owned()),
        tag: Some("nightly".to_owned()),
        priority_min: 1,
        priority_max: 20,
        percent: 60,
        promote_after_ms: Some(600_000),
    };
    let rest = RelabelRule {
        name: "rest".to_owned(),
        user: None,
        tag: None,
        priority_min: 5,
        priority_max: 5,
        percent: 100,
        promote_after_ms: None,
    };
    assert_eq!(proxy.relabel, [spark, rest]);
    assert!(proxy.pipeline.contains(&InterceptorKind::Relabel));
    assert_eq!(warnings(&pairs), [""; 0]);
}

#[test]
fn rules_that_make_no_sense_are_problems() {
    for (name, value, part) in [
        ("priorities", "20-1", "must be a priority"),
        ("priorities", "-1", "must be a priority"),
        ("percent", "0", "from 1 to 100"),
        ("promote-after-ms", "-5", "whole number"),
    ] {
        let name = format!("agent.amrmproxy.relabel.x.{name}");
        let messages = problems(&[("agent.amrmproxy.relabel.rules", "x"), (&name, value)]);
        assert!(
            messages.len() == 1 && messages[0].contains(part),
            "{messages:?}"
        );
    }
    let messages = problems(&[("agent.amrmproxy.relabel.rules", "a.b")]);
    assert_eq!(messages.len(), 1, "{messages:?}");
}

#[test]
fn role_histories_need_a_directory_that_nodes_share() {
    const DIRECTORY: &str = "agent.role-history.dir";
    assert_eq!(config(&[]).amrm_proxy.proxy.role_history, None);
    for text in ["file:/shared/h", "file:///shared/h", "/shared/h"] {
        let proxy = config(&[(DIRECTORY, text)]).amrm_proxy.proxy;
        let history = proxy.role_history.unwrap();
        assert_eq!(history.files.directory.to_string(), "file:/shared/h");
        assert_eq!(history.files.user_bytes_max, 64 << 20);
        assert_eq!(history.placement_timeout_ms, 30_000);
        assert!(proxy.pipeline.contains(&InterceptorKind::RoleHistory));
    }
    for (text, part) in [
        ("hdfs:///h", "names no host"),
        ("s3a://bucket/h", "absolute path"),
        ("h", "absolute path"),
        ("file://other/h", "absolute path"),
    ] {
        let messages = problems(&[(DIRECTORY, text)]);
        assert!(
            messages.len() == 1 && messages[0].contains(part),
            "{messages:?}"
        );
    }
}

#[cfg(feature = "hdfs")]
#[test]
fn role_histories_may_be_in_hdfs() {
    for (default_fs, text) in [
        ("file:///", "hdfs://cluster/h"),
        ("hdfs://cluster", "hdfs:/h"),
    ] {
        let pairs = [
            ("fs.defaultFS", default_fs),
            ("agent.role-history.dir", text),
        ];
        let history = config(&pairs).amrm_proxy.proxy.role_history.unwrap();
        assert_eq!(history.files.directory.to_string(), "hdfs://cluster/h");
    }
}

#[cfg(not(feature = "hdfs"))]
#[test]
fn role_histories_in_hdfs_need_its_feature() {
    let messages = problems(&[("agent.role-history.dir", "hdfs://cluster/h")]);
    assert!(
        messages.len() == 1 && messages[0].contains("feature `hdfs`"),
        "{messages:?}"
    );
}

#[test]
fn rules_opt_in_to_role_histories() {
    let pairs = [
        ("agent.role-history.dir", "/shared/h"),
        ("agent.role-history.rules", "shell,rest"),
        ("agent.role-history.rule.shell.user", "alice"),
        ("agent.role-history.rule.shell.tag", "nightly"),
        ("agent.role-history.rule.shell.service", "my service"),
        ("agent.role-history.rule.shell.guaranteed", "true"),
        ("agent.role-history.rule.shell.policy", "0=strict"),
    ];
    let history = config(&pairs).amrm_proxy.proxy.role_history.unwrap();
    let shell = HistoryRule {
        name: "shell".to_owned(),
        user: Some("alice".to_owned()),
        tag: Some("nightly".to_owned()),
        opt_in: OptIn {
            service: "my service".to_owned(),
            is_guaranteed: true,
            policy: "0=strict".to_owned(),
        },
    };
    let rest = HistoryRule {
        name: "rest".to_owned(),
        user: None,
        tag: None,
        opt_in: OptIn {
            service: "rest".to_owned(),
            ..OptIn::default()
        },
    };
    assert_eq!(history.rules, [shell, rest]);
    assert_eq!(warnings(&pairs), [""; 0]);
    let bad = ("agent.role-history.rule.shell.policy", "0=stricter");
    let messages = problems(&[pairs[0], pairs[1], bad]);
    assert!(
        messages.len() == 1 && messages[0].contains("stricter"),
        "{messages:?}"
    );
}
