//! Answers of nodes to looks at their load (`/jmx`, `/ws/v1/node/containers`).

use amrm_proxy::looks::container_list::read_list;
use amrm_proxy::looks::jmx::{Told, read_numbers};
use records::{MonoMillis, Resource};
use sched::Sight;

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "looks",
    bytes_max: 64 * 1024,
    memory: Memory {
        base: 16 * 1024,
        per_byte: 512,
    },
    run,
    seeds,
};

/// Most containers of a node that are believed, running or waiting.
const CONTAINERS_MAX: u32 = 2_000_000;

/// Bytes that a container takes in a list at least.
const LISTED_BYTES_MIN: u64 = 8;

fn run(input: &[u8]) {
    let seen_at = MonoMillis(7);
    let offers = Resource::new(8_192, 8);
    if let Ok(sight) = read_list(input, offers, seen_at) {
        assert_eq!(sight.seen_at, seen_at);
        assert!(sight.free.fits_in(offers));
        let containers = u64::from(sight.running) + u64::from(sight.queued);
        assert!(containers * LISTED_BYTES_MIN <= input.len() as u64);
    }
    let Ok(told) = read_numbers(input, seen_at, |name| name == "other") else {
        return;
    };
    if let Told::Load(sight) = told {
        assert_eq!(sight.seen_at, seen_at);
        let is_queue = sight.queued <= CONTAINERS_MAX || sight.queued == Sight::CLOSED;
        assert!(sight.running <= CONTAINERS_MAX && is_queue);
    }
    let unnamed = read_numbers(input, seen_at, |_| true);
    assert!(unnamed.is_err() || unnamed.is_ok_and(|same| same == told));
}

fn seeds() -> Vec<Vec<u8>> {
    let bean = r#""name":"Hadoop:service=NodeManager,name=NodeManagerMetrics","modelerType":"NodeManagerMetrics","tag.Context":"yarn","tag.Hostname":"n1","ContainersRunning":5,"ContainersOpportunisticQueued":2,"ContainersGuaranteedQueued":0,"RunningOpportunisticContainers":3,"AvailableGB":-1,"AvailableVCores":0"#;
    let of = |beans: &str| format!("{{\"beans\":[{beans}]}}").into_bytes();
    vec![
        of(&format!("{{{bean}}}")),
        of(&format!(
            "{{\"name\":\"java.lang:type=Memory\"}},{{{bean}}}"
        )),
        of(&format!("{{{bean},\"TakesOpportunisticContainers\":1,\"AvailableMB\":300}}")),
        of(&format!("{{{bean},\"TakesOpportunisticContainers\":0}}")),
        of(""),
        br#"{"containers":{"container":[{"id":"container_1_0001_01_000001","state":"RUNNING","exitCode":-1000,"diagnostics":"","user":"alice","totalMemoryNeededMB":512,"totalVCoresNeeded":1,"executionType":"OPPORTUNISTIC","nodeId":"n1:8041"}]}}"#.to_vec(),
        br#"{"containers":{}}"#.to_vec(),
    ]
}
