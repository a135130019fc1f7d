//! The application that a client submits. Pure but for the secret's randomness.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use records::{ApplicationId, Resource};
use wire::proto::hadoop_yarn::{ApplicationSubmissionContextProto, ContainerLaunchContextProto};

use crate::spec::{Spec, VARIABLE};
use crate::{MASTER_SUBCOMMAND, quote};

/// What the ResourceManager's pages show as the type, of 20 characters at most.
const APPLICATION_TYPE: &str = "NM-AGENT-SHELL";

/// Times that a master may fail by its own fault. One that was lost with its node does not count, and is started again.
const ATTEMPTS_MAX: i32 = 1;

/// Bytes of a secret's randomness: what a random UUID has.
const SECRET_BYTES: usize = 16;

/// A secret that nobody guesses.
pub(super) fn new_secret() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; SECRET_BYTES]>())
}

/// The submission.
pub(super) fn context(
    id: ApplicationId,
    program: &str,
    spec: &Spec,
) -> ApplicationSubmissionContextProto {
    let command = [program.to_owned(), MASTER_SUBCOMMAND.to_owned()];
    let master = ContainerLaunchContextProto {
        environment: vec![(VARIABLE, spec.encode()).into()],
        command: vec![quote::launch_command(&[].into(), &command)],
        ..ContainerLaunchContextProto::default()
    };
    ApplicationSubmissionContextProto {
        application_id: Some(id.into()),
        application_name: Some(spec.job.name.clone()),
        queue: Some(spec.job.queue.clone()),
        priority: Some(0.into()),
        am_container_spec: Some(master),
        max_app_attempts: Some(ATTEMPTS_MAX),
        resource: Some(Resource::new(spec.job.master_memory_mb, 1).into()),
        application_type: Some(APPLICATION_TYPE.to_owned()),
        ..ApplicationSubmissionContextProto::default()
    }
}
