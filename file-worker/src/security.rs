//! How workers prove themselves in a secure cluster.

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

use hadoop_fs::Caller;
use namenode_access::{Proof, TOKEN_FILE};

/// Variable with the path of Kerberos' configuration.
const KRB5_CONFIG: &str = "KRB5_CONFIG";

/// Bytes by which a worker proves itself: an application's credentials, or a keytab.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Arc<[u8]>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// Identity of a caller towards the NameNodes of a secure cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// How its worker proves itself. Callers that prove themselves by a keytab share a worker.
    pub proof: Proof,
    /// Tokens or keytab; `None`: there are none yet.
    pub secret: Option<Secret>,
}

/// Function that returns the identity of a caller, or why it has none. May block.
pub type IdentityOf = Box<dyn Fn(Caller<'_>) -> Result<Identity, String> + Send + Sync>;

/// How workers prove themselves in a secure cluster.
pub struct Security {
    /// Identities of callers.
    pub identity_of: IdentityOf,
    /// Path of Kerberos' configuration, for workers with a keytab; `None`: the library's own.
    pub kerberos_file: Option<OsString>,
}

impl Security {
    /// Returns the whole environment of a worker.
    pub(crate) fn environment_of(&self, proof: Option<&Proof>) -> Vec<(&'static str, OsString)> {
        match proof {
            None => Vec::new(),
            // The HDFS client would look for tickets of its account, which are not its to use.
            Some(Proof::Tokens) => vec![
                ("HADOOP_TOKEN_FILE_LOCATION", TOKEN_FILE.into()),
                (KRB5_CONFIG, "/dev/null".into()),
            ],
            Some(Proof::Keytab { .. }) => {
                let file = self.kerberos_file.clone();
                file.map(|file| (KRB5_CONFIG, file)).into_iter().collect()
            }
        }
    }
}
