//! Tasks that end too early.

use std::collections::BTreeMap;

use hadoop_conf::{HostPort, RmEndpoint};
use service::Manager;
use tempfile::TempDir;
use time::UtcOffset;

use super::*;
use crate::reload::Reloading;

/// Assembles an agent whose files are in `folder` and whose ResourceManager is not there.
async fn agent(folder: &TempDir) -> Agent {
    let mut config = Config::load(&[], &BTreeMap::new()).unwrap();
    let any_port = HostPort::new("127.0.0.1".to_owned(), 0);
    // No service of a test has this port.
    let nobody = HostPort::new("127.0.0.1".to_owned(), 1);
    config.addresses.node = any_port.clone();
    config.addresses.web = any_port;
    config.rm.endpoints = vec![RmEndpoint {
        id: None,
        resource_tracker: nobody.clone(),
        scheduler: nobody.clone(),
        client: nobody.clone(),
        webapp: nobody,
    }];
    config.dirs.local_dirs = vec![folder.path().join("local")];
    config.dirs.log_dirs = vec![folder.path().join("logs")];
    config.recovery.dir = folder.path().join("recovery");
    config.cgroups.mount_path = Some(folder.path().join("no-cgroups"));
    let process = Process {
        environment: BTreeMap::new(),
        conf_dirs: Vec::new(),
        reloading: Reloading::default(),
        log_levels: None,
        utc_offset: UtcOffset::UTC,
        manager: Manager::default(),
    };
    Agent::assemble(config, process).await.unwrap()
}

/// Returns how an agent ends that nobody has told to.
async fn end_of(agent: Agent) -> AgentError {
    let (tell_registered, _registered) = oneshot::channel();
    let ended = agent.run(CancellationToken::new(), tell_registered).await;
    ended.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ends_too_early_ends_the_agent_in_order_and_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = agent(&folder).await;
    agent.tasks.spawn(async { "planted" });
    let ended = end_of(agent).await;
    assert!(matches!(ended, AgentError::TaskEnded("planted")), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_core_task_that_ends_too_early_ends_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = agent(&folder).await;
    agent.core.spawn(async {});
    let ended = end_of(agent).await;
    let name = "the core task";
    assert!(
        matches!(ended, AgentError::TaskEnded(it) if it == name),
        "{ended}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_a_container_that_panics_ends_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = agent(&folder).await;
    agent.tasks.spawn(parts::watch_launcher(
        std::future::ready(()),
        agent.tasks_stop.clone(),
    ));
    let ended = end_of(agent).await;
    let name = "the watch of a container";
    assert!(
        matches!(ended, AgentError::TaskEnded(it) if it == name),
        "{ended}"
    );
}
