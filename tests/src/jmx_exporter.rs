//! The real jmx_exporter, in a virtual machine with the beans that a node shows at `/jmx`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::java;
use crate::maven::{Artifact, Collection};
use crate::ports::Port;
use crate::process::Process;

/// Release of the exporter.
const VERSION: &str = "1.0.1";

const ARTIFACTS: [Artifact; 1] = [Artifact {
    group: "io.prometheus.jmx",
    name: "jmx_prometheus_javaagent",
    version: VERSION,
    is_alone: true,
}];

/// Rule of dashboards for all of Hadoop's daemons: a series is named for daemon and attribute, and
/// labelled with its bean.
const RULES: &str = "lowercaseOutputName: true\n\
    rules:\n\
    - pattern: 'Hadoop<service=(\\w+), name=([^,>]+).*><>(\\w+)'\n  \
      name: hadoop_$1_$3\n  \
      type: GAUGE\n  \
      labels:\n    \
        name: $2\n";

fn collection() -> Collection {
    Collection {
        name: format!("jmx-exporter-{VERSION}"),
        megabytes: 3,
        artifacts: &ARTIFACTS,
    }
}

/// Returns whether the exporter is there, so that neither Maven nor a network is needed.
#[must_use]
pub fn is_cached() -> bool {
    collection().is_cached()
}

/// An exporter on a port of its own.
#[derive(Debug)]
pub struct JmxExporter {
    /// Process of the exporter; killed on drop.
    pub process: Process,
    /// Port with `/metrics`.
    pub port: u16,
}

impl JmxExporter {
    /// Starts an exporter of the node whose pages are at this address, `host:port`. Its files are
    /// in `folder`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(node: &str, folder: &Path) -> Self {
        let port = Port::reserve().release();
        let rules = folder.join(format!("jmx-exporter-{port}.yaml"));
        fs::write(&rules, RULES)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", rules.display()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/BeansOverJmx.java");
        let mut agent = std::ffi::OsString::from("-javaagent:");
        agent.push(agent_jar());
        agent.push(format!("=127.0.0.1:{port}:{}", rules.display()));
        let mut command = java::source_command_with(&[agent], &source);
        command.arg(format!("http://{node}/jmx"));
        let name = format!("jmx-exporter-{port}");
        Self {
            process: Process::start(&name, &mut command, folder),
            port,
        }
    }
}

fn agent_jar() -> PathBuf {
    let name = format!("jmx_prometheus_javaagent-{VERSION}.jar");
    collection().jars().join(name)
}
