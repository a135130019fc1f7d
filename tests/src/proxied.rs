//! ApplicationMasters whose container only sleeps, and whose part a test plays with the token that the node gave them: so a
//! master of any behaviour speaks through a node's AMRMProxy, ours or Hadoop's.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use records::{ApplicationAttemptId, ContainerId};
use wire::credentials::Credentials;
use wire::token::{Token, kind};

use crate::peer::{LaunchContext, PeerAm, PeerRm};
use crate::simulated::Launched;
use crate::wait;

/// For an AM's container to be launched, on a machine that is busy building.
const LAUNCH_DEADLINE: Duration = Duration::from_secs(90);

/// What a played master's container runs.
pub const SLEEP: &str = "exec sleep 6000";

/// The AMRMTokens in the token file of a container, with the container; `None` while there is no such container below
/// `local_dir` of a node. `is_wanted` is given the id.
#[must_use]
pub fn tokens_of(
    local_dir: &Path,
    is_wanted: &dyn Fn(ContainerId) -> bool,
) -> Option<(ContainerId, Vec<Token>)> {
    for users in folders(&local_dir.join("usercache")) {
        for application in folders(&users.join("appcache")) {
            for folder in folders(&application) {
                let name = folder.file_name().unwrap_or_default().to_string_lossy();
                let Ok(id) = name.parse::<ContainerId>() else {
                    continue;
                };
                if let Some(tokens) = is_wanted(id).then(|| read_tokens(&folder)).flatten() {
                    return Some((id, tokens));
                }
            }
        }
    }
    None
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.is_dir()).collect()
}

/// `None` while the file is being written.
fn read_tokens(folder: &Path) -> Option<Vec<Token>> {
    let file = fs::read(folder.join("container_tokens")).ok()?;
    let credentials = Credentials::read(&file).ok()?;
    let tokens = credentials.tokens.into_values();
    let tokens: Vec<_> = tokens
        .filter(|token| token.kind == kind::AM_RM_TOKEN)
        .collect();
    (!tokens.is_empty()).then_some(tokens)
}

/// Waits until a node has launched the first container of an application's attempt, and takes its place.
///
/// # Panics
/// When that takes too long, or the container has not exactly one AMRMToken.
#[must_use]
#[track_caller]
pub fn wait_launched(
    local_dir: &Path,
    is_attempt: &dyn Fn(ApplicationAttemptId) -> bool,
) -> Launched {
    let (container, mut tokens) = wait::until("a launched master", LAUNCH_DEADLINE, || {
        tokens_of(local_dir, &|id| is_attempt(id.attempt)).ok_or("none")
    });
    assert_eq!(tokens.len(), 1, "{container}: {tokens:?}");
    Launched {
        attempt: container.attempt,
        container,
        token: tokens.remove(0),
    }
}

/// Starts the ApplicationMaster of the application with this number on the node of `rm`, with this token of the
/// ResourceManager in its credentials or without one, and answers with its connection.
///
/// # Panics
/// When the node refuses.
#[track_caller]
pub fn start_master(
    rm: &PeerRm,
    application: i32,
    token_of: impl FnOnce(ApplicationAttemptId) -> Option<Token>,
) -> PeerAm {
    let am = PeerAm::connect(rm, application);
    let attempt = am.attempt();
    let mut credentials = Credentials::default();
    if let Some(token) = token_of(attempt) {
        credentials.tokens.insert(String::new(), token);
    }
    let context = LaunchContext::command(SLEEP).tokens(Bytes::from(credentials.write_v0()));
    let master = am.first().master();
    am.try_start(&master, context)
        .unwrap_or_else(|refusal| panic!("{attempt}: {refusal}"));
    am
}
