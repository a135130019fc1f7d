//! A Kerberos realm on this machine: a KDC of MIT krb5 on a free port of the loopback, in a folder
//! of its own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Name of the realm.
pub const REALM: &str = "NODES.TEST";

/// Deadline for a KDC to listen, on a machine that is busy building.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// Folders in which Debian puts servers, which the path of a user may lack.
const SERVER_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// A running KDC. Dropped, it ends; its folder goes with the test's.
#[derive(Debug)]
pub struct Realm {
    folder: PathBuf,
    address: SocketAddr,
    kdc: Option<Child>,
}

/// Returns why this machine cannot have a realm.
///
/// # Errors
/// The program that is missing, and its Debian package.
pub fn is_possible() -> Result<(), String> {
    for (name, package) in [
        ("kdb5_util", "krb5-kdc"),
        ("krb5kdc", "krb5-kdc"),
        ("kadmin.local", "krb5-admin-server or krb5-kdc"),
        ("kinit", "krb5-user"),
    ] {
        if find(name).is_none() {
            return Err(format!("{name} is missing (Debian: {package})"));
        }
    }
    Ok(())
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SERVER_FOLDERS.map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

impl Realm {
    /// Makes a realm in a folder, which must be there and empty, and starts its KDC.
    ///
    /// # Panics
    /// When a program is missing or fails.
    #[must_use]
    pub fn start(folder: &Path) -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let held = TcpListener::bind(any).and_then(|listener| listener.local_addr());
        let address = held.unwrap_or_else(|error| panic!("no port for a KDC: {error}"));
        let mut realm = Self {
            folder: folder.to_path_buf(),
            address,
            kdc: None,
        };
        realm.write_configuration();
        realm.run("kdb5_util", &["create", "-s", "-r", REALM, "-P", "master"]);
        realm.start_kdc();
        realm
    }

    fn write_configuration(&self) {
        let (folder, address) = (self.folder.display(), self.address);
        let client = format!(
            "[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n \
             dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n \
             udp_preference_limit = 1\n[realms]\n {REALM} = {{\n  kdc = {address}\n }}\n\
             [domain_realm]\n localhost = {REALM}\n"
        );
        let server = format!(
            "[kdcdefaults]\n kdc_listen = \"\"\n kdc_tcp_listen = {address}\n[realms]\n {REALM} = {{\n  \
             database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n  \
             acl_file = {folder}/acl\n  max_life = 10h\n  supported_enctypes = \
             aes256-cts-hmac-sha1-96:normal\n }}\n[logging]\n kdc = FILE:{folder}/kdc.log\n"
        );
        for (name, text) in [("krb5.conf", client), ("kdc.conf", server)] {
            let path = self.folder.join(name);
            fs::write(&path, text)
                .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        }
    }

    /// Starts the KDC, also after [`stop_kdc`](Self::stop_kdc), and waits until it listens.
    ///
    /// # Panics
    /// When it does not.
    pub fn start_kdc(&mut self) {
        let mut command = self.command("krb5kdc");
        let command = command
            .arg("-n")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let kdc = command.spawn();
        self.kdc = Some(kdc.unwrap_or_else(|error| panic!("cannot start krb5kdc: {error}")));
        let deadline = Instant::now() + START_DEADLINE;
        while TcpStream::connect(self.address).is_err() {
            assert!(
                Instant::now() < deadline,
                "the KDC does not listen: {}",
                fs::read_to_string(self.folder.join("kdc.log")).unwrap_or_default()
            );
            sleep(Duration::from_millis(10));
        }
    }

    /// Ends the KDC.
    pub fn stop_kdc(&mut self) {
        if let Some(mut kdc) = self.kdc.take() {
            drop(kdc.kill());
            drop(kdc.wait());
        }
    }

    /// Returns the configuration for programs of this realm (`KRB5_CONFIG`).
    #[must_use]
    pub fn configuration(&self) -> PathBuf {
        self.folder.join("krb5.conf")
    }

    /// Makes principals with keys of their own in a new keytab, and returns its path.
    ///
    /// # Panics
    /// When a principal exists already.
    #[must_use]
    pub fn keytab(&self, name: &str, principals: &[&str]) -> PathBuf {
        let path = self.folder.join(name);
        for principal in principals {
            self.query(&format!("addprinc -randkey {principal}"));
            self.query(&format!("ktadd -k {} {principal}", path.display()));
        }
        assert!(path.is_file(), "kadmin has written no {}", path.display());
        path
    }

    /// Returns how many logins the KDC has granted.
    #[must_use]
    pub fn logins(&self) -> usize {
        let log = fs::read_to_string(self.folder.join("kdc.log")).unwrap_or_default();
        let is_login = |line: &&str| line.contains("AS_REQ") && line.contains("ISSUE");
        log.lines().filter(is_login).count()
    }

    /// Makes a query of `kadmin.local`.
    ///
    /// # Panics
    /// When the program fails.
    pub fn query(&self, query: &str) {
        self.run("kadmin.local", &["-q", query]);
    }

    /// Gets a ticket by a keytab, and returns the cache that it is in (`KRB5CCNAME`).
    ///
    /// # Panics
    /// When the KDC gives none.
    #[must_use]
    pub fn ticket(&self, keytab: &Path, principal: &str) -> String {
        let cache = format!("FILE:{}.cache", keytab.display());
        let keytab = keytab.display().to_string();
        self.run("kinit", &["-c", &cache, "-k", "-t", &keytab, principal]);
        cache
    }

    fn command(&self, program: &str) -> Command {
        let path = find(program).unwrap_or_else(|| panic!("{program} is missing"));
        let mut command = Command::new(path);
        command
            .env("KRB5_CONFIG", self.configuration())
            .env("KRB5_KDC_PROFILE", self.folder.join("kdc.conf"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let output = self.command(program).args(arguments).output();
        let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {output:?}"
        );
    }
}

impl Drop for Realm {
    fn drop(&mut self) {
        self.stop_kdc();
    }
}
