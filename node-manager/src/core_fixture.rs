//! A core for the tests of its owner and of its callers.

use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use container_runtime::launch::LaunchEvent;
use launch_context::{ContextLimits, LaunchContext};
use log_aggregation::policy::Policy;
use node_core::{
    Asker, Attempts, Core, CoreConfig, CoreParts, Delivery, HeartbeatOrders, LogAggregation,
    Machine, Runtimes, ServiceMetadata, StartOutcome, StartRequest, WorkerEvent,
};
use node_view::snapshot::{About, MemoryChecks};
use records::{
    ApplicationId, ContainerExitStatus, EpochMillis, ExecutionType, MonoMillis, Now, Resource,
};
use sched::{ContainerScheduler, ContainerSchedulerConfig, ContainerSpec};
use test_support::ids::{self, container};
use time::UtcOffset;
use wire::proto::hadoop_yarn::ContainerTokenIdentifierProto;
use wire::token::MasterKey;

use crate::secrets::NodeSecrets;

/// Registration whose tokens [`request`] has.
pub(crate) const RM_IDENTIFIER: i64 = 77;
const KEY_ID: i32 = 1;

/// A core for a node of 8 GiB and 8 cores, whose keys are known and which is not registered.
pub(crate) fn core_with(secrets: &Arc<NodeSecrets>) -> Core {
    core(secrets, None)
}

fn core(secrets: &Arc<NodeSecrets>, log_aggregation: Option<LogAggregation>) -> Core {
    let key = || MasterKey::new(KEY_ID, Bytes::from_static(b"12345678"));
    secrets.roll_container_token_key(key());
    secrets.roll_nm_token_key(key());
    let memory_checks = MemoryChecks {
        pmem: true,
        vmem: false,
        vmem_pmem_ratio: 2.1,
    };
    let node_id = ids::node("node-1.example");
    let about = About::at_start(node_id, 8042, EpochMillis(0), memory_checks);
    let config = ContainerSchedulerConfig {
        queue_length_max: 10,
        ..ContainerSchedulerConfig::default()
    };
    Core::new(CoreParts {
        config: CoreConfig {
            about: Arc::new(about),
            machine: Machine {
                name: "machine-1".to_owned(),
                address: "192.0.2.1".to_owned(),
            },
            log_retain_ms: 1000,
            log_aggregation,
            track_stopped_ms: 60_000,
            can_freeze: true,
            runtimes: Runtimes::Ignored,
            private_output: false,
            contexts: ContextLimits {
                resources_max: 100,
                bytes_max: 1_000_000,
                node_bytes_max: 4_000_000,
            },
            service_metadata: ServiceMetadata::default(),
            remembers: false,
            boot: 0,
        },
        scheduler: ContainerScheduler::new(config, Resource::new(8192, 8)),
        attempts: Arc::clone(secrets) as Arc<dyn Attempts>,
    })
}

/// The ApplicationMaster of [`request`]'s containers.
pub(crate) fn asker() -> Asker {
    Asker {
        attempt: container(1).attempt,
        key_id: KEY_ID,
        address: Ipv4Addr::LOCALHOST.into(),
    }
}

/// A verified request to start the guaranteed container of this number.
pub(crate) fn request(n: i64) -> StartRequest {
    let spec = ContainerSpec {
        id: container(n),
        resource: Resource::new(1024, 1),
        execution_type: ExecutionType::Guaranteed,
        version: 0,
    };
    let token = ContainerTokenIdentifierProto {
        container_id: Some(spec.id.into()),
        app_submitter: Some("alice".to_owned()),
        resource: Some(spec.resource.into()),
        expiry_time_stamp: Some(i64::MAX),
        rm_identifier: Some(RM_IDENTIFIER),
        version: Some(spec.version),
        ..Default::default()
    };
    StartRequest {
        spec,
        token: Arc::new(token),
        context: Ok(LaunchContext::default()),
        record: None,
        received_us: 0,
    }
}

/// Returns a core that waits for the outcome of an application's last upload.
pub(crate) fn core_that_uploads() -> (Core, ApplicationId) {
    let now = Now {
        mono: MonoMillis(0),
        wall: EpochMillis(0),
    };
    let aggregation = LogAggregation {
        policy: Policy::All,
        local_cleanup: true,
        utc_offset: UtcOffset::UTC,
    };
    let mut core = core(&Arc::default(), Some(aggregation));
    core.registered(RM_IDENTIFIER, None, now);
    let started = core.start(asker(), request(1), now);
    assert!(matches!(started, StartOutcome::Started), "{started:?}");
    let id = container(1);
    let ended = LaunchEvent::Exited {
        id,
        status: ContainerExitStatus(7),
        cause: String::new(),
        diagnostics: String::new(),
    };
    for event in [LaunchEvent::ProcessesGone(id), ended] {
        core.handle(WorkerEvent::Launch(event), now, 0);
    }
    let report = core.heartbeat_report(now);
    let delivery = Delivery::Everything {
        increased: report.increased,
        log_reports: report.log_reports.1,
    };
    let application = id.application_id();
    let orders = HeartbeatOrders {
        finish_applications: vec![application],
        ..HeartbeatOrders::default()
    };
    core.heartbeat_answered(&delivery, orders, now);
    let _performed = core.take_effects();
    (core, application)
}
