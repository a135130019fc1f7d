//! Properties to the runtimes of containers (Hadoop: `DelegatingLinuxContainerRuntime`). This agent
//! has one, the plain process.

use hadoop_conf::PropertyReader;

use super::read_security::{ALLOWED_RUNTIMES, RUNTIME_TYPE, unprotected};
use super::read_users::{ExecutorClass, executor_class};
use node_core::{PLAIN, Runtimes};

/// Reads which runtimes containers may ask for. Only `LinuxContainerExecutor` has runtimes.
pub(super) fn runtimes(reader: &mut PropertyReader<'_>) -> Runtimes {
    let allowed = reader.list(ALLOWED_RUNTIMES.name);
    let other = reader.text(RUNTIME_TYPE.name).filter(|text| text != PLAIN);
    let is_plain = |name: &String| name.eq_ignore_ascii_case(PLAIN);
    if executor_class(reader) != Some(ExecutorClass::Linux) {
        let how = "DefaultContainerExecutor runs every container as a plain process, as in Hadoop";
        if other.is_some() {
            reader.otherwise(RUNTIME_TYPE.name, how);
        }
        if !allowed.iter().all(is_plain) {
            reader.otherwise(ALLOWED_RUNTIMES.name, how);
        }
        return Runtimes::Ignored;
    }
    if !allowed.iter().any(is_plain) {
        unprotected(reader, &ALLOWED_RUNTIMES);
    } else if !allowed.iter().all(is_plain) {
        let how = "this agent has the runtime default only: containers that ask for another fail";
        reader.otherwise(ALLOWED_RUNTIMES.name, how);
    }
    if other.is_some() {
        unprotected(reader, &RUNTIME_TYPE);
    }
    Runtimes::PlainOnly
}
