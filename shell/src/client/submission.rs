//! Submission context of a job's application. Pure except for the secret's randomness.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use records::{ApplicationId, Resource};
use role_history::opt_in::{GUARANTEED_VARIABLE, POLICY_VARIABLE, SERVICE_VARIABLE};
use wire::proto::hadoop_yarn::{ApplicationSubmissionContextProto, ContainerLaunchContextProto};

use crate::job::JobError;
use crate::job::TEXT_BYTES_MAX;
use crate::spec::{Spec, VARIABLE};
use crate::{MASTER_SUBCOMMAND, quote};

/// Application type on the ResourceManager's pages, of 20 characters at most.
const APPLICATION_TYPE: &str = "NM-AGENT-SHELL";

/// Limit on attempts in which the AM itself fails. An AM that was lost with its node does not count
/// and is started again.
const ATTEMPTS_MAX: i32 = 1;

/// Length of a secret's randomness in bytes: that of a random UUID.
const SECRET_BYTES: usize = 16;

/// Returns a new random secret.
pub(super) fn new_secret() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; SECRET_BYTES]>())
}

/// Returns the submission. Fails when the job does not fit into the AM's environment.
pub(super) fn context(
    id: ApplicationId,
    program: &str,
    spec: &Spec,
) -> Result<ApplicationSubmissionContextProto, JobError> {
    let text = spec.encode();
    if text.len() > TEXT_BYTES_MAX {
        return Err(JobError::TooLong { bytes: text.len() });
    }
    let command = [program.to_owned(), MASTER_SUBCOMMAND.to_owned()];
    let mut environment = vec![(VARIABLE, text).into()];
    if let Some(history) = &spec.job.role_history {
        environment.push((SERVICE_VARIABLE, history.service.clone()).into());
        if history.guaranteed {
            environment.push((GUARANTEED_VARIABLE, "true".to_owned()).into());
        }
        let policy = history.policy.iter().cloned();
        environment.extend(policy.map(|policy| (POLICY_VARIABLE, policy).into()));
    }
    let master = ContainerLaunchContextProto {
        environment,
        command: vec![quote::launch_command(&[].into(), &command)],
        ..ContainerLaunchContextProto::default()
    };
    Ok(ApplicationSubmissionContextProto {
        application_id: Some(id.into()),
        application_name: Some(spec.job.name.clone()),
        queue: Some(spec.job.queue.clone()),
        priority: Some(0.into()),
        am_container_spec: Some(master),
        max_app_attempts: Some(ATTEMPTS_MAX),
        resource: Some(Resource::new(spec.job.master_memory_mb, 1).into()),
        application_type: Some(APPLICATION_TYPE.to_owned()),
        ..ApplicationSubmissionContextProto::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Patience;
    use crate::job::{Job, RoleHistoryOptIn};

    fn submitted(word: String) -> Result<ApplicationSubmissionContextProto, JobError> {
        submitted_job(Job::new(vec![word]))
    }

    fn submitted_job(job: Job) -> Result<ApplicationSubmissionContextProto, JobError> {
        let spec = Spec {
            job,
            user: "u".to_owned(),
            schedulers: vec!["rm:1".to_owned()],
            patience: Patience::default(),
            protections: Vec::new(),
            secret: new_secret(),
        };
        let id = ApplicationId::new(1, 1);
        context(id, "/a b/nm-agent", &spec)
    }

    #[test]
    fn the_master_is_this_program_whatever_its_path() {
        let context = submitted("true".to_owned()).unwrap();
        let master = context.am_container_spec.unwrap();
        let expected = r#"exec -- '/a b/nm-agent' 'shell-master' 1>\"<LOG_DIR>/stdout\" 2>\"<LOG_DIR>/stderr\""#;
        assert_eq!(master.command, [expected]);
    }

    #[test]
    fn the_masters_environment_opts_in_to_a_role_history() {
        let variables = |role_history| {
            let job = Job {
                role_history,
                ..Job::new(vec!["true".to_owned()])
            };
            let master = submitted_job(job).unwrap().am_container_spec.unwrap();
            let variables = master.environment.into_iter();
            let variables = variables.map(|pair| (pair.key.unwrap(), pair.value.unwrap()));
            variables
                .filter(|(name, _)| name != VARIABLE)
                .collect::<Vec<_>>()
        };
        let opt_in = |guaranteed, policy: Option<&str>| {
            Some(RoleHistoryOptIn {
                service: "search".to_owned(),
                guaranteed,
                policy: policy.map(str::to_owned),
            })
        };
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let service = variable("NM_AGENT_ROLE_HISTORY", "search");
        let guaranteed = variable("NM_AGENT_ROLE_HISTORY_GUARANTEED", "true");
        assert_eq!(variables(None), []);
        let policy = variable("NM_AGENT_ROLE_HISTORY_POLICY", "1=strict");
        let all = [service, guaranteed, policy];
        assert_eq!(variables(opt_in(false, None)), all[..1]);
        assert_eq!(variables(opt_in(true, None)), all[..2]);
        assert_eq!(variables(opt_in(true, Some("1=strict"))), all);
    }

    #[test]
    fn a_job_that_does_not_fit_into_a_variable_is_refused() {
        // Each character takes six characters of JSON.
        let word = "\u{1}".repeat(crate::job::COMMAND_BYTES_MAX / 2);
        assert!(matches!(submitted(word), Err(JobError::TooLong { .. })));
    }

    #[test]
    fn no_two_secrets_are_the_same() {
        assert_ne!(new_secret(), new_secret());
    }
}
