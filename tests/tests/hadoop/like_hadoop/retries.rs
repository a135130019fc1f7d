//! Retry policies: which failures are tried again, and what status and diagnostics say of them.

use test_support::LaunchContext;
use tests::wait;
use wire::proto::hadoop_yarn::{ContainerRetryContextProto, ContainerRetryPolicyProto};

use super::twins::{DEADLINE, Twin, Twins, once};

/// Returns a context with this retry policy, which waits as briefly as the node allows.
fn retried(
    command: &str,
    policy: ContainerRetryPolicyProto,
    codes: &[i32],
    max_retries: i32,
) -> LaunchContext {
    let mut context = LaunchContext::command(command).into_proto();
    context.container_retry_context = Some(ContainerRetryContextProto {
        retry_policy: Some(policy.into()),
        error_codes: codes.to_vec(),
        max_retries: Some(max_retries),
        ..ContainerRetryContextProto::default()
    });
    context.into()
}

pub(super) fn retries(twins: &mut Twins) {
    use ContainerRetryPolicyProto::{NeverRetry, RetryOnAllErrors, RetryOnSpecificErrorCodes};
    let count = "echo try >> tries; wc -l < tries > <LOG_DIR>/tries";
    let cases = [
        ("each error, twice", RetryOnAllErrors, vec![], 2, "exit 7"),
        ("no retry allowed", RetryOnAllErrors, vec![], 0, "exit 7"),
        ("never", NeverRetry, vec![], 5, "exit 7"),
        (
            "its error code",
            RetryOnSpecificErrorCodes,
            vec![3, 7],
            1,
            "exit 7",
        ),
        (
            "another error code",
            RetryOnSpecificErrorCodes,
            vec![3],
            1,
            "exit 7",
        ),
        ("a signal", RetryOnAllErrors, vec![], 1, "kill -9 \\$\\$"),
        (
            "success at last",
            RetryOnAllErrors,
            vec![],
            -1,
            "[ -e again ] && exit 0; touch again; exit 4",
        ),
    ];
    for (number, (scenario, policy, codes, max, command)) in (40..).zip(cases) {
        twins.compare(scenario, |twin| {
            let command = format!("{count}; {command}");
            let context = retried(&command, policy, &codes, max);
            let end = once(&twin.end_of(number, context));
            let folder = twin.log_folder(twin.am.attempt().container(number));
            let tries = std::fs::read_to_string(folder.join("tries"));
            format!("{end}\ntries: {}", tries.unwrap_or_default())
        });
    }
    twins.compare("a container that waits for its retry", status_while_waiting);
}

/// Returns the status of a container that waits for its retry. No stop is compared: a Java node
/// lets the stop wait for the retry.
fn status_while_waiting(twin: &Twin) -> String {
    let policy = ContainerRetryPolicyProto::RetryOnAllErrors;
    let mut context = retried("exit 5", policy, &[], 1).into_proto();
    if let Some(retry) = &mut context.container_retry_context {
        retry.retry_interval = Some(600_000);
    }
    let id = twin.start_number(60, context.into());
    let status = wait::until("the first failure", DEADLINE, || {
        let mut status = twin.am.status(id).unwrap();
        // Too quick for a Java node to name the machine.
        status.container_attributes.clear();
        if status.exit_status() == 5 {
            Ok(status)
        } else {
            Err(status.exit_status())
        }
    });
    let (code, rest) = twin.rest(&format!("/containers/{id}"));
    let state = &rest["container"]["state"];
    format!("{status:#?}\n{code} {state}")
}
