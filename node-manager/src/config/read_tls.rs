//! Properties to TLS of servers: those of `ssl-server.xml`, and those beside all others.
//!
//! The stores are opened, too: a password that does not fit is a problem of the configuration.

use std::path::PathBuf;
use std::time::Duration;

use hadoop_conf::{Expected, PropertyReader};
use records::error_chain;
use tls_server::{Password, Protocol, Setting, StoreFile, TlsConfig, TlsServer};

use super::keys::SSL_SERVER;

const POLICY: &str = "yarn.http.policy";
const FILE: &str = "hadoop.ssl.server.conf";
/// File of pages, whatever [`FILE`] says (Hadoop: `WebAppUtils.loadSslConfiguration`).
const FILE_OF_PAGES: &str = "ssl-server.xml";
const PROTOCOLS: &str = "hadoop.ssl.enabled.protocols";
const CLIENT_CERTIFICATES: &str = "hadoop.ssl.require.client.cert";

const KEY_STORE: &str = "ssl.server.keystore.location";
const KEY_STORE_PASSWORD: &str = "ssl.server.keystore.password";
const KEY_PASSWORD: &str = "ssl.server.keystore.keypassword";
const TRUST_STORE: &str = "ssl.server.truststore.location";
const TRUST_STORE_PASSWORD: &str = "ssl.server.truststore.password";
const EXCLUDED: &str = "ssl.server.exclude.cipher.list";

/// Returns whether pages are served over TLS. Hadoop compares the word without regard to case, and
/// takes any that it does not know for `HTTP_ONLY`; one that names HTTPS is refused.
pub(super) fn is_wanted_for_pages(reader: &mut PropertyReader<'_>) -> bool {
    let policy = reader.text(POLICY).unwrap_or_default();
    match policy.to_ascii_uppercase().as_str() {
        "HTTPS_ONLY" => return true,
        "" | "HTTP_ONLY" => {}
        "HTTP_AND_HTTPS" => reader.read_as(POLICY, &"HTTP_ONLY"),
        https if https.contains("HTTPS") => {
            reader.problem(POLICY, Expected::OneOf(vec!["HTTP_ONLY", "HTTPS_ONLY"]));
        }
        _ => reader.read_as(POLICY, &"HTTP_ONLY"),
    }
    false
}

/// Reads what the shuffle needs for TLS; `None` after a problem.
pub(super) fn shuffle(reader: &mut PropertyReader<'_>, conf_dirs: &[PathBuf]) -> Option<TlsConfig> {
    let wants_certificates = reader.flag(CLIENT_CERTIFICATES);
    let protocols = protocols(reader);
    let file = reader.text(FILE).unwrap_or_default();
    server(reader, conf_dirs, &file, (wants_certificates, protocols))
}

/// Reads what pages need for TLS; `None` after a problem. As in Hadoop, clients show no
/// certificate, and with the default of the versions both are spoken (`HttpServer2`).
pub(super) fn pages(reader: &mut PropertyReader<'_>, conf_dirs: &[PathBuf]) -> Option<TlsConfig> {
    let mut protocols = protocols(reader);
    if let Some(versions) = &mut protocols
        && *versions == [Protocol::Tls12]
    {
        versions.push(Protocol::Tls13);
    }
    server(reader, conf_dirs, FILE_OF_PAGES, (false, protocols))
}

fn server(
    reader: &mut PropertyReader<'_>,
    conf_dirs: &[PathBuf],
    file: &str,
    (wants_certificates, protocols): (bool, Option<Vec<Protocol>>),
) -> Option<TlsConfig> {
    let apart = match reader.properties().read_apart(conf_dirs, file) {
        Ok(apart) => apart,
        Err(error) => {
            reader.unusable_file(error);
            return None;
        }
    };
    let mut of_file = PropertyReader::new(&apart, &SSL_SERVER);
    let config = read(&mut of_file, wants_certificates, protocols);
    let config = config.filter(|config| can_be_used(&mut of_file, config));
    reader.add(of_file);
    config
}

/// Reads the properties without opening what they name.
pub(super) fn read(
    of_file: &mut PropertyReader<'_>,
    wants_certificates: bool,
    protocols: Option<Vec<Protocol>>,
) -> Option<TlsConfig> {
    let stores = stores(of_file, wants_certificates);
    let intervals = [
        "ssl.server.stores.reload.interval",
        "ssl.server.truststore.reload.interval",
    ];
    let [keys, trusted] = intervals.map(|name| of_file.u64(name, 1));
    let reload_interval = if wants_certificates {
        keys.min(trusted)
    } else {
        keys
    };
    let excluded_suites = of_file.list(EXCLUDED);
    let (stores, protocols) = stores.zip(protocols)?;
    Some(TlsConfig {
        key_store: stores.key_store,
        key_password: stores.key_password,
        clients: stores.clients,
        protocols,
        excluded_suites,
        reload_interval: Some(Duration::from_millis(reload_interval)),
    })
}

struct Stores {
    key_store: StoreFile,
    key_password: Password,
    clients: Option<StoreFile>,
}

fn stores(reader: &mut PropertyReader<'_>, wants_certificates: bool) -> Option<Stores> {
    types(reader);
    let path = required(reader, KEY_STORE);
    let password = required(reader, KEY_STORE_PASSWORD);
    let key_password = password_of(reader, KEY_PASSWORD);
    let clients = if wants_certificates {
        // Java would trust every authority that its own installation trusts.
        let path = required(reader, TRUST_STORE);
        let password = password_of(reader, TRUST_STORE_PASSWORD);
        Some(StoreFile {
            path: path?.into(),
            password,
        })
    } else {
        None
    };
    let (path, password) = (path?, Password::new(password?));
    Some(Stores {
        key_store: StoreFile {
            path: path.into(),
            password: Some(password.clone()),
        },
        key_password: key_password.unwrap_or(password),
        clients,
    })
}

/// Returns the text of a property that must be set, with its blanks: it may be a password.
fn required(reader: &mut PropertyReader<'_>, name: &str) -> Option<String> {
    let why = "map outputs or pages are served over TLS, for which the file that \
               hadoop.ssl.server.conf names, for pages ssl-server.xml, must have it (credential \
               providers are not read)";
    let text = reader.untrimmed_text(name).filter(|text| !text.is_empty());
    if text.is_none() {
        reader.missing(name.to_owned(), why);
    }
    text
}

/// Returns a password; `None` if it is unset or empty, as in Hadoop.
fn password_of(reader: &mut PropertyReader<'_>, name: &str) -> Option<Password> {
    let text = reader.untrimmed_text(name)?;
    (!text.is_empty()).then(|| Password::new(text))
}

/// Checks the names of formats. The format is that of the file, as Java reads both under both
/// names.
fn types(reader: &mut PropertyReader<'_>) {
    for name in ["ssl.server.keystore.type", "ssl.server.truststore.type"] {
        let format = reader.text(name).unwrap_or_default().to_ascii_lowercase();
        if !["jks", "pkcs12"].contains(&format.as_str()) {
            reader.problem(name, Expected::OneOf(vec!["jks", "pkcs12"]));
        }
    }
}

/// Reads the versions of TLS. Older ones than 1.2 are left out with a warning, if others remain.
fn protocols(reader: &mut PropertyReader<'_>) -> Option<Vec<Protocol>> {
    let names = reader.list(PROTOCOLS);
    let mut protocols: Vec<_> = names
        .iter()
        .filter_map(|name| Protocol::from_java(name))
        .collect();
    protocols.sort_unstable();
    protocols.dedup();
    if protocols.is_empty() {
        let why = "of the versions, this agent has TLSv1.2 and TLSv1.3 only";
        reader.problem(PROTOCOLS, Expected::Unsupported(why));
        return None;
    }
    if names.iter().any(|name| Protocol::from_java(name).is_none()) {
        reader.otherwise(PROTOCOLS, "only TLSv1.2 and TLSv1.3 are spoken");
    }
    Some(protocols)
}

/// Opens the stores. What cannot be used is a problem of the property that names it.
fn can_be_used(reader: &mut PropertyReader<'_>, config: &TlsConfig) -> bool {
    let Err(error) = TlsServer::load(config.clone()) else {
        return true;
    };
    let name = match error.setting() {
        Setting::KeyStore => KEY_STORE,
        Setting::KeyStorePassword => KEY_STORE_PASSWORD,
        Setting::KeyPassword if reader.properties().raw(KEY_PASSWORD).is_none() => {
            KEY_STORE_PASSWORD
        }
        Setting::KeyPassword => KEY_PASSWORD,
        Setting::TrustStore => TRUST_STORE,
        Setting::TrustStorePassword => TRUST_STORE_PASSWORD,
        Setting::ExcludedSuites => EXCLUDED,
    };
    reader.problem(name, Expected::Rule(error_chain(&error).into()));
    false
}
