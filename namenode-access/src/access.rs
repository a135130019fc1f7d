//! The access of one process: its secret, and the ways to NameNodes.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hadoop_fs::{KeytabLogin, NameService, SecureAccess, Way};
use records::error_chain;
use tokio::runtime::Handle;
use wire::credentials::Credentials;
use wire::kerberos::ServerPrincipal;
use wire::token::Token;
use wire::token::kind::HDFS_DELEGATION_TOKEN as KIND;

use crate::handshake::{Method, refusal, token_refusal};
use crate::relay::{self, Policy};
use crate::secret_file::SecretFile;
use crate::tokens::{NoToken, token_for};
use crate::{SECRET_MAX, TOKEN_FILE};

/// Ways of one process at most: a job reads from a few file systems, and each way has a socket.
const WAYS_MAX: usize = 64;

/// Descriptors of the secret files.
const TOKENS: i32 = 100;
const KEYTAB: i32 = 101;

/// Prefix of the service of a logical name's token (`HAUtilClient.buildTokenServiceForLogicalUri`).
const LOGICAL: &str = "ha-hdfs:";

const PRINCIPAL: &str = "dfs.namenode.kerberos.principal";
const PATTERN: &str = "dfs.namenode.kerberos.principal.pattern";

/// How a process proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By the tokens of an application, which are the process's secret.
    Tokens,
    /// By the keytab of this principal; the keytab is the secret.
    Keytab {
        /// Principal, with its host.
        principal: String,
    },
}

/// Access of this process to NameNodes. One for a process, which has but one token file.
pub struct Access {
    shared: Arc<Shared>,
    ways: Mutex<Ways>,
}

#[derive(Default)]
struct Ways {
    /// Thread of the relays, once there is one.
    thread: Option<Handle>,
    by_service: BTreeMap<NameService, Way>,
}

struct Shared {
    proof: Proof,
    /// Principal that NameNodes must have.
    server: Option<ServerPrincipal>,
    tokens: SecretFile,
    keytab: SecretFile,
    secret: Mutex<Secret>,
}

#[derive(Default)]
struct Secret {
    /// Credentials of the application; else the reason why they are of no use.
    credentials: Option<Result<Credentials, String>>,
    /// Names of ways, each with the services of a token for it.
    services: BTreeMap<String, Vec<String>>,
}

impl Access {
    /// Returns the access of a process that has no secret yet. `properties` are those of the HDFS
    /// client.
    ///
    /// # Errors
    /// The descriptors of the secret files are taken.
    pub fn new(proof: Proof, properties: &[(String, String)]) -> io::Result<Self> {
        let property = |name: &str| {
            let found = properties.iter().rev().find(|(key, _)| key == name);
            found.map(|(_, value)| value.clone())
        };
        let exact = || property(PRINCIPAL).map(ServerPrincipal::Exact);
        let server = property(PATTERN)
            .map(ServerPrincipal::Pattern)
            .or_else(exact);
        let shared = Shared {
            proof,
            server,
            tokens: SecretFile::new(TOKENS),
            keytab: SecretFile::new(KEYTAB),
            secret: Mutex::default(),
        };
        // Takes their descriptors before others do.
        shared.write_tokens(&shared.secret())?;
        shared.keytab.replace(&[])?;
        Ok(Self {
            shared: Arc::new(shared),
            ways: Mutex::default(),
        })
    }

    /// Takes a secret, which replaces the one before: connections that are made from now on use
    /// it.
    ///
    /// # Errors
    /// The kernel has no memory or no descriptor for it. Credentials that cannot be read are no
    /// error here: connections are refused with the reason.
    pub fn take(&self, secret: &[u8]) -> io::Result<()> {
        if secret.len() > SECRET_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        match &self.shared.proof {
            Proof::Keytab { .. } => self.shared.keytab.replace(secret),
            Proof::Tokens => {
                let read = Credentials::read(secret)
                    .map_err(|error| format!("the application's tokens: {}", error_chain(&error)));
                let mut state = self.shared.secret();
                state.credentials = Some(read);
                self.shared.write_tokens(&state)
            }
        }
    }
}

impl SecureAccess for Access {
    fn way(&self, service: &NameService) -> io::Result<Way> {
        let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(way) = ways.by_service.get(service) {
            return Ok(way.clone());
        }
        if ways.by_service.len() >= WAYS_MAX {
            let text = format!("more than {WAYS_MAX} file systems for one application");
            return Err(io::Error::other(text));
        }
        let thread = match &ways.thread {
            Some(thread) => thread.clone(),
            None => ways.thread.insert(relay::start_thread()?).clone(),
        };
        let number = ways.by_service.len();
        let name = match &service.name {
            Some(name) => name.clone(),
            // No logical name is like it: a host's name has no underscore.
            None => format!("name_node_{number}"),
        };
        let policy = Arc::new(OneName {
            shared: Arc::clone(&self.shared),
            name: name.clone(),
        });
        let open = |address: &String| relay::open(&thread, address.clone(), Arc::clone(&policy));
        let addresses = service.addresses.iter().map(open);
        let addresses = addresses.collect::<io::Result<Vec<SocketAddr>>>()?;
        let login = match &self.shared.proof {
            Proof::Tokens => {
                self.shared.add_name(&name, services_of(service))?;
                None
            }
            Proof::Keytab { principal } => Some(KeytabLogin {
                principal: principal.clone(),
                keytab: format!("FILE:{}", self.shared.keytab.path()),
            }),
        };
        let way = Way {
            name,
            addresses,
            login,
        };
        ways.by_service.insert(service.clone(), way.clone());
        Ok(way)
    }
}

/// Returns the services that a token for NameNodes may have, the one for people first. Asks the
/// name service.
fn services_of(service: &NameService) -> Vec<String> {
    if let Some(name) = &service.name {
        return vec![format!("{LOGICAL}{name}")];
    }
    let mut services = service.addresses.clone();
    for address in &service.addresses {
        // `hadoop.security.token.service.use_ip` decides who names it how.
        let found = address.to_socket_addrs().into_iter().flatten();
        services.extend(found.map(|address| address.to_string()));
    }
    services
}

impl Shared {
    fn secret(&self) -> MutexGuard<'_, Secret> {
        self.secret.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_name(&self, name: &str, services: Vec<String>) -> io::Result<()> {
        let mut state = self.secret();
        state.services.insert(name.to_owned(), services);
        self.write_tokens(&state)
    }

    /// Writes the file that the library reads, with a token for each name that has one.
    fn write_tokens(&self, state: &Secret) -> io::Result<()> {
        let mut chosen = Credentials::default();
        for name in state.services.keys() {
            if let Ok(token) = state.token(name) {
                let service = format!("{LOGICAL}{name}");
                let token = Token {
                    service: service.clone(),
                    ..token.clone()
                };
                chosen.tokens.insert(service, token);
            }
        }
        debug_assert_eq!(self.tokens.path(), TOKEN_FILE);
        self.tokens.replace(&chosen.write_v0())
    }
}

impl Secret {
    /// Returns the token for a name, or why there is none.
    fn token(&self, name: &str) -> Result<&Token, String> {
        let credentials = match &self.credentials {
            Some(Ok(credentials)) => credentials,
            Some(Err(reason)) => return Err(reason.clone()),
            None => return Err(format!("the application has no tokens, and so no {KIND}")),
        };
        let services = self.services.get(name).map(Vec::as_slice);
        let found = token_for(credentials, services.unwrap_or_default(), now_ms());
        found.map_err(|error: NoToken| error_chain(&error))
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

/// Policy towards the NameNodes of one name.
struct OneName {
    shared: Arc<Shared>,
    name: String,
}

impl Policy for OneName {
    fn method(&self, server: IpAddr) -> Result<Method, Bytes> {
        match self.shared.proof {
            Proof::Tokens => Ok(Method::Token),
            Proof::Keytab { .. } => {
                let Some(principal) = self.shared.server.clone() else {
                    let text =
                        format!("{PRINCIPAL} is not set: no NameNode can be told from another");
                    return Err(refusal(&text));
                };
                Ok(Method::Kerberos {
                    server: principal,
                    host: gssapi::canonical_host(server),
                })
            }
        }
    }

    fn refused(&self) -> Option<Bytes> {
        let is_by_token = self.shared.proof == Proof::Tokens;
        let state = is_by_token.then(|| self.shared.secret())?;
        let reason = state.token(&self.name).err()?;
        Some(token_refusal(&reason))
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Access").field(&self.shared.proof).finish()
    }
}
