//! Jobs of a secure cluster whose files lie in HDFS.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use test_support::realm::REALM;
use tests::cluster::{Cluster, JOB_DEADLINE, PRINT_BEGIN, SLOT_MB, STATE_DEADLINE};
use tests::conf::{Options, Properties};
use tests::distributed_shell::ContainerType;
use tests::files;
use tests::history_server::HistoryServer;
use tests::lab::Lab;
use tests::map_reduce::{self, PI_10_100};
use tests::node::Node;
use tests::node_process::node_kind;
use tests::require;
use tests::rm::{ResourceManager, RmKind};

use tests::yarn_logs::{contents, wait_aggregated, yarn_logs};

use super::SecureHdfs;
use crate::AGENT;
use crate::interop::secure::Secure;

/// A secure cluster with HDFS, whose user is alice. Fields are dropped in this order.
pub(super) struct SecureCluster {
    _history: HistoryServer,
    pub(super) cluster: Cluster,
    hdfs: SecureHdfs,
    secure: Secure,
}

impl SecureCluster {
    pub(super) fn start(level: &str, change: impl FnOnce(Options) -> Options) -> Self {
        let secure = Secure::new();
        let mut options = map_reduce::with_shuffle(secure.options(level));
        let mut hdfs_site = Properties::default();
        hdfs_site.set_all(&super::of_clients(level));
        options = options.with_file("hdfs-site.xml", &hdfs_site);
        options.node_memory_mb = 12 * SLOT_MB;
        let mut lab = Lab::new(&RmKind::Hadoop, change(options));
        // Users of containers reach their folders.
        let mode = fs::Permissions::from_mode(0o711);
        fs::set_permissions(lab.folder(), mode).unwrap();
        let hdfs = SecureHdfs::start(&secure, lab.folder(), level);
        lab.set_default_fs(&hdfs.hdfs.uri());
        let keytab = secure.realm.keytab("jhs.keytab", &["jhs/localhost"]);
        let principal = format!("jhs/localhost@{REALM}");
        lab.set_mapred("mapreduce.jobhistory.principal", principal);
        lab.set_mapred("mapreduce.jobhistory.keytab", keytab.display());
        lab.set_mapred("yarn.app.mapreduce.am.staging-dir", super::STAGING);
        for name in ["done", "intermediate-done"] {
            // Those of all users: the server closes the folder that it makes above them.
            let property = format!("mapreduce.jobhistory.{name}-dir");
            lab.set_mapred(&property, format!("/tmp/{name}"));
        }
        let history = HistoryServer::reserve(&mut lab);
        let rm = ResourceManager::start(&lab, &RmKind::Hadoop);
        let history = HistoryServer::start(&lab, &history);
        let node = Node::start_registered(&lab, &node_kind(AGENT), "node", &rm);
        Self {
            _history: history,
            cluster: Cluster { node, rm, lab },
            hdfs,
            secure,
        }
    }

    /// Asserts that the root of the logs is the node's, that alice's are hers, and that bob sees
    /// none of them.
    pub(super) fn assert_logs_are_alices(&self) {
        let superuser = [("KRB5CCNAME", &*self.hdfs.superuser)];
        for (path, owner) in [("/tmp/logs", "yarn"), ("/tmp/logs/alice", "alice")] {
            let (_, printed) = self
                .hdfs
                .hdfs
                .shell(&superuser, &["-stat", "owner:%u", path]);
            assert!(printed.contains(&format!("owner:{owner}")), "{printed}");
        }
        let bob = self.secure.realm.keytab("bob.keytab", &["bob"]);
        let bob = self.secure.realm.ticket(&bob, "bob");
        let (_, printed) = self
            .hdfs
            .hdfs
            .shell(&[("KRB5CCNAME", &bob)], &["-ls", "/tmp/logs/alice"]);
        assert!(printed.contains("Permission denied: user=bob"), "{printed}");
    }
}

pub(super) fn with_logs(options: Options) -> Options {
    options.with("yarn.log-aggregation-enable", true)
}

#[test]
fn jobs_whose_files_lie_in_a_secure_hdfs_run() {
    require!(java, hadoop, kerberos);
    let secure = SecureCluster::start("authentication", with_logs);
    let cluster = &secure.cluster;
    let mut check = Command::new(AGENT);
    check.args(["check", "--connect", "--conf"]);
    check.arg(cluster.node.site.conf());
    let environment = cluster.node.site.environment.iter();
    let check = check.envs(environment.map(|(name, value)| (name, value)));
    // The ports are taken by the node.
    let told = String::from_utf8(check.output().unwrap().stdout).unwrap();
    let answers = format!("fs.defaultFS: {}/ answers", secure.hdfs.hdfs.uri());
    assert!(told.contains(&answers), "{told}");
    let mut shell = cluster.submit("secure-hdfs", "true", 2, ContainerType::Guaranteed);
    let id = shell.application_id();
    shell.assert_succeeds(JOB_DEADLINE);
    wait_aggregated(&cluster.rm, &id);
    let printed = yarn_logs(&cluster.lab, &["-applicationId", &id]);
    assert_eq!(contents(&printed, "AppMaster.stderr").len(), 1, "{printed}");
    secure.assert_logs_are_alices();
    // One resource of the job is public.
    let local = cluster.lab.folder().join("words");
    fs::write(&local, "words").unwrap();
    let local = local.display().to_string();
    secure.hdfs.as_superuser(&["-put", &local, "/public/words"]);
    let public = format!("{}/public/words", secure.hdfs.hdfs.uri());
    let arguments = ["pi", "-files", &public, "10", "100"];
    let mut pi = map_reduce::start(&cluster.lab, "pi", arguments);
    let outcome = pi.outcome(map_reduce::JOB_DEADLINE);
    assert!(outcome.succeeded, "{}", outcome.log);
    assert!(outcome.log.contains(PI_10_100), "{}", outcome.log);
    let cached = files::below(&cluster.node.site.local_dir().join("filecache"));
    let mut names = cached.iter().filter_map(|path| path.file_name());
    assert!(names.any(|name| name == "words"), "as the node: {cached:?}");
}

#[test]
fn logs_are_uploaded_by_an_agent_that_has_the_tokens_from_the_one_before() {
    require!(java, hadoop, kerberos);
    let mut secure = SecureCluster::start("privacy", |options| {
        with_logs(options).with("yarn.nodemanager.recovery.enabled", true)
    });
    let cluster = &mut secure.cluster;
    let gate = cluster.gate("gate");
    let command = format!("({PRINT_BEGIN}; {})", gate.wait_command());
    let mut shell = cluster.submit("secure-logs", &command, 2, ContainerType::Guaranteed);
    let id = shell.application_id();
    cluster.wait_begun(&id, 2);
    cluster.node.process.kill();
    cluster.node.start_again(&node_kind(AGENT));
    cluster
        .node
        .wait_state(&cluster.rm, "RUNNING", STATE_DEADLINE);
    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    wait_aggregated(&cluster.rm, &id);
    let printed = yarn_logs(&cluster.lab, &["-applicationId", &id]);
    assert_eq!(contents(&printed, "AppMaster.stderr").len(), 1, "{printed}");
    assert_eq!(contents(&printed, "stdout").len(), 2, "{printed}");
}

/// Line of the node about tokens that came with a heartbeat.
const RENEWED: &str = "the ResourceManager has new tokens of applications";

#[test]
fn tokens_that_the_resource_manager_gets_anew_reach_the_node_and_are_acknowledged() {
    require!(java, hadoop, kerberos);
    let mut secure = SecureCluster::start("authentication", |options| {
        with_logs(options)
            .with("yarn.nodemanager.recovery.enabled", true)
            .with("yarn.resourcemanager.proxy-user-privileges.enabled", true)
    });
    let cluster = &mut secure.cluster;
    let gate = cluster.gate("gate");
    let command = format!("({PRINT_BEGIN}; {})", gate.wait_command());
    let mut shell = cluster.submit("secure-renewed", &command, 1, ContainerType::Guaranteed);
    let id = shell.application_id();
    cluster.wait_begun(&id, 1);
    cluster.node.process.wait_log(RENEWED, STATE_DEADLINE);
    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    wait_aggregated(&cluster.rm, &id);
    let printed = yarn_logs(&cluster.lab, &["-applicationId", &id]);
    assert_eq!(contents(&printed, "stdout").len(), 1, "{printed}");
    // What is not acknowledged comes with every heartbeat, five times a second.
    let log = cluster.node.process.log();
    let times = log.matches(RENEWED).count();
    assert!(times < 10, "{times} times: {log}");
}
