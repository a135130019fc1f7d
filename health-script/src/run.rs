//! One run of a script, and the verdict on it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use crossbeam_channel::{Receiver, TryRecvError};
use nix::errno::Errno;
use node_script::{Script, ScriptError, Sink};

use crate::output::Output;
use crate::{HealthScript, Verdict};

/// Report on a run that took too long (Hadoop: `NODE_HEALTH_SCRIPT_TIMED_OUT_MSG`).
const TIMED_OUT: &str = "Node health script timed out";

impl Sink for Output {
    fn take(&mut self, bytes: &[u8]) {
        self.add(bytes);
    }
}

/// Runs a script until its end or its deadline. `None`: the agent stops.
pub(crate) fn run(
    script: &HealthScript,
    environment: &BTreeMap<String, String>,
    stopped: &Receiver<Infallible>,
) -> Option<Verdict> {
    let program = Script {
        path: script.path.clone(),
        arguments: script.opts.clone(),
        timeout: Duration::from_millis(script.timeout_ms),
    };
    let is_stopping = || stopped.try_recv() == Err(TryRecvError::Disconnected);
    match program.run(environment, Output::default(), is_stopping) {
        Ok(ended) => {
            // A script with a syntax error must not take all nodes out: in Hadoop, too, one that
            // fails says nothing about the machine.
            let report = ended.stdout.report().filter(|_| ended.status.success());
            Some(report.map_or_else(Verdict::healthy, Verdict::unhealthy))
        }
        Err(ScriptError::TimedOut { .. }) => Some(Verdict::unhealthy(TIMED_OUT.to_owned())),
        Err(ScriptError::Stopped(_)) => None,
        Err(ScriptError::Start { source, .. } | ScriptError::Follow { source, .. }) => {
            Some(cannot_run(script, &source))
        }
    }
}

/// Returns the verdict of Hadoop, whose report begins with the same line and goes on with a stack.
fn cannot_run(script: &HealthScript, error: &io::Error) -> Verdict {
    let path = script.path.display();
    let reason = match error.raw_os_error() {
        Some(number) => format!("error={number}, {}", Errno::from_raw(number).desc()),
        None => error.to_string(),
    };
    Verdict::unhealthy(format!(
        "java.io.IOException: Cannot run program \"{path}\": {reason}"
    ))
}
