//! A core for the tests of its owner and of its callers.

use std::sync::Arc;

use bytes::Bytes;
use container_runtime::launch::LaunchEvent;
use log_aggregation::policy::Policy;
use node_core::fixture::{KEY_ID, asker_of, parts, request_for};
use node_core::{
    Asker, Attempts, Core, Delivery, HeartbeatOrders, LogAggregation, StartOutcome, StartRequest,
    WorkerEvent,
};
use records::{ApplicationId, ContainerExitStatus, EpochMillis, ExecutionType, MonoMillis, Now};
use test_support::ids::container;
use time::UtcOffset;
use wire::token::MasterKey;

use crate::secrets::NodeSecrets;

pub(crate) use node_core::fixture::RM_IDENTIFIER;

/// Returns a core whose keys are known and which is not registered.
pub(crate) fn core_with(secrets: &Arc<NodeSecrets>) -> Core {
    core(secrets, None)
}

fn core(secrets: &Arc<NodeSecrets>, log_aggregation: Option<LogAggregation>) -> Core {
    let key = || MasterKey::new(KEY_ID, Bytes::from_static(b"12345678"));
    secrets.roll_container_token_key(key());
    secrets.roll_nm_token_key(key());
    let mut parts = parts(Arc::clone(secrets) as Arc<dyn Attempts>);
    parts.config.log_aggregation = log_aggregation;
    Core::new(parts)
}

/// The ApplicationMaster of [`request`]'s containers.
pub(crate) fn asker() -> Asker {
    asker_of(container(1).attempt)
}

/// A verified request to start the guaranteed container of this number.
pub(crate) fn request(n: i64) -> StartRequest {
    request_for(container(n), ExecutionType::Guaranteed)
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
