//! Properties to sections: limits that the kernel enforces.

use std::path::PathBuf;

use container_runtime::config::CgroupConfig;
use hadoop_conf::PropertyReader;

pub(super) fn cgroups(reader: &mut PropertyReader<'_>) -> CgroupConfig {
    let own = |name: &str| format!("yarn.nodemanager.linux-container-executor.{name}");
    // Hadoop's older way of asking for `resource.cpu.enabled`.
    let handler = reader.text(&own("resources-handler.class"));
    let handler = handler.is_some_and(|class| class.ends_with(".CgroupsLCEResourcesHandler"));
    let cpu = reader.flag("yarn.nodemanager.resource.cpu.enabled") || handler;
    let enabled = reader.flag("yarn.nodemanager.resource.memory.enabled");
    let memory = reader.flag("yarn.nodemanager.resource.memory.enforced") && enabled;
    let io = reader.flag("yarn.nodemanager.resource.disk.enabled");
    let pause = reader.flag("yarn.nodemanager.opportunistic-containers-use-pause-for-preemption");
    let percent = "yarn.nodemanager.resource.percentage-physical-cpu-limit";
    let cpu_limit_percent = u32::try_from(reader.integer(percent, 1..=100)).unwrap_or(100);
    let (swappiness, memory_soft_limit_percent) =
        reader.only_if(enabled, "without cgroups of memory", |reader| {
            let swappiness = "yarn.nodemanager.resource.memory.cgroups.swappiness";
            let soft = "yarn.nodemanager.resource.memory.cgroups.soft-limit-percentage";
            let swappiness = u8::try_from(reader.integer(swappiness, 0..=100)).unwrap_or(0);
            (swappiness, reader.number(soft, 0.0..=100.0))
        });
    let strict_cpu = reader.flag(&own("cgroups.strict-resource-usage")) && cpu;
    let v2_mount = reader.resolved_text(&own("cgroups.v2.mount-path"));
    let mount = reader.resolved_text(&own("cgroups.mount-path"));
    // Removal is tried again whenever the kernel may report a change, which is sooner
    // than any delay.
    let _ = reader.u64(&own("cgroups.delete-delay-ms"), 0);
    CgroupConfig {
        asked_for: cpu || memory || io || pause,
        hierarchy: reader
            .resolved_text(&own("cgroups.hierarchy"))
            .unwrap_or_default(),
        delegated: None,
        mount_path: v2_mount.or(mount).map(PathBuf::from),
        cpu,
        strict_cpu,
        cpu_limit_percent,
        count_logical_processors: reader
            .flag("yarn.nodemanager.resource.count-logical-processors-as-cores"),
        memory,
        memory_soft_limit_percent,
        swappiness,
        io,
        pids_max: reader.u64_or_minus_one("yarn.nodemanager.agent.cgroups.pids-max"),
        delete_timeout_ms: reader.u64(&own("cgroups.delete-timeout-ms"), 0),
        freeze_timeout_ms: reader.u64("yarn.nodemanager.agent.pause.freeze-timeout-ms", 1),
    }
}
