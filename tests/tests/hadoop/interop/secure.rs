//! A cluster with Kerberos: Hadoop's ResourceManager takes the node by its ticket, and a user with
//! a ticket runs jobs.

use std::path::PathBuf;

use test_support::realm::{REALM, Realm};
use tests::cluster::{Cluster, JOB_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::require;
use tests::rm::RmKind;

use crate::interop::start_cluster;

/// A realm with the principals of a small cluster.
struct Secure {
    realm: Realm,
    _folder: tempfile::TempDir,
    nm: PathBuf,
    rm: PathBuf,
    /// Cache with the ticket of a user.
    ticket: String,
}

impl Secure {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let realm = Realm::start(folder.path());
        let nm = realm.keytab("nm.keytab", &["nm/localhost"]);
        let rm = realm.keytab("rm.keytab", &["rm/localhost"]);
        let user = realm.keytab("alice.keytab", &["alice"]);
        let ticket = realm.ticket(&user, "alice");
        Self {
            realm,
            _folder: folder,
            nm,
            rm,
            ticket,
        }
    }

    /// Returns the configuration of a secure cluster whose calls have these levels of protection.
    fn options(&self, levels: &str) -> Options {
        let rules = format!(
            "RULE:[2:$1@$0](rm@{REALM})s/.*/yarn/ RULE:[2:$1@$0](nm@{REALM})s/.*/yarn/ DEFAULT"
        );
        let krb5 = self.realm.configuration();
        let java = format!("-Djava.security.krb5.conf={}", krb5.display());
        Options::default()
            .with_core("hadoop.security.authentication", "kerberos")
            .with_core("hadoop.security.auth_to_local", rules)
            .with_core("hadoop.rpc.protection", levels)
            .with(
                "yarn.resourcemanager.principal",
                format!("rm/localhost@{REALM}"),
            )
            .with("yarn.resourcemanager.keytab", self.rm.display())
            .with(
                "yarn.nodemanager.principal",
                format!("nm/localhost@{REALM}"),
            )
            .with("yarn.nodemanager.keytab", self.nm.display())
            .with("yarn.nodemanager.agent.kerberos.first-login-within-ms", 0)
            .with("hadoop.kerberos.min.seconds.before.relogin", 1)
            .with(
                "yarn.nodemanager.agent.accept-unsafe",
                "yarn.nodemanager.container-executor.class",
            )
            .with(
                "yarn.nodemanager.env-whitelist",
                "JAVA_HOME,HADOOP_CONF_DIR,JAVA_TOOL_OPTIONS,JDK_JAVA_OPTIONS",
            )
            .with_variable("KRB5_CONFIG", krb5.display())
            .with_variable("KRB5CCNAME", &self.ticket)
            .with_variable("JDK_JAVA_OPTIONS", java)
    }
}

fn run_job(levels: &str) {
    let secure = Secure::new();
    let cluster: Cluster = start_cluster(&RmKind::Hadoop, 8, secure.options(levels));
    let mut shell = cluster.submit("secure", "true", 2, ContainerType::Guaranteed);
    let id = shell.application_id();
    shell.assert_succeeds(JOB_DEADLINE);
    let application = cluster.rm.application(&id).unwrap();
    assert_eq!(application["user"], "alice", "{application}");
    cluster.node.logs(&id).assert_succeeded(2);
}

#[test]
fn a_job_of_a_user_with_a_ticket_runs() {
    require!(java, hadoop, kerberos);
    run_job("authentication");
}

#[test]
fn a_job_runs_when_calls_are_signed() {
    require!(java, hadoop, kerberos);
    run_job("integrity");
}

#[test]
fn a_job_runs_when_calls_are_encrypted() {
    require!(java, hadoop, kerberos);
    run_job("privacy");
}
