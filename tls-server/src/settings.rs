//! rustls' settings from stores, versions and exclusions.

use std::sync::Arc;

use key_store::KeyEntry;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    Error, InconsistentKeys, RootCertStore, ServerConfig, SupportedProtocolVersion, version,
};

use crate::config::{Protocol, StoreFile, TlsConfig};
use crate::error::TlsError;
use crate::stores;

/// Reads the stores and builds the settings of new connections.
pub(crate) fn build(config: &TlsConfig) -> Result<ServerConfig, TlsError> {
    let keys = keys(config)?;
    let provider = Arc::new(provider(&config.excluded_suites));
    let protocols: Vec<&'static SupportedProtocolVersion> = config
        .protocols
        .iter()
        .map(|protocol| match protocol {
            Protocol::Tls12 => &version::TLS12,
            Protocol::Tls13 => &version::TLS13,
        })
        .collect();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&protocols)
        .map_err(TlsError::NoSuite)?;
    let builder = match &config.clients {
        None => builder.with_no_client_auth(),
        Some(store) => {
            // The names of trusted issuers would be in each handshake, and there may be more than
            // fit. Clients choose among their certificates without.
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots(store)?), provider)
                    .clear_root_hint_subjects()
                    .build();
            builder.with_client_cert_verifier(
                verifier.map_err(|_| TlsError::NoTrusted(store.path.clone()))?,
            )
        }
    };
    Ok(builder.with_cert_resolver(Arc::new(Keys(keys))))
}

/// Returns the provider's cipher suites without those that are excluded.
fn provider(excluded: &[String]) -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider.cipher_suites.retain(|suite| {
        // Java's names are those of the standard, rustls' have a version in front for TLS 1.3.
        let name = suite.suite().as_str().unwrap_or_default();
        let name = name.replace("TLS13_", "TLS_");
        !excluded.contains(&name)
    });
    provider
}

/// Returns every key of the key store that has a certificate.
fn keys(config: &TlsConfig) -> Result<Vec<Arc<CertifiedKey>>, TlsError> {
    let path = &config.key_store.path;
    let store = stores::keys(config)?;
    let mut keys = Vec::new();
    for entry in store.keys {
        let alias = entry.alias.clone();
        let key = certified(entry).map_err(|source| TlsError::Key {
            path: path.clone(),
            alias,
            source,
        })?;
        keys.extend(key.map(Arc::new));
    }
    if keys.is_empty() {
        return Err(TlsError::NoKey(path.clone()));
    }
    Ok(keys)
}

/// Returns the key of an entry with its certificates; `None` for an entry without one of both.
fn certified(entry: KeyEntry) -> Result<Option<CertifiedKey>, Error> {
    let KeyEntry {
        private_key: Some(private_key),
        chain,
        ..
    } = entry
    else {
        return Ok(None);
    };
    if chain.is_empty() {
        return Ok(None);
    }
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(private_key.0));
    let key = ring::sign::any_supported_type(&key)?;
    let chain = chain.into_iter().map(|one| CertificateDer::from(one.0));
    let certified = CertifiedKey::new(chain.collect(), key);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(Some(certified)),
        Err(error) => Err(error),
    }
}

/// Returns what clients' certificates are verified by: as in Java, trusted certificates and those
/// of keys (`TrustStoreUtil.getTrustedCerts`).
fn roots(store: &StoreFile) -> Result<RootCertStore, TlsError> {
    let read = stores::trusted(store)?;
    let of_keys = read.keys.into_iter();
    let of_keys = of_keys.filter_map(|entry| entry.chain.into_iter().next());
    let all = read.trusted.into_iter().chain(of_keys);
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(all.map(|one| CertificateDer::from(one.0)));
    if roots.is_empty() {
        return Err(TlsError::NoTrusted(store.path.clone()));
    }
    Ok(roots)
}

/// Keys of a server. A client gets the first that it can verify, as from Java's `SunX509` key
/// manager.
#[derive(Debug)]
struct Keys(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for Keys {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        let suits = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(schemes).is_some();
        self.0.iter().find(suits).cloned()
    }
}
