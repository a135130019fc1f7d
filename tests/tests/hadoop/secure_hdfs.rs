//! HDFS with Kerberos: what clients with tokens and keytabs may do, and jobs whose files lie there.

#![expect(
    clippy::unwrap_used,
    reason = "bodies of tests are tests too: a panic is a failed test"
)]

mod accounts;
mod clients;
mod jobs;

use std::path::{Path, PathBuf};

use test_support::realm::REALM;
use tests::hdfs::{Differences, Hdfs};

use crate::interop::secure::{Secure, auth_to_local};

/// Properties of the NameNode that its clients must know, too.
fn of_clients(level: &str) -> Vec<(String, String)> {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let principal = format!("nn/_HOST@{REALM}");
    [
        ("dfs.namenode.kerberos.principal", &*principal),
        ("dfs.data.transfer.protection", level),
    ]
    .map(owned)
    .to_vec()
}

/// Folder of jobs that run and of those that have ended.
const STAGING: &str = "/tmp/hadoop-yarn/staging";

/// A NameNode and its DataNode, in a realm, with the home of alice and a folder for all.
struct SecureHdfs {
    hdfs: Hdfs,
    /// Cache with the superuser's ticket.
    superuser: String,
}

impl SecureHdfs {
    /// Starts both, whose calls and data have this level of protection.
    fn start(secure: &Secure, folder: &Path, level: &str) -> Self {
        let nn = secure.realm.keytab("nn.keytab", &["nn/localhost"]);
        let dn = secure.realm.keytab("dn.keytab", &["dn/localhost"]);
        let text = |path: &PathBuf| path.display().to_string();
        let site = [
            ("hadoop.security.authentication", "kerberos".to_owned()),
            ("hadoop.security.auth_to_local", auth_to_local()),
            ("hadoop.rpc.protection", level.to_owned()),
            ("dfs.namenode.keytab.file", text(&nn)),
            ("dfs.datanode.keytab.file", text(&dn)),
            (
                "dfs.datanode.kerberos.principal",
                format!("dn/_HOST@{REALM}"),
            ),
            ("dfs.block.access.token.enable", "true".to_owned()),
            ("hadoop.proxyuser.yarn.hosts", "*".to_owned()),
            ("hadoop.proxyuser.yarn.groups", "*".to_owned()),
            // Short enough for a ResourceManager that gets tokens itself to do so at each renewal.
            (
                "dfs.namenode.delegation.token.max-lifetime",
                "600000".to_owned(),
            ),
            (
                "dfs.namenode.delegation.token.renew-interval",
                "20000".to_owned(),
            ),
            ("ignore.secure.ports.for.testing", "true".to_owned()),
        ];
        let site = site.map(|(name, value)| (name.to_owned(), value));
        let differences = Differences {
            site: [site.to_vec(), of_clients(level)].concat(),
            environment: vec![("JDK_JAVA_OPTIONS".to_owned(), secure.java_option())],
        };
        let hdfs = Self {
            hdfs: Hdfs::start_with(folder, differences),
            superuser: secure.realm.ticket(&nn, "nn/localhost"),
        };
        let folders = ["/user/alice", STAGING, "/public"];
        hdfs.as_superuser(&[&["-mkdir", "-p"], &folders[..]].concat());
        hdfs.as_superuser(&["-chown", "alice", "/user/alice"]);
        hdfs.as_superuser(&["-chmod", "700", "/user/alice"]);
        hdfs.as_superuser(&["-chmod", "-R", "1777", "/tmp"]);
        hdfs
    }

    #[track_caller]
    fn as_superuser(&self, arguments: &[&str]) {
        let ticket = [("KRB5CCNAME", &*self.superuser)];
        let (succeeded, printed) = self.hdfs.shell(&ticket, arguments);
        assert!(succeeded, "{arguments:?}: {printed}");
    }
}
