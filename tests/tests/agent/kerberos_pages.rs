//! Pages of a node whose callers prove themselves by tickets, as `curl --negotiate` does.

#![expect(
    clippy::unwrap_used,
    reason = "in a test a failure is to be seen where it happens"
)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use test_support::realm::{REALM, Realm};
use test_support::scripted::ScriptedRm;
use tests::conf::Properties;
use tests::node::NodeKind;
use tests::node_process::NodeProcess;
use tests::require;

use crate::AGENT;
use crate::pages_over_tls::{Stores, over_tls};

const SECRET: &str = "a secret that nodes share\n";

/// Every kind of page.
const PATHS: [&str; 10] = [
    "/",
    "/live.json",
    "/node",
    "/node/allApplications",
    "/ws/v1/node/info",
    "/ws/v1/node/containers",
    "/jmx",
    "/conf",
    "/metrics",
    "/health",
];

/// A realm with a service of pages, and two users with tickets.
struct Lab {
    realm: Realm,
    keytab: PathBuf,
    alice: String,
    bob: String,
    folder: TempDir,
}

/// A running node and the port of its pages.
struct Node {
    web: u16,
    scheme: &'static str,
    _process: NodeProcess,
}

/// An answer that curl got.
#[derive(Debug)]
struct Answer {
    status: u16,
    /// Head and body.
    text: String,
}

impl Answer {
    /// Returns the value of the cookie that was set.
    fn cookie(&self) -> &str {
        let begin = "Set-Cookie: hadoop.auth=";
        let line = self.text.lines().find(|line| {
            line.to_ascii_lowercase()
                .starts_with(&begin.to_ascii_lowercase())
        });
        let line = line.unwrap_or_else(|| panic!("no cookie: {self:?}"));
        line[begin.len()..].split(';').next().unwrap()
    }
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let realm = folder.path().join("realm");
        fs::create_dir(&realm).unwrap();
        let realm = Realm::start(&realm);
        let ticket = |user: &str| {
            let keytab = realm.keytab(&format!("{user}.keytab"), &[user]);
            realm.ticket(&keytab, user)
        };
        fs::write(folder.path().join("secret"), SECRET).unwrap();
        Self {
            keytab: realm.keytab("http.keytab", &["HTTP/localhost"]),
            alice: ticket("alice"),
            bob: ticket("bob"),
            realm,
            folder,
        }
    }

    /// Starts a node, and waits until its pages are served.
    fn start(&self, rm: &ScriptedRm, change: impl FnOnce(&mut Properties)) -> Node {
        self.start_with_files(rm, &[], change)
    }

    fn start_with_files(
        &self,
        rm: &ScriptedRm,
        files: &[(&str, &Properties)],
        change: impl FnOnce(&mut Properties),
    ) -> Node {
        let kind = NodeKind::Agent(AGENT.into());
        let krb5 = self.realm.configuration().display().to_string();
        let environment = vec![("KRB5_CONFIG".to_owned(), krb5)];
        let prefix = "hadoop.http.authentication";
        let port = rm.address().port();
        let node = NodeProcess::start_with_files(&kind, port, environment, files, |site| {
            let secret = self.folder.path().join("secret");
            site.set(format!("{prefix}.type"), "kerberos")
                .set(
                    format!("{prefix}.kerberos.principal"),
                    format!("HTTP/localhost@{REALM}"),
                )
                .set(format!("{prefix}.kerberos.keytab"), self.keytab.display())
                .set(format!("{prefix}.signature.secret.file"), secret.display());
            change(site);
        });
        let registered = rm.wait_registrations(1);
        Node {
            web: u16::try_from(registered.http_port.unwrap()).unwrap(),
            scheme: if files.is_empty() { "http" } else { "https" },
            _process: node,
        }
    }

    /// Asks for a path, with this cache of tickets and more arguments of curl.
    fn curl(&self, node: &Node, path: &str, tickets: &str, more: &[&str]) -> Answer {
        let url = format!("{}://localhost:{}{path}", node.scheme, node.web);
        let output = Command::new("curl")
            .args(["--silent", "--include", "--max-time", "60"])
            .args(["--write-out", "\n%{http_code}"])
            .args(more)
            .arg(url)
            .env("KRB5_CONFIG", self.realm.configuration())
            .env("KRB5CCNAME", tickets)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (text, status) = text.rsplit_once('\n').unwrap();
        Answer {
            status: status.parse().unwrap(),
            text: text.to_owned(),
        }
    }

    fn negotiate(&self, node: &Node, path: &str, tickets: &str) -> Answer {
        self.curl(node, path, tickets, &["--negotiate", "--user", ":"])
    }

    fn with_header(&self, node: &Node, header: &str) -> Answer {
        self.curl(node, "/node", "", &["--header", header])
    }
}

#[test]
fn a_caller_with_a_ticket_reads_each_page_and_one_without_reads_none() {
    require!(kerberos, curl_with_kerberos);
    let (lab, rm) = (Lab::new(), ScriptedRm::start());
    let node = lab.start(&rm, |site| {
        let open = "hadoop.http.authentication.kerberos.endpoint.whitelist";
        site.set(open, "/metrics");
    });
    for path in PATHS {
        let proven = lab.negotiate(&node, path, &lab.alice);
        assert_eq!(proven.status, 200, "{path}: {proven:?}");
        let none = lab.curl(&node, path, "", &[]);
        if path == "/metrics" {
            assert_eq!(none.status, 200, "{none:?}");
            continue;
        }
        assert_eq!(none.status, 401, "{path}: {none:?}");
        let told = none.text.to_ascii_lowercase();
        assert!(told.contains("www-authenticate: negotiate\r\n"), "{told}");
        assert!(
            told.contains("set-cookie: hadoop.auth=; path=/; httponly"),
            "{told}"
        );
        let named = lab.curl(&node, &format!("{path}?user.name=root"), "", &[]);
        assert_eq!(named.status, 401, "{path}: {named:?}");
    }
    let options = ["--request", "OPTIONS"];
    assert_eq!(lab.curl(&node, "/node", "", &options).status, 401);
    let garbage = lab.with_header(&node, "Authorization: Negotiate Z2FyYmFnZQ==");
    assert_eq!(garbage.status, 403, "{garbage:?}");
    let long = format!("Authorization: Negotiate {}", "A".repeat(96 * 1024));
    let refused = lab.with_header(&node, &long);
    assert!([401, 431].contains(&refused.status), "{refused:?}");
}

#[test]
fn a_cookie_counts_on_each_node_with_the_secret_and_no_forged_one_does() {
    require!(kerberos, curl_with_kerberos);
    let (lab, rm) = (Lab::new(), ScriptedRm::start());
    let node = lab.start(&rm, |_| {});
    let proven = lab.negotiate(&node, "/node", &lab.alice);
    let cookie = proven.cookie().to_owned();
    let begin = format!("\"u=alice&p=alice@{REALM}&t=kerberos&e=");
    assert!(cookie.starts_with(&begin), "{cookie}");
    let status = |node: &Node, cookie: &str| {
        let header = format!("Cookie: hadoop.auth={cookie}");
        lab.with_header(node, &header).status
    };
    assert_eq!(status(&node, &cookie), 200);
    let rm = ScriptedRm::start();
    let other = lab.start(&rm, |_| {});
    assert_eq!(status(&other, &cookie), 200);
    let rm = ScriptedRm::start();
    let stranger = lab.start(&rm, |site| {
        let secret = lab.folder.path().join("another");
        fs::write(&secret, "another secret").unwrap();
        let name = "hadoop.http.authentication.signature.secret.file";
        site.set(name, secret.display());
    });
    assert_eq!(status(&stranger, &cookie), 401);
    for forged in [
        cookie.replace("u=alice", "u=root"),
        cookie.replace("t=kerberos", "t=simple"),
        cookie.replace("&e=", "&e=9"),
        cookie.replace("&s=", "&s=A"),
        "x".repeat(60_000),
    ] {
        assert_eq!(status(&node, &forged), 401, "{forged:.200}");
    }
    let refused = lab.with_header(&node, "Cookie: hadoop.auth=forged");
    assert!(refused.text.contains("Invalid signature"), "{refused:?}");
}

#[test]
fn tickets_and_cookies_are_good_over_tls() {
    require!(kerberos, curl_with_kerberos);
    let Some(stores) = Stores::new() else { return };
    let (lab, rm) = (Lab::new(), ScriptedRm::start());
    let files = [("ssl-server.xml", &stores.ssl_server())];
    let node = lab.start_with_files(&rm, &files, over_tls);
    let trusted = stores.certificate("first");
    let negotiate = ["--negotiate", "--user", ":", "--cacert", &trusted];
    for path in PATHS {
        let proven = lab.curl(&node, path, &lab.alice, &negotiate);
        assert_eq!(proven.status, 200, "{path}: {proven:?}");
        let none = lab.curl(&node, path, "", &negotiate[3..]);
        assert_eq!(none.status, 401, "{path}: {none:?}");
    }
    let proven = lab.curl(&node, "/node", &lab.alice, &negotiate);
    let text = proven.text.to_ascii_lowercase();
    assert!(text.contains("; path=/; secure; httponly"), "{text}");
    let cookie = format!("Cookie: hadoop.auth={}", proven.cookie());
    let known = ["--header", &cookie, "--cacert", &trusted];
    assert_eq!(lab.curl(&node, "/node", "", &known).status, 200);
}

#[test]
fn rules_name_the_users_of_pages() {
    require!(kerberos, curl_with_kerberos);
    let (lab, rm) = (Lab::new(), ScriptedRm::start());
    let node = lab.start(&rm, |site| {
        let rules = format!("RULE:[1:$1@$0](alice@{REALM})s/.*/operator/ DEFAULT");
        site.set("hadoop.security.auth_to_local", rules)
            .set("hadoop.security.authorization", true)
            .set("hadoop.security.instrumentation.requires.admin", true)
            .set("yarn.admin.acl", "operator");
    });
    assert_eq!(lab.negotiate(&node, "/conf", &lab.alice).status, 200);
    let refused = lab.negotiate(&node, "/conf", &lab.bob);
    assert_eq!(refused.status, 403, "{refused:?}");
    let why = "User bob is unauthorized to access this page.";
    assert!(refused.text.contains(why), "{refused:?}");
}
