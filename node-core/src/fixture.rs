//! A core, and requests that it accepts, for tests of this crate and of the core's owner.

use std::net::Ipv4Addr;
use std::sync::Arc;

use launch_context::{ContextLimits, LaunchContext};
use prost::Message;
use records::{ApplicationAttemptId, ContainerId, ExecutionType, Resource};
use sched::{ContainerScheduler, ContainerSchedulerConfig, ContainerSpec};
use wire::proto::hadoop_yarn::ContainerTokenIdentifierProto;

use crate::{
    Asker, Attempts, CoreConfig, CoreParts, Machine, Runtimes, ServiceMetadata, StartRequest,
    UpdateRequest,
};

/// Registration that issued the tokens.
pub const RM_IDENTIFIER: i64 = 77;

/// Key of the NMTokens.
pub const KEY_ID: i32 = 1;

/// Limits on launch contexts.
pub const CONTEXT_LIMITS: ContextLimits = ContextLimits {
    resources_max: 100,
    bytes_max: 1_000_000,
    node_bytes_max: 4_000_000,
};

/// Returns the parts of a core for a node of 8 GiB and 8 cores.
#[must_use]
pub fn parts(attempts: Arc<dyn Attempts>) -> CoreParts {
    let scheduler = ContainerSchedulerConfig {
        queue_length_max: 10,
        use_pause_for_preemption: true,
        ..ContainerSchedulerConfig::default()
    };
    CoreParts {
        config: CoreConfig {
            machine: Machine {
                name: "machine-1".to_owned(),
                address: "192.0.2.1".to_owned(),
            },
            log_retain_ms: 1000,
            log_aggregation: None,
            track_stopped_ms: 60_000,
            can_freeze: true,
            runtimes: Runtimes::Ignored,
            private_output: false,
            contexts: CONTEXT_LIMITS,
            service_metadata: ServiceMetadata::default(),
            remembers: false,
            boot: 0,
            is_secure: false,
            tokens_end_after_ms: 600_000,
            records_events: false,
        },
        about: Arc::new(node_view::fixture::about()),
        scheduler: ContainerScheduler::new(scheduler, Resource::new(8192, 8)),
        attempts,
    }
}

/// Returns the ApplicationMaster of an attempt.
#[must_use]
pub fn asker_of(attempt: ApplicationAttemptId) -> Asker {
    Asker {
        attempt,
        key_id: KEY_ID,
        address: Ipv4Addr::LOCALHOST.into(),
    }
}

/// Returns a verified request to start a container of 1 GiB.
#[must_use]
pub fn request_for(id: ContainerId, execution_type: ExecutionType) -> StartRequest {
    let spec = ContainerSpec {
        id,
        resource: Resource::new(1024, 1),
        execution_type,
        version: 0,
    };
    StartRequest {
        spec,
        token: token(&spec).into(),
        context: Ok(LaunchContext::default()),
        record: None,
        received_us: 0,
    }
}

/// Returns a request to change a container with a token.
#[must_use]
pub fn update_of(spec: ContainerSpec, token: ContainerTokenIdentifierProto) -> UpdateRequest {
    UpdateRequest {
        spec,
        identifier: token.encode_to_vec(),
        token: token.into(),
    }
}

/// Returns a token of `alice` that never expires.
#[must_use]
pub fn token(spec: &ContainerSpec) -> ContainerTokenIdentifierProto {
    ContainerTokenIdentifierProto {
        container_id: Some(spec.id.into()),
        app_submitter: Some("alice".to_owned()),
        resource: Some(spec.resource.into()),
        expiry_time_stamp: Some(i64::MAX),
        rm_identifier: Some(RM_IDENTIFIER),
        version: Some(spec.version),
        ..ContainerTokenIdentifierProto::default()
    }
}
