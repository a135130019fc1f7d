//! ApplicationMasters whose container only sleeps, and whose part a test plays with the token that the node gave them: so a
//! master of any behaviour speaks through a node's AMRMProxy, ours or Hadoop's.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use records::{ApplicationAttemptId, ApplicationId, ContainerId};
use wire::credentials::Credentials;
use wire::proto::hadoop_yarn::RemoteNodeProto;
use wire::token::{Token, kind};

use crate::conf::Properties;
use crate::node::NodeKind;
use crate::node_process::NodeProcess;
use crate::ports::Port;
use crate::wait;
use test_support::LaunchContext;
use test_support::scripted::Launched;
use test_support::scripted::{Script, ScriptedAm, ScriptedRm, ScriptedScheduler};

/// For an AM's container to be launched, on a machine that is busy building.
const LAUNCH_DEADLINE: Duration = Duration::from_secs(90);

/// What a played master's container runs.
pub const SLEEP: &str = "exec sleep 6000";

/// The AMRMTokens in the token file of a container below `local_dir` of a node; `None` while it has not been launched there.
#[must_use]
pub fn tokens_of(local_dir: &Path, container: ContainerId) -> Option<Vec<Token>> {
    let application = container.application_id().to_string();
    let users = fs::read_dir(local_dir.join("usercache")).ok()?;
    let file = users
        .filter_map(|user| Some(user.ok()?.path()))
        .map(|user| user.join("appcache").join(&application))
        .map(|folder| folder.join(container.to_string()).join("container_tokens"))
        .find(|file| file.exists())?;
    // It may be that it is being written.
    let credentials = Credentials::read(&fs::read(file).ok()?).ok()?;
    let tokens = credentials.tokens.into_values();
    let tokens = tokens.filter(|token| token.kind == kind::AM_RM_TOKEN);
    Some(tokens.collect())
}

/// Waits until one of these nodes, of which the local folders are given, has launched the first attempt's master of an
/// application, and takes its place. Also answers with the number of the node, from 0.
///
/// # Panics
/// When that takes too long, or the container has not exactly one AMRMToken.
#[must_use]
#[track_caller]
pub fn wait_launched(local_dirs: &[PathBuf], application_id: ApplicationId) -> (usize, Launched) {
    let attempt = application_id.attempt(1);
    let container = attempt.container(1);
    let (node, mut tokens) = wait::until(format!("{container} launched"), LAUNCH_DEADLINE, || {
        let mut found = local_dirs.iter().enumerate();
        let found = found.find_map(|(node, local_dir)| {
            let tokens = tokens_of(local_dir, container)?;
            (!tokens.is_empty()).then_some((node, tokens))
        });
        found.ok_or("not there")
    });
    assert_eq!(tokens.len(), 1, "{container}: {tokens:?}");
    let launched = Launched {
        attempt,
        container,
        token: tokens.remove(0),
    };
    (node, launched)
}

/// A node with an AMRMProxy between peers of this program. Fields are dropped in this order.
pub struct ProxyCluster {
    /// The node.
    pub node: NodeProcess,
    /// Where its AMRMProxy listens.
    pub proxy: SocketAddr,
    /// The scheduler that it forwards to.
    pub scheduler: ScriptedScheduler,
    /// Where it is registered.
    pub rm: ScriptedRm,
}

impl ProxyCluster {
    /// Starts them and waits until the node is registered. The node has room for two thousand masters and holds no master
    /// back. `change` may change its `yarn-site.xml`.
    ///
    /// # Panics
    /// When the node does not register.
    #[must_use]
    #[track_caller]
    pub fn start(
        kind: &NodeKind,
        script: Arc<Script>,
        change: impl FnOnce(&mut Properties),
    ) -> Self {
        let rm = ScriptedRm::start();
        let scheduler = ScriptedScheduler::start(rm.runtime(), script);
        let port = Port::reserve().release();
        let node = NodeProcess::start(kind, &rm, |site| {
            site.set("yarn.resourcemanager.scheduler.address", scheduler.address)
                .set("yarn.nodemanager.amrmproxy.enabled", true)
                .set(
                    "yarn.nodemanager.amrmproxy.address",
                    format!("localhost:{port}"),
                )
                .set("yarn.nodemanager.resource.memory-mb", 2_000 * 128)
                .set("yarn.nodemanager.resource.cpu-vcores", 2_000)
                .set(
                    "yarn.nodemanager.agent.amrmproxy.throttle.calls-per-second",
                    0,
                );
            change(site);
        });
        rm.wait_registered();
        Self {
            node,
            proxy: (Ipv4Addr::LOCALHOST, port).into(),
            scheduler,
            rm,
        }
    }

    /// The node, as one that other nodes may allocate on.
    #[must_use]
    pub fn remote_node(&self) -> RemoteNodeProto {
        RemoteNodeProto {
            node_id: Some((&self.rm.wait_registered()).into()),
            http_address: Some("localhost:1".to_owned()),
            rack_name: Some("/default-rack".to_owned()),
            node_partition: None,
        }
    }

    /// Has the master of the application with this number launched, and takes its place.
    ///
    /// # Panics
    /// When the node refuses.
    #[must_use]
    #[track_caller]
    pub fn launch(&self, application: i32) -> Launched {
        let am = start_master(&self.rm, application, |attempt| {
            Some(self.scheduler.token(attempt))
        });
        self.wait_launched(am.attempt())
    }

    /// The same for the masters of all these applications, which start at once.
    ///
    /// # Panics
    /// When the node refuses one.
    #[must_use]
    #[track_caller]
    pub fn launch_all(&self, applications: RangeInclusive<i32>) -> Vec<Launched> {
        let started = applications.map(|application| {
            let token = |attempt| Some(self.scheduler.token(attempt));
            start_master(&self.rm, application, token).attempt()
        });
        let attempts: Vec<_> = started.collect();
        let launched = attempts
            .into_iter()
            .map(|attempt| self.wait_launched(attempt));
        launched.collect()
    }

    #[track_caller]
    fn wait_launched(&self, attempt: ApplicationAttemptId) -> Launched {
        let local_dirs = [self.node.local_dir()];
        wait_launched(&local_dirs, attempt.application_id).1
    }
}

/// Starts the ApplicationMaster of the application with this number on the node of `rm`, with this token of the
/// ResourceManager in its credentials or without one, and answers with its connection.
///
/// # Panics
/// When the node refuses.
#[track_caller]
pub fn start_master(
    rm: &ScriptedRm,
    application: i32,
    token_of: impl FnOnce(ApplicationAttemptId) -> Option<Token>,
) -> ScriptedAm {
    let am = ScriptedAm::connect(rm, application);
    let attempt = am.attempt();
    let mut credentials = Credentials::default();
    if let Some(token) = token_of(attempt) {
        credentials.tokens.insert(String::new(), token);
    }
    let context = LaunchContext::command(SLEEP).tokens(Bytes::from(credentials.write_v0()));
    let master = am.first().master();
    am.try_start(&master, context)
        .unwrap_or_else(|refusal| panic!("{attempt}: {refusal}"));
    am
}
