//! The proof of callers of pages by Kerberos: the library's acceptor judges for the web server.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use gssapi::{Accepted, Acceptor, AcceptorConfig, Library, NotAccepted, read_keytab};
use node_web::site::{KerberosPages, TokenJudge, Verdict};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::timeout;
use web_auth::{Cookies, Failures};
use wire::gssapi::GssError;
use wire::kerberos::with_host;

use crate::config::PageProofConfig;
use crate::node_identity::{self, IdentityError};

/// How long a caller waits for its token to be judged. Keys are read from a file, and no KDC is
/// asked.
const JUDGE_WAIT: Duration = Duration::from_secs(30);

/// Longest secret that is read, in bytes.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// Reason for which callers of pages cannot prove themselves.
#[derive(Debug, Error)]
pub enum PagesError {
    /// The library is missing, or its threads.
    #[error(transparent)]
    Library(#[from] gssapi::StartError),
    /// The library has no default realm.
    #[error(transparent)]
    Realm(#[from] GssError),
    /// The machine has no name.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The secret of cookies cannot be read.
    #[error("reading {path} (hadoop.http.authentication.signature.secret.file)")]
    Secret {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
}

/// Returns the proof of callers that the configuration wants; `None`: their names are believed.
pub(super) async fn kerberos(
    config: Option<&PageProofConfig>,
) -> Result<Option<Arc<KerberosPages>>, PagesError> {
    let Some(config) = config else {
        return Ok(None);
    };
    let host = node_identity::host_of_machine().await?;
    let service = with_host(&config.service, &host);
    warn_of_missing_key(&service, &config.keytab);
    let acceptor = Acceptor::start(AcceptorConfig {
        service: service.clone(),
        keytab: config.keytab.clone(),
    })?;
    let library = Library::load().map_err(gssapi::StartError::from)?;
    let default_realm = library.default_realm()?;
    tracing::info!(%service, "callers of pages prove themselves by Kerberos");
    Ok(Some(Arc::new(KerberosPages {
        judge: Arc::new(Judge(acceptor)),
        rules: config.rules.clone(),
        default_realm,
        cookies: Cookies::new(&secret(config.secret_file.as_deref())?),
        validity: config.validity,
        cookie_attributes: config.cookie_attributes.clone(),
        open_paths: config.open_paths.clone(),
        failures: Failures::default(),
    })))
}

/// Warns of a keytab without the key. It is read for each caller, so a later one may have it.
fn warn_of_missing_key(service: &str, keytab: &Path) {
    let path = keytab.display();
    match read_keytab(keytab) {
        Ok(entries) => {
            let beginning = format!("{service}/");
            let is_own =
                |principal: &str| principal == service || principal.starts_with(&beginning);
            if !entries.iter().any(|entry| is_own(&entry.principal)) {
                tracing::warn!("{path} has no key of {service}: nobody can read the pages");
            }
        }
        Err(error) => tracing::warn!("{path}: {error}: nobody can read the pages"),
    }
}

/// Returns the secret of cookies: the content of the file, its last newline included, so that the
/// nodes that share it know each other's cookies. Without the file a secret of this process.
fn secret(path: Option<&Path>) -> Result<Vec<u8>, PagesError> {
    let of_process = || rand::random::<[u8; 32]>().to_vec();
    let Some(path) = path else {
        return Ok(of_process());
    };
    let error = |source| PagesError::Secret {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            let path = path.display();
            tracing::warn!(
                "there is no {path}: a cookie of this node counts here alone, until it ends"
            );
            return Ok(of_process());
        }
        Err(source) => return Err(error(source)),
    };
    let mut content = Vec::new();
    let read = file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut content);
    match read.map_err(error)? {
        0 => Err(error(io::Error::other("the file is empty"))),
        length if length as u64 > SECRET_BYTES_MAX => {
            Err(error(io::ErrorKind::FileTooLarge.into()))
        }
        _ => Ok(content),
    }
}

struct Judge(Acceptor);

impl TokenJudge for Judge {
    fn judge(&self, token: Vec<u8>) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async {
            let (tell, told) = oneshot::channel();
            // The caller may be gone when the verdict is there.
            let submitted = self
                .0
                .submit(token, move |verdict| drop(tell.send(verdict)));
            if let Err(GssError(why)) = submitted {
                return Verdict::Unavailable(why);
            }
            match timeout(JUDGE_WAIT, told).await {
                Ok(Ok(Ok(Accepted { principal, answer }))) => {
                    Verdict::Accepted { principal, answer }
                }
                Ok(Ok(Err(NotAccepted::Incomplete(answer)))) => Verdict::Incomplete(answer),
                Ok(Ok(Err(NotAccepted::Refused(GssError(why))))) => Verdict::Refused(why),
                Ok(Ok(Err(NotAccepted::NoKey(GssError(why))))) => Verdict::Unavailable(why),
                Ok(Err(_)) => Verdict::Unavailable("the library's threads have ended".to_owned()),
                Err(_) => Verdict::Unavailable(format!("no verdict within {JUDGE_WAIT:?}")),
            }
        })
    }
}
