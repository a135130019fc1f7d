//! Ids that tests start from: all of one cluster, numbered from 1.

use records::{ApplicationAttemptId, ApplicationId, ContainerId, NodeId};

/// Start of the tests' ResourceManager, milliseconds since 1970; part of every id below. The golden
/// tokens captured from Hadoop hold the same.
pub const CLUSTER_TIMESTAMP: i64 = 1_700_000_000_000;

/// Application with this number.
#[must_use]
pub const fn application(number: i32) -> ApplicationId {
    ApplicationId {
        cluster_timestamp: CLUSTER_TIMESTAMP,
        id: number,
    }
}

/// First attempt of the application with this number.
#[must_use]
pub const fn attempt(application_number: i32) -> ApplicationAttemptId {
    application(application_number).attempt(1)
}

/// Container with this number of the first attempt of application 1. An attempt's container 1 is
/// its master's.
#[must_use]
pub const fn container(number: i64) -> ContainerId {
    container_of(1, number)
}

/// Container with this number of the first attempt of an application.
#[must_use]
pub const fn container_of(application_number: i32, number: i64) -> ContainerId {
    attempt(application_number).container(number)
}

/// Node on this host, at Hadoop's usual port of ContainerManagement in examples, 8041.
#[must_use]
pub fn node(host: &str) -> NodeId {
    NodeId {
        host: host.to_owned(),
        port: 8041,
    }
}
