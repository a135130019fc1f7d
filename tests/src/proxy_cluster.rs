//! A node with an AMRMProxy, ours or Hadoop's, whose ApplicationMasters' containers only sleep. The
//! test makes their calls with the tokens that the node gave them, so that masters of any behaviour
//! go through the proxy.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use records::{ApplicationAttemptId, ApplicationId, ContainerName, Resource};
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

/// Deadline for an AM's container to be launched, on a machine that is busy building.
const LAUNCH_DEADLINE: Duration = Duration::from_secs(90);

/// Capacity of the node.
pub const CAPACITY: Resource = Resource::new(2_000 * 128, 2_000);

/// Command of a master's container.
pub const SLEEP: &str = "exec sleep 6000";

/// Returns the AMRMTokens in the token file of a container below `local_dir` of a node; `None`
/// while it has not been launched there.
#[must_use]
pub fn tokens_of(local_dir: &Path, container: ContainerName) -> Option<Vec<Token>> {
    let application = container.application_id().to_string();
    let users = fs::read_dir(local_dir.join("usercache")).ok()?;
    let file = users
        .filter_map(|user| Some(user.ok()?.path()))
        .map(|user| user.join("appcache").join(&application))
        .map(|folder| folder.join(container.to_string()).join("container_tokens"))
        .find(|file| file.exists())?;
    // The file may be half written.
    let credentials = Credentials::read(&fs::read(file).ok()?).ok()?;
    let tokens = credentials.tokens.into_values();
    let tokens = tokens.filter(|token| token.kind == kind::AM_RM_TOKEN);
    Some(tokens.collect())
}

/// Waits until one of the nodes with these local folders has launched the first attempt's master of
/// an application. Returns the node's index and the master's token.
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
            let tokens = tokens_of(local_dir, container.name())?;
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

/// A node with an AMRMProxy between scripted peers. Fields are dropped in this order.
pub struct ProxyCluster {
    /// Process of the node.
    pub node: NodeProcess,
    /// Address of the node's AMRMProxy.
    pub proxy: SocketAddr,
    /// Scheduler that the AMRMProxy forwards to.
    pub scheduler: ScriptedScheduler,
    /// ResourceManager that the node is registered at.
    pub rm: ScriptedRm,
}

impl ProxyCluster {
    /// Starts the parts and waits until the node is registered. The node has capacity for two
    /// thousand masters and throttles none. `change` may change its `yarn-site.xml`.
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
                .set("yarn.nodemanager.resource.memory-mb", CAPACITY.memory_mb)
                .set("yarn.nodemanager.resource.cpu-vcores", CAPACITY.vcores)
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

    /// Returns the node as one that other nodes may allocate on.
    #[must_use]
    pub fn remote_node(&self) -> RemoteNodeProto {
        RemoteNodeProto {
            node_id: Some((&self.rm.wait_registered()).into()),
            http_address: Some("localhost:1".to_owned()),
            rack_name: Some("/default-rack".to_owned()),
            node_partition: None,
        }
    }

    /// Launches the master of the application with this number; returns its token.
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

    /// Launches the masters of all these applications at once; returns their tokens.
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

/// Starts the ApplicationMaster of the application with this number on the node of `rm`; returns
/// the connection that started it. `token_of` gives the ResourceManager's token in its credentials,
/// or none.
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
