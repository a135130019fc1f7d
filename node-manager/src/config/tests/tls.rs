//! TLS of the shuffle: `ssl-server.xml` and the stores that it names.

use shuffle::ShuffleConfig;
use test_support::{Keytool, STORE_PASSWORD};
use tls_server::{Password, Protocol};

use super::*;

const PASSWORD: (&str, &str) = ("ssl.server.keystore.password", STORE_PASSWORD);

/// Folder of a configuration whose shuffle serves over TLS, with the stores `keys` and `trust`.
struct Folder(TempDir);

impl Folder {
    fn new() -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let keytool = Keytool::find(&test, folder.path())?;
        keytool.add_key("keys", "host", "EC");
        keytool.export("keys", "host", "certificate");
        keytool.import("trust", "host", "certificate", "-storetype JKS");
        Some(Self(folder))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Loads this `ssl-server.xml`, if any, beside these properties.
    fn load(&self, ssl_server: Option<&[(&str, &str)]>, more: &[(&str, &str)]) -> Loaded {
        let mut all = vec![
            ("yarn.nodemanager.aux-services", "mapreduce_shuffle"),
            ("mapreduce.shuffle.ssl.enabled", "true"),
        ];
        all.extend(more);
        fs::write(self.path("yarn-site.xml"), xml(&all)).unwrap();
        let file = self.path("ssl-server.xml");
        match ssl_server {
            Some(pairs) => fs::write(file, xml(pairs)).unwrap(),
            None => assert!(!PathBuf::from(file).exists()),
        }
        Loaded::read(&[self.0.path().to_path_buf()], &environment())
    }

    /// Returns the settings of a good configuration whose key store is the right one.
    fn good(&self, ssl_server: &[(&str, &str)], more: &[(&str, &str)]) -> ShuffleConfig {
        let keys = self.path("keys");
        let mut all = vec![("ssl.server.keystore.location", keys.as_str()), PASSWORD];
        all.extend(ssl_server);
        let config = self.load(Some(&all), more).config.unwrap();
        let shuffle = config.aux_services[0].map_reduce_shuffle().unwrap();
        shuffle.clone()
    }

    /// Returns the one problem of this configuration.
    fn problem(&self, ssl_server: &[(&str, &str)], more: &[(&str, &str)]) -> String {
        let loaded = self.load(Some(ssl_server), more);
        let problems = loaded.config.expect_err("it must not be accepted");
        let texts: Vec<_> = problems.list().iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 1, "{texts:?}");
        texts[0].clone()
    }
}

macro_rules! folder {
    () => {
        match Folder::new() {
            Some(folder) => folder,
            None => return,
        }
    };
}

#[test]
fn a_shuffle_with_tls_has_hadoops_defaults() {
    let folder = folder!();
    let tls = folder.good(&[], &[]).tls.unwrap();
    assert_eq!(tls.key_store.path, PathBuf::from(folder.path("keys")));
    assert_eq!(tls.key_password, Password::new(STORE_PASSWORD));
    assert_eq!(tls.clients, None);
    assert_eq!(tls.protocols, [Protocol::Tls12]);
    assert_eq!(tls.reload_interval.unwrap().as_secs(), 10);
}

#[test]
fn the_settings_of_tls_are_read() {
    let folder = folder!();
    let trust = folder.path("trust");
    let tls = folder.good(
        &[
            ("ssl.server.truststore.location", &trust),
            ("ssl.server.truststore.reload.interval", "2000"),
            (
                "ssl.server.exclude.cipher.list",
                "TLS_AES_128_GCM_SHA256, X",
            ),
        ],
        &[
            ("hadoop.ssl.require.client.cert", "true"),
            ("hadoop.ssl.enabled.protocols", "TLSv1.3,TLSv1.2"),
        ],
    );
    let tls = tls.tls.unwrap();
    let clients = tls.clients.unwrap();
    assert_eq!(clients.path, PathBuf::from(trust));
    // As in Hadoop, no password is no verification.
    assert_eq!(clients.password, None);
    assert_eq!(tls.protocols, [Protocol::Tls12, Protocol::Tls13]);
    assert_eq!(tls.reload_interval.unwrap().as_secs(), 2);
    assert_eq!(tls.excluded_suites, ["TLS_AES_128_GCM_SHA256", "X"]);
    // A plain shuffle needs none of that.
    let plain = folder.good(&[], &[("mapreduce.shuffle.ssl.enabled", "false")]);
    assert_eq!(plain.tls, None);
}

/// Turns TLS of pages on, and that of the shuffle off.
const PAGES: [(&str, &str); 2] = [
    ("yarn.http.policy", "https_only"),
    ("mapreduce.shuffle.ssl.enabled", "false"),
];

#[test]
fn pages_over_tls_have_their_own_address_and_ask_for_no_certificate() {
    let folder = folder!();
    let keys = folder.path("keys");
    let stores = [("ssl.server.keystore.location", keys.as_str()), PASSWORD];
    let address = "yarn.nodemanager.webapp.https.address";
    let more = [
        PAGES[0],
        PAGES[1],
        ("hadoop.ssl.require.client.cert", "true"),
        ("hadoop.ssl.server.conf", "another.xml"),
        ("yarn.nodemanager.webapp.address", "plain:1"),
    ];
    let config = folder.load(Some(&stores), &more).config.unwrap();
    let addresses = &config.addresses;
    assert_eq!(addresses.web_bind(), HostPort::new("0.0.0.0", 8044));
    assert_eq!(addresses.web_property(), address);
    let tls = config.web.tls.unwrap();
    assert_eq!(tls.key_store.path, PathBuf::from(&keys));
    assert_eq!(tls.clients, None);
    // As Hadoop's servers of pages do with the default.
    assert_eq!(tls.protocols, [Protocol::Tls12, Protocol::Tls13]);
    let newest = ("hadoop.ssl.enabled.protocols", "TLSv1.3");
    let config = folder.load(Some(&stores), &[PAGES[0], newest, (address, "n:9")]);
    let config = config.config.unwrap();
    assert_eq!(config.web.tls.unwrap().protocols, [Protocol::Tls13]);
    assert_eq!(config.addresses.web, HostPort::new("n", 9));
    // Without, none of it is read.
    let without = folder!();
    let config = without.load(None, &[PAGES[1], (address, "n:9")]).config;
    assert_eq!(config.unwrap().web.tls, None);
}

#[test]
fn two_servers_of_one_file_tell_its_faults_once() {
    let folder = folder!();
    let missing = folder.path("missing");
    let stores = [("ssl.server.keystore.location", missing.as_str()), PASSWORD];
    let problem = folder.problem(&stores, &PAGES[..1]);
    assert!(problem.contains("No such file"), "{problem}");
}

#[test]
fn nodes_whose_pages_speak_tls_are_not_looked_at() {
    let folder = folder!();
    let keys = folder.path("keys");
    let stores = [("ssl.server.keystore.location", keys.as_str()), PASSWORD];
    let scheduling = "yarn.nodemanager.distributed-scheduling.enabled";
    let more = [PAGES[0], PAGES[1], (scheduling, "true")];
    let loaded = folder.load(Some(&stores), &more);
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings.iter().any(|it| it.contains("spread is in force")),
        "{warnings:?}"
    );
    let placement = loaded.config.unwrap().amrm_proxy.proxy.allocator.placement;
    assert_eq!(placement, sched::Placement::Spread);
}

#[test]
fn without_ssl_server_xml_it_is_said_what_is_missing() {
    let folder = folder!();
    let loaded = folder.load(None, &[("hadoop.ssl.require.client.cert", "true")]);
    let problems = loaded.config.expect_err("it must not be accepted");
    let problems: Vec<_> = problems.list().iter().map(ToString::to_string).collect();
    for (problem, name) in problems.iter().zip([
        "ssl.server.keystore.location",
        "ssl.server.keystore.password",
        "ssl.server.truststore.location",
    ]) {
        let begin = format!("{name} is not set: ");
        assert!(problem.starts_with(&begin), "{problem}");
        assert!(problem.contains("hadoop.ssl.server.conf"), "{problem}");
    }
    assert_eq!(problems.len(), 3);
}

#[test]
fn a_store_that_cannot_be_used_is_a_problem_with_file_and_property() {
    let folder = folder!();
    let [keys, trust, missing] = ["keys", "trust", "missing"].map(|name| folder.path(name));
    let of_keys = ("ssl.server.keystore.location", keys.as_str());
    let client_certificates = [("hadoop.ssl.require.client.cert", "true")];
    // Properties of `ssl-server.xml` and others; the property of the problem, and its words.
    type Set<'a> = &'a [(&'a str, &'a str)];
    let cases: [(Set<'_>, Set<'_>, &str, &str); 6] = [
        (
            &[("ssl.server.keystore.location", &missing), PASSWORD],
            &[],
            "ssl.server.keystore.location",
            "No such file",
        ),
        (
            &[of_keys, ("ssl.server.keystore.password", "mistyped")],
            &[],
            "ssl.server.keystore.password",
            "its password is wrong",
        ),
        (
            &[
                of_keys,
                PASSWORD,
                ("ssl.server.keystore.keypassword", "mistyped"),
            ],
            &[],
            "ssl.server.keystore.keypassword",
            "the password of its key \"host\" is wrong",
        ),
        (
            &[("ssl.server.keystore.location", &trust), PASSWORD],
            &[],
            "ssl.server.keystore.location",
            "has no private key",
        ),
        (
            &[
                of_keys,
                PASSWORD,
                ("ssl.server.truststore.location", &trust),
                ("ssl.server.truststore.password", "mistyped"),
            ],
            &client_certificates,
            "ssl.server.truststore.password",
            "its password is wrong, or its content was changed",
        ),
        (
            &[of_keys, PASSWORD, ("ssl.server.keystore.type", "bcfks")],
            &[],
            "ssl.server.keystore.type",
            "must be one of jks, pkcs12",
        ),
    ];
    for (ssl_server, more, name, text) in cases {
        let problem = folder.problem(ssl_server, more);
        assert!(problem.contains("ssl-server.xml:"), "{problem}");
        assert!(problem.contains(&format!(" {name} = ")), "{problem}");
        assert!(problem.contains(text), "{problem}");
        let shows = ["mistyped", STORE_PASSWORD]
            .iter()
            .any(|secret| problem.contains(secret));
        assert!(!shows, "{problem}");
    }
}

#[test]
fn old_versions_are_left_out_with_a_warning_and_none_is_a_problem() {
    let folder = folder!();
    let keys = folder.path("keys");
    let ssl_server = [("ssl.server.keystore.location", keys.as_str()), PASSWORD];
    let versions = |list| [("hadoop.ssl.enabled.protocols", list)];
    let loaded = folder.load(Some(&ssl_server), &versions("TLSv1,SSLv2Hello,TLSv1.2"));
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings.len() == 1 && warnings[0].contains("only TLSv1.2 and TLSv1.3 are spoken"),
        "{warnings:?}"
    );
    assert!(loaded.config.is_ok());
    let problem = folder.problem(&ssl_server, &versions("TLSv1.1"));
    assert!(
        problem.contains("hadoop.ssl.enabled.protocols"),
        "{problem}"
    );
}

#[test]
fn every_property_of_ssl_server_xml_in_the_table_is_read() {
    let properties = keys::SSL_SERVER.properties(&[]);
    let mut reader = PropertyReader::new(&properties, &keys::SSL_SERVER);
    read_tls::read(&mut reader, true, Some(vec![Protocol::Tls12]));
    let (_, _, asked) = reader.finish();
    let unread: Vec<_> = keys::SSL_SERVER
        .all()
        .filter(|key| !asked.contains(key.name))
        .collect();
    assert!(unread.is_empty(), "{unread:?}");
}
