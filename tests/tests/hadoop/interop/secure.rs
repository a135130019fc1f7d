//! A cluster with Kerberos: Hadoop's ResourceManager takes the node by its ticket, and a user with
//! a ticket runs jobs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use test_support::realm::{REALM, Realm};
use tests::cluster::{Cluster, JOB_DEADLINE, PRINT_BEGIN, STATE_DEADLINE};
use tests::conf::{Options, Properties};
use tests::distributed_shell::ContainerType;
use tests::require;
use tests::rm::RmKind;

use crate::interop::processes::leaders;
use crate::interop::proxied::distributed;
use crate::interop::{node_kind, start_cluster};

/// Returns the rules by which principals of services become users.
pub(crate) fn auth_to_local() -> String {
    let rules = [
        ("rm", "yarn"),
        ("nm", "yarn"),
        ("nn", "hdfs"),
        ("dn", "hdfs"),
    ];
    let rules = rules.map(|(name, user)| format!("RULE:[2:$1@$0]({name}@{REALM})s/.*/{user}/"));
    format!("{} DEFAULT", rules.join(" "))
}

/// A realm with the principals of a small cluster.
pub(crate) struct Secure {
    pub(crate) realm: Realm,
    _folder: tempfile::TempDir,
    nm: PathBuf,
    rm: PathBuf,
    /// Cache with the ticket of a user.
    pub(crate) ticket: String,
}

impl Secure {
    pub(crate) fn new() -> Self {
        Self::of_user("alice")
    }

    /// Returns a realm in which this user has a ticket and submits jobs.
    pub(crate) fn of_user(user: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Processes of other users read the realm's configuration.
        let mode = fs::Permissions::from_mode(0o711);
        fs::set_permissions(folder.path(), mode).unwrap();
        let realm = Realm::start(folder.path());
        let nm = realm.keytab("nm.keytab", &["nm/localhost"]);
        let rm = realm.keytab("rm.keytab", &["rm/localhost"]);
        let keytab = realm.keytab("user.keytab", &[user]);
        let ticket = realm.ticket(&keytab, user);
        Self {
            realm,
            _folder: folder,
            nm,
            rm,
            ticket,
        }
    }

    /// Returns the keytab of the node.
    pub(crate) fn keytab(&self) -> &Path {
        &self.nm
    }

    /// Returns the option by which a JVM finds the realm.
    pub(crate) fn java_option(&self) -> String {
        let krb5 = self.realm.configuration();
        format!("-Djava.security.krb5.conf={}", krb5.display())
    }

    /// Returns the configuration of a secure cluster whose calls have these levels of protection.
    pub(crate) fn options(&self, levels: &str) -> Options {
        let rules = auth_to_local();
        let krb5 = self.realm.configuration();
        let java = self.java_option();
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

fn run_job(levels: &str, kind: ContainerType, change: impl FnOnce(Options) -> Options) {
    let secure = Secure::new();
    let options = change(secure.options(levels));
    let cluster: Cluster = start_cluster(&RmKind::Hadoop, 8, options);
    let mut shell = cluster.submit("secure", "true", 2, kind);
    let id = shell.application_id();
    shell.assert_succeeds(JOB_DEADLINE);
    let application = cluster.rm.application(&id).unwrap();
    assert_eq!(application["user"], "alice", "{application}");
    cluster.node.logs(&id).assert_succeeded(2);
}

#[test]
fn a_job_of_a_user_with_a_ticket_runs() {
    require!(java, hadoop, kerberos);
    run_job("authentication", ContainerType::Guaranteed, |options| {
        options
    });
}

#[test]
fn a_job_runs_when_calls_are_signed() {
    require!(java, hadoop, kerberos);
    run_job("integrity", ContainerType::Guaranteed, |options| options);
}

#[test]
fn a_job_with_a_proxy_runs_when_calls_are_encrypted() {
    require!(java, hadoop, kerberos);
    run_job("privacy", ContainerType::Opportunistic, distributed);
}

/// Turns service authorization on, on each side, with a policy that sets this property.
fn with_policy(options: Options, name: &str, value: &str) -> Options {
    let mut policy = Properties::default();
    policy.set(name, value);
    options
        .with_core("hadoop.security.authorization", true)
        .with_file("hadoop-policy.xml", &policy)
}

#[test]
fn a_job_runs_where_each_side_asks_who_may_call_it() {
    require!(java, hadoop, kerberos);
    const HOSTS: &str = "security.service.authorization.default.hosts";
    run_job("privacy", ContainerType::Opportunistic, |options| {
        distributed(with_policy(options, HOSTS, "127.0.0.0/8"))
    });
}

/// On a Java NodeManager, too: `NM_AGENT_TEST_NODE=java` runs this against one.
#[test]
fn a_list_of_users_keeps_hadoops_launcher_out_with_hadoops_words() {
    require!(java, hadoop, kerberos);
    const ACL: &str = "security.containermanagement.protocol.acl";
    let secure = Secure::new();
    let options = with_policy(secure.options("authentication"), ACL, "alice,yarn");
    let cluster: Cluster = start_cluster(&RmKind::Hadoop, 8, options);
    let mut client = cluster.submit("secure", "true", 1, ContainerType::Guaranteed);
    let id = client.application_id();
    let application = cluster.rm.wait_application(&id, "FAILED", JOB_DEADLINE);
    let told = application["diagnostics"].as_str().unwrap();
    let expected = "(auth:TOKEN) is not authorized for protocol interface \
                    org.apache.hadoop.yarn.api.ContainerManagementProtocolPB: denied by configured \
                    ACL";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn containers_outlive_a_node_that_starts_again_while_the_kdc_is_away() {
    require!(java, hadoop, kerberos);
    let mut secure = Secure::new();
    let options = secure
        .options("authentication,privacy")
        .with("yarn.nodemanager.recovery.enabled", true);
    let mut cluster: Cluster = start_cluster(&RmKind::Hadoop, 8, options);
    let gate = cluster.gate("gate");
    let command = format!("({PRINT_BEGIN}; {})", gate.wait_command());
    let mut shell = cluster.submit("secure", &command, 2, ContainerType::Guaranteed);
    let id = shell.application_id();
    cluster.wait_begun(&id, 2);
    let before = leaders(&cluster, &id);
    cluster.node.process.kill();
    secure.realm.stop_kdc();
    cluster.node.start_again(&node_kind());
    // It has no tickets: those of the agent before were in its memory.
    let told = "Cannot contact any KDC";
    cluster.node.process.wait_log(told, STATE_DEADLINE);
    assert_eq!(leaders(&cluster, &id), before, "they run on");
    secure.realm.start_kdc();
    cluster
        .node
        .wait_state(&cluster.rm, "RUNNING", STATE_DEADLINE);
    assert_eq!(leaders(&cluster, &id), before, "they run on");
    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    cluster.node.logs(&id).assert_succeeded(2);
}
