//! Answers of nodes to looks at their load (`/jmx`).

use amrm_proxy::looks::jmx::read_sight;
use records::MonoMillis;

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

fn run(input: &[u8]) {
    let seen_at = MonoMillis(7);
    let Ok(sight) = read_sight(input, seen_at, |name| name == "other") else {
        return;
    };
    assert_eq!(sight.seen_at, seen_at);
    assert!(sight.running <= CONTAINERS_MAX && sight.queued <= CONTAINERS_MAX);
    let unnamed = read_sight(input, seen_at, |_| true);
    assert!(unnamed.is_err() || unnamed.is_ok_and(|same| same == sight));
}

fn seeds() -> Vec<Vec<u8>> {
    let bean = r#""name":"Hadoop:service=NodeManager,name=NodeManagerMetrics","modelerType":"NodeManagerMetrics","tag.Context":"yarn","tag.Hostname":"n1","ContainersRunning":5,"ContainersOpportunisticQueued":2,"ContainersGuaranteedQueued":0,"RunningOpportunisticContainers":3,"AvailableGB":-1,"AvailableVCores":0"#;
    let of = |beans: &str| format!("{{\"beans\":[{beans}]}}").into_bytes();
    vec![
        of(&format!("{{{bean}}}")),
        of(&format!(
            "{{\"name\":\"java.lang:type=Memory\"}},{{{bean}}}"
        )),
        of(""),
    ]
}
