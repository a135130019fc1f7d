//! Properties to the host of services that are Java classes, and what the machine lacks for one.

use std::path::PathBuf;

use hadoop_conf::site_xml::Origin;
use hadoop_conf::{Expected, PropertyReader};

use super::aux_services::{AuxHostConfig, HostedConfig};

const JAR: &str = "yarn.nodemanager.agent.aux-services.host-jar";
const JAVA_HOME: &str = "yarn.nodemanager.agent.aux-services.host-java-home";
const OPTIONS: &str = "yarn.nodemanager.agent.aux-services.host-java-options";
const HEAP: &str = "yarn.nodemanager.agent.aux-services.host-heap-mb";
const CLASS_PATH: &str = "yarn.nodemanager.agent.aux-services.host-classpath";
const REQUIRED: &str = "yarn.nodemanager.agent.aux-services.host-required";

/// Least heap in mebibytes: Hadoop's classes with one small service.
const HEAP_MIN_MB: u32 = 32;

/// Reads the settings of the host, whether or not one is needed.
pub(super) fn host(reader: &mut PropertyReader<'_>) -> AuxHostConfig {
    let java_home = resolved(reader, JAVA_HOME);
    AuxHostConfig {
        java: PathBuf::from(java_home).join("bin/java"),
        jar: PathBuf::from(resolved(reader, JAR)),
        class_path: resolved(reader, CLASS_PATH),
        heap_mb: reader.u32(HEAP, HEAP_MIN_MB),
        options: {
            let options = reader.text(OPTIONS).unwrap_or_default();
            options.split_whitespace().map(str::to_owned).collect()
        },
        is_required: reader.flag(REQUIRED),
        properties: Vec::new(),
    }
}

/// Returns the value, empty if it names what the environment does not have.
fn resolved(reader: &mut PropertyReader<'_>, name: &str) -> String {
    let text = reader.text(name).unwrap_or_default();
    if text.contains("${") {
        String::new()
    } else {
        text
    }
}

/// Returns what the machine lacks for a host, each with what to do.
pub(super) fn obstacles(host: &AuxHostConfig) -> Vec<String> {
    let mut obstacles = Vec::new();
    if !host.jar.is_file() {
        let jar = host.jar.display();
        obstacles.push(format!(
            "{JAR} ({jar}) is no file: java/aux-host/build of nm-agent's sources makes it, which the \
             packages have as /usr/share/nm-agent/aux-host/build"
        ));
    }
    if !host.java.is_absolute() {
        obstacles.push(format!("neither {JAVA_HOME} nor JAVA_HOME is set"));
    } else if !host.java.is_file() {
        let java = host.java.display();
        obstacles.push(format!("there is no Java at {java} ({JAVA_HOME})"));
    }
    if host.class_path.is_empty() {
        obstacles.push(format!(
            "neither {CLASS_PATH} nor HADOOP_HOME is set: the host needs Hadoop's jars"
        ));
    }
    obstacles
}

/// Returns what files set, expanded: what a service finds in its configuration over Hadoop's
/// defaults. A value that cannot be expanded is told of elsewhere.
pub(super) fn properties(reader: &PropertyReader<'_>) -> Vec<(String, String)> {
    let properties = reader.properties();
    let set = properties.names().filter(|name| {
        properties
            .origin(name)
            .is_some_and(|it| *it != Origin::Default)
    });
    let expanded = set.filter_map(|name| {
        let value = properties.get(name).ok()??;
        Some((name.to_owned(), value.text))
    });
    expanded.collect()
}

/// Reads how a service's class is loaded.
pub(super) fn hosted(reader: &mut PropertyReader<'_>, name: &str) -> HostedConfig {
    let property = |what| format!("yarn.nodemanager.aux-services.{name}.{what}");
    let class_path = reader.text(&property("classpath")).unwrap_or_default();
    let remote = property("remote-classpath");
    if reader.text(&remote).is_some() {
        let rule = "copy the file to the node, and name it in the service's classpath";
        reader.problem(&remote, Expected::Unsupported(rule));
    }
    HostedConfig {
        class_path,
        system_classes: reader.list(&property("system-classes")),
        ..HostedConfig::default()
    }
}
