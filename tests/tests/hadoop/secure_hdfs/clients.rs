//! File workers of an agent at a real NameNode: what their proofs are good for, and which NameNodes
//! they refuse.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use file_worker::{COMMAND, Identity, Pool, PoolConfig, Program, Proof, Secret, Security};
use hadoop_fs::{Caller, FileSystem, FsConfig, FsError, Opener as _, Uri};
use test_support::realm::REALM;
use tests::hdfs::Hdfs;
use tests::require;
use users::Account;
use wire::credentials::Credentials;
use wire::token::Token;

use super::SecureHdfs;
use crate::AGENT;
use crate::interop::secure::Secure;

/// Protection of calls and data.
const LEVEL: &str = "privacy";

/// Limit on a step, on a machine that is busy building.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// Workers whose secret the test changes.
struct Workers {
    pool: Pool,
    secret: Arc<Mutex<Option<Secret>>>,
}

impl Workers {
    /// Returns workers with this proof, of clients with further properties.
    fn new(secure: &Secure, proof: Proof, levels: &[(&str, &str)]) -> Self {
        let is_other_user = users::obstacles().is_empty();
        let secret: Arc<Mutex<Option<Secret>>> = Arc::default();
        let current = Arc::clone(&secret);
        let mut properties = super::of_clients(LEVEL);
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        properties.push(owned(&("hadoop.security.authentication", "Kerberos")));
        properties.extend(levels.iter().map(owned));
        let pool = Pool::new(PoolConfig {
            program: Program {
                path: AGENT.into(),
                arguments: vec![COMMAND.into()],
            },
            file_systems: FsConfig {
                client_properties: properties,
                step_limit: STEP_LIMIT,
                ..FsConfig::default()
            },
            // Like the users that it works for, nobody can open no file of this test.
            account_of: Box::new(move |_| is_other_user.then(|| Arc::new(Account::anybody()))),
            security: Some(Security {
                identity_of: Box::new(move |_| {
                    Ok(Identity {
                        proof: proof.clone(),
                        secret: current.lock().unwrap().clone(),
                    })
                }),
                kerberos_file: Some(secure.realm.configuration().into()),
            }),
        });
        Self { pool, secret }
    }

    /// Gives all workers another secret.
    fn give(&self, secret: &[u8]) {
        *self.secret.lock().unwrap() = Some(Secret(secret.into()));
    }

    fn open(&self, uri: &str, caller: Caller<'_>) -> Box<dyn FileSystem> {
        let uri: Uri = uri.parse().unwrap();
        self.pool.open(&uri, caller).unwrap()
    }

    /// Returns why a user's worker cannot read the status of alice's home.
    #[track_caller]
    fn refused(&self, uri: &str) -> FsError {
        let files = self.open(uri, Caller::user("alice", "application_1_0001"));
        files.status("/user/alice").unwrap_err()
    }
}

fn read(files: &dyn FileSystem, path: &str) -> Result<Vec<u8>, FsError> {
    let mut content = Vec::new();
    let read = files.open(path)?.read_to_end(&mut content);
    read.unwrap();
    Ok(content)
}

fn write(files: &dyn FileSystem, path: &str, content: &[u8]) -> Result<(), FsError> {
    let mut file = files.create(path, 0o640, false)?;
    file.write_all(content).unwrap();
    file.close()
}

/// Returns credentials after a change of their one token.
fn changed(credentials: &[u8], change: impl Fn(&mut Token)) -> Vec<u8> {
    let mut credentials = Credentials::read(credentials).unwrap();
    credentials.tokens.values_mut().for_each(change);
    credentials.write_v0()
}

#[test]
fn workers_prove_themselves_to_a_real_name_node() {
    require!(java, hadoop, kerberos);
    let secure = Secure::new();
    let folder = tempfile::tempdir().unwrap();
    let hdfs = SecureHdfs::start(&secure, folder.path(), LEVEL);
    let bob = secure.realm.keytab("bob.keytab", &["bob"]);
    let bob = secure.realm.ticket(&bob, "bob");
    let alices = hdfs.hdfs.token(&secure.ticket);
    tokens_are_of_their_user(&secure, &hdfs, &alices, &hdfs.hdfs.token(&bob));
    tokens_are_renewed(&secure, &hdfs, &alices);
    what_is_no_good_token_is_refused(&secure, &hdfs, &alices);
    a_keytab_is_for_the_configured_name_node(&secure, &hdfs);
    let folder = tempfile::tempdir().unwrap();
    a_name_node_without_proofs_is_refused(&secure, &Hdfs::start(folder.path()), &alices);
}

fn tokens_are_of_their_user(secure: &Secure, hdfs: &SecureHdfs, alices: &[u8], bobs: &[u8]) {
    let uri = hdfs.hdfs.uri();
    let content = vec![7; 3 << 20];
    let alice = Workers::new(secure, Proof::Tokens, &[]);
    alice.give(alices);
    // The name in the call is not what the NameNode believes.
    let files = alice.open(&uri, Caller::user("bob", "application_1_0001"));
    write(&*files, "/user/alice/secret", &content).unwrap();
    assert_eq!(read(&*files, "/user/alice/secret").unwrap(), content);
    assert_eq!(files.status("/user/alice/secret").unwrap().owner, "alice");
    let bob = Workers::new(secure, Proof::Tokens, &[]);
    bob.give(bobs);
    let files = bob.open(&uri, Caller::user("alice", "application_1_0002"));
    let denied = read(&*files, "/user/alice/secret").unwrap_err();
    assert!(matches!(denied, FsError::Denied { .. }), "{denied}");
    assert!(denied.to_string().contains("user=bob"), "{denied}");
    // A worker that goes on gets the tokens of its application, as they are then.
    bob.give(alices);
    let files = bob.open(&uri, Caller::user("alice", "application_1_0002"));
    assert_eq!(read(&*files, "/user/alice/secret").unwrap(), content);
}

/// A session that goes on gets tokens that come meanwhile.
fn tokens_are_renewed(secure: &Secure, hdfs: &SecureHdfs, alices: &[u8]) {
    let work = "application_1_0001";
    let workers = Workers::new(secure, Proof::Tokens, &[]);
    let files = workers.open(&hdfs.hdfs.uri(), Caller::user("alice", work));
    assert!(files.status("/user/alice").is_err());
    let secret = Secret(alices.into());
    workers.pool.renew("application_1_0002", &secret);
    assert!(
        files.status("/user/alice").is_err(),
        "of another application"
    );
    workers.pool.renew(work, &secret);
    files.status("/user/alice").unwrap();
}

fn what_is_no_good_token_is_refused(secure: &Secure, hdfs: &SecureHdfs, alices: &[u8]) {
    let uri = hdfs.hdfs.uri();
    let workers = Workers::new(secure, Proof::Tokens, &[]);
    let text = workers.refused(&uri).to_string();
    assert!(text.contains("the application has no tokens"), "{text}");
    let other = changed(alices, |token| token.service = "192.0.2.1:8020".to_owned());
    let mut many = b"HDTS\0".to_vec();
    wire::writable::put_vlong(&mut many, 100_000);
    let mut long = b"HDTS\0\x01\x01a".to_vec();
    long.extend([0x88, 0x7f, 255, 255, 255, 255, 255, 255, 255]);
    for (secret, words) in [
        (other, "no HDFS_DELEGATION_TOKEN for localhost:"),
        (alices[..alices.len() / 2].to_vec(), "broken entry"),
        (long, "broken entry"),
        (many, "100000 entries, limit"),
        (b"nothing".to_vec(), "Bad header found in token storage."),
        (
            changed(alices, |token| token.identifier = vec![0, 127].into()),
            "is malformed",
        ),
        (
            changed(alices, |token| token.password = vec![1; 20].into()),
            "DIGEST-MD5",
        ),
    ] {
        workers.give(&secret);
        let text = workers.refused(&uri).to_string();
        assert!(text.contains(words), "{text}");
    }
    let cancelled = hdfs.hdfs.token(&secure.ticket);
    workers.give(&cancelled);
    hdfs.hdfs.cancel(&secure.ticket, &cancelled);
    let refused = workers.refused(&uri);
    assert!(refused.to_string().contains("InvalidToken"), "{refused}");
    // The worker lives, and a good token is good.
    workers.give(alices);
    let files = workers.open(&uri, Caller::user("alice", "application_1_0001"));
    assert!(files.status("/user/alice").is_ok());
}

fn a_keytab_is_for_the_configured_name_node(secure: &Secure, hdfs: &SecureHdfs) {
    let uri = hdfs.hdfs.uri();
    let keytab = std::fs::read(secure.keytab()).unwrap();
    let proof = || Proof::Keytab {
        principal: format!("nm/localhost@{REALM}"),
    };
    let node = Workers::new(secure, proof(), &[]);
    node.give(&keytab);
    let files = node.open(&uri, Caller::own("root", "application_1_0001"));
    files.make_dirs("/tmp/logs", 0o1777).unwrap();
    write(&*files, "/tmp/logs/a", b"content").unwrap();
    assert_eq!(read(&*files, "/tmp/logs/a").unwrap(), b"content");
    assert_eq!(files.status("/tmp/logs").unwrap().owner, "yarn");
    let denied = files.list("/user/alice", 10).unwrap_err();
    assert!(denied.to_string().contains("user=yarn"), "{denied}");
    let logins = secure.realm.logins();
    let files = node.open(&uri, Caller::own("root", "application_1_0002"));
    assert!(files.status("/tmp").is_ok());
    assert_eq!(secure.realm.logins(), logins, "one login serves all work");
    let principal = ("dfs.namenode.kerberos.principal", "hdfs/_HOST@NODES.TEST");
    let other = Workers::new(secure, proof(), &[principal]);
    other.give(&keytab);
    let text = other.refused(&uri).to_string();
    let expected = "Server has invalid Kerberos principal: nn/localhost, expecting: \
                    hdfs/localhost@NODES.TEST";
    assert!(text.contains(expected), "{text}");
}

fn a_name_node_without_proofs_is_refused(secure: &Secure, hdfs: &Hdfs, alices: &[u8]) {
    let _ = hdfs.write("/user/alice", b"");
    let service = hdfs.uri().replace("hdfs://localhost", "127.0.0.1");
    let tokens = changed(alices, |token| token.service.clone_from(&service));
    let keytab = std::fs::read(secure.keytab()).unwrap();
    let principal = format!("nm/localhost@{REALM}");
    // It offers TOKEN before SIMPLE.
    let lacks = "Client cannot authenticate via:[TOKEN, SIMPLE]: it has nothing but KERBEROS";
    for (proof, secret, words) in [
        (Proof::Tokens, tokens, "InvalidToken"),
        (Proof::Keytab { principal }, keytab, lacks),
    ] {
        let workers = Workers::new(secure, proof, &[]);
        workers.give(&secret);
        let text = workers.refused(&hdfs.uri()).to_string();
        assert!(text.contains(words), "{text}");
    }
}
