//! Jobs of a secure cluster whose files lie in HDFS.

use std::fs;

use test_support::realm::REALM;
use tests::cluster::{Cluster, JOB_DEADLINE, SLOT_MB};
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

use super::SecureHdfs;
use crate::AGENT;
use crate::interop::secure::Secure;

/// A secure cluster with HDFS, whose user is alice. Fields are dropped in this order.
struct SecureCluster {
    _history: HistoryServer,
    cluster: Cluster,
    hdfs: SecureHdfs,
    _secure: Secure,
}

impl SecureCluster {
    fn start(level: &str, change: impl FnOnce(Options) -> Options) -> Self {
        let secure = Secure::new();
        let mut options = map_reduce::with_shuffle(secure.options(level));
        let mut hdfs_site = Properties::default();
        hdfs_site.set_all(&super::of_clients(level));
        options = options.with_file("hdfs-site.xml", &hdfs_site);
        options.node_memory_mb = 12 * SLOT_MB;
        let mut lab = Lab::new(&RmKind::Hadoop, change(options));
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
            _secure: secure,
        }
    }
}

#[test]
fn jobs_whose_files_lie_in_a_secure_hdfs_run() {
    require!(java, hadoop, kerberos);
    let secure = SecureCluster::start("authentication", |options| options);
    let cluster = &secure.cluster;
    let mut shell = cluster.submit("secure-hdfs", "true", 2, ContainerType::Guaranteed);
    let id = shell.application_id();
    shell.assert_succeeds(JOB_DEADLINE);
    cluster.node.logs(&id).assert_succeeded(2);
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
