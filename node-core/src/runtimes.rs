//! The runtime that a container asks for in its launch context, and what a node makes of it that
//! has plain processes only. Pure.

use std::collections::{BTreeMap, BTreeSet};

use records::ApplicationId;
use thiserror::Error;

/// Variable of a launch context that names the runtime (Hadoop: `ENV_CONTAINER_TYPE`).
const VARIABLE: &str = "YARN_CONTAINER_RUNTIME_TYPE";

/// Hadoop's name of the runtime that is a plain process.
pub const PLAIN: &str = "default";

/// Limit on the characters of a runtime's name in a message. The tenant chooses the name.
const SHOWN_CHARS_MAX: usize = 64;

/// Meaning of the runtime that a container asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runtimes {
    /// None: each container is a plain process (Hadoop: `DefaultContainerExecutor`).
    #[default]
    Ignored,
    /// A container that asks for anything but a plain process fails (Hadoop:
    /// `LinuxContainerExecutor`, where that is all that is allowed).
    PlainOnly,
}

/// Runtime that this node does not have, by the name that a container gave, cut and escaped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "Unable to prepare container: Requested runtime not allowed. {VARIABLE} is {0}, and whatever \
     yarn.nodemanager.runtime.linux.allowed-runtimes lists, this node has the runtime {PLAIN} only"
)]
pub(crate) struct RuntimeNotAllowed(String);

/// Judge of the launches of a node.
#[derive(Debug, Default)]
pub(crate) struct RuntimeChecks {
    runtimes: Runtimes,
    /// Applications whose containers are known to ask for what they do not get.
    warned: BTreeSet<ApplicationId>,
}

impl RuntimeChecks {
    /// Returns a judge that has seen no launch.
    #[must_use]
    pub(crate) fn new(runtimes: Runtimes) -> Self {
        Self {
            runtimes,
            warned: BTreeSet::new(),
        }
    }

    /// Checks the runtime that a launch context asks for. One that is ignored is logged, once for
    /// each application.
    ///
    /// # Errors
    /// Runtime that this node does not have and must not ignore.
    pub(crate) fn check(
        &mut self,
        application: ApplicationId,
        environment: &BTreeMap<String, String>,
    ) -> Result<(), RuntimeNotAllowed> {
        let Some(asked) = asked(environment) else {
            return Ok(());
        };
        match self.runtimes {
            Runtimes::PlainOnly => Err(RuntimeNotAllowed(asked)),
            Runtimes::Ignored => {
                if self.warned.insert(application) {
                    tracing::warn!(
                        application = %application,
                        "{VARIABLE} is {asked}: DefaultContainerExecutor runs the containers as \
                         plain processes on this machine all the same, as in Hadoop"
                    );
                }
                Ok(())
            }
        }
    }

    /// Forgets an application that has ended on this node.
    pub(crate) fn forget(&mut self, application: ApplicationId) {
        self.warned.remove(&application);
    }
}

/// Returns the runtime that an environment asks for, for a message; `None`: a plain process.
fn asked(environment: &BTreeMap<String, String>) -> Option<String> {
    let name = environment.get(VARIABLE)?;
    if name.is_empty() || name == PLAIN {
        return None;
    }
    let shown: String = name.chars().take(SHOWN_CHARS_MAX).collect();
    Some(shown.escape_debug().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> BTreeMap<String, String> {
        [(VARIABLE.to_owned(), name.to_owned())].into()
    }

    fn application(number: i32) -> ApplicationId {
        ApplicationId::new(1, number)
    }

    #[test]
    fn a_plain_process_is_what_hadoop_takes_for_one() {
        let mut checks = RuntimeChecks::new(Runtimes::PlainOnly);
        let application = application(1);
        assert_eq!(checks.check(application, &BTreeMap::new()), Ok(()));
        for plain in ["", "default"] {
            assert_eq!(checks.check(application, &environment(plain)), Ok(()));
        }
        for other in ["docker", "runc", "javasandbox", "DEFAULT", " default", "x"] {
            let refused = checks.check(application, &environment(other)).unwrap_err();
            let text = refused.to_string();
            assert!(
                text.contains("Requested runtime not allowed.") && text.contains(other),
                "{text}"
            );
        }
    }

    #[test]
    fn a_name_that_a_tenant_chose_stays_short_and_on_its_line() {
        let mut checks = RuntimeChecks::new(Runtimes::PlainOnly);
        let name = format!("a\nb{}", "x".repeat(1 << 20));
        let refused = checks.check(application(1), &environment(&name));
        let text = refused.unwrap_err().to_string();
        assert!(text.len() < 400 && !text.contains('\n'), "{text}");
    }

    #[test]
    fn one_application_that_asks_is_warned_of_once_and_forgotten_at_its_end() {
        let mut checks = RuntimeChecks::new(Runtimes::Ignored);
        let (one, two) = (application(1), application(2));
        for asking in [one, one, two] {
            assert_eq!(checks.check(asking, &environment("docker")), Ok(()));
        }
        assert_eq!(checks.warned, [one, two].into());
        checks.forget(one);
        assert_eq!(checks.warned, [two].into());
    }
}
