//! Configuration of a cluster in a test's folder: Hadoop's files, written from maps of properties.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Properties by name, as one of Hadoop's XML files holds them.
#[derive(Debug, Clone, Default)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    /// Returns the value of a property.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets one property, replacing an earlier value.
    pub fn set(&mut self, name: impl Into<String>, value: impl ToString) -> &mut Self {
        self.0.insert(name.into(), value.to_string());
        self
    }

    /// Sets each property of `others`.
    pub fn set_all<'a>(
        &mut self,
        others: impl IntoIterator<Item = &'a (String, String)>,
    ) -> &mut Self {
        for (name, value) in others {
            self.set(name, value);
        }
        self
    }

    /// Returns the properties whose name begins with `prefix`.
    #[must_use]
    pub fn beginning_with(&self, prefix: &str) -> Self {
        let all = self.0.iter().filter(|(name, _)| name.starts_with(prefix));
        Self(
            all.map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        )
    }

    /// Returns Hadoop's XML form.
    #[must_use]
    pub fn to_xml(&self) -> String {
        let mut xml = String::from("<?xml version=\"1.0\"?>\n<configuration>\n");
        for (name, value) in &self.0 {
            let (name, value) = (escape(name), escape(value));
            writeln!(
                xml,
                "  <property><name>{name}</name><value>{value}</value></property>"
            )
            .expect("writing to a string does not fail");
        }
        xml.push_str("</configuration>\n");
        xml
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Place of the ResourceManager's state store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateStore {
    /// No place: recovery is off.
    None,
    /// In files of the test's folder, so that a killed ResourceManager can be started again.
    FileSystem,
}

/// Differences between the clusters of different tests. The defaults make a small, quick cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// Memory that each node offers, in MiB.
    pub node_memory_mb: u32,
    /// Virtual cores that each node offers. Many by default, so that memory alone decides what
    /// fits: the ResourceManager's scheduler looks at memory only, but a node also counts virtual
    /// cores.
    pub node_vcores: u32,
    /// Whether the ResourceManager allocates opportunistic containers (central allocation).
    pub central_opportunistic: bool,
    /// Longest queue of opportunistic containers on a node; 0 rejects all.
    pub queue_length_max: u32,
    /// Bounds of the queue length that the ResourceManager orders: lowest and highest.
    pub queue_limits: (u32, u32),
    /// Interval that the ResourceManager orders for the heartbeats of nodes, in milliseconds.
    pub heartbeat_ms: u32,
    /// Milliseconds without a heartbeat after which a node is lost.
    pub node_expiry_ms: u32,
    /// State store of the ResourceManager.
    pub state_store: StateStore,
    /// More properties for the `yarn-site.xml` of every process, as name and value.
    pub yarn_site: Vec<(String, String)>,
    /// More properties for the `core-site.xml` of every process, as name and value.
    pub core_site: Vec<(String, String)>,
    /// More variables for the environment of every process, as name and value.
    pub environment: Vec<(String, String)>,
    /// More files for the `HADOOP_CONF_DIR` of every process, as name and text.
    pub files: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            node_memory_mb: 2048,
            node_vcores: 64,
            central_opportunistic: true,
            queue_length_max: 20,
            queue_limits: (20, 20),
            heartbeat_ms: 200,
            node_expiry_ms: 60_000,
            state_store: StateStore::None,
            yarn_site: Vec::new(),
            core_site: Vec::new(),
            environment: Vec::new(),
            files: Vec::new(),
        }
    }
}

impl Options {
    /// Adds a property to the `yarn-site.xml` of every process.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.yarn_site.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds a property to the `core-site.xml` of every process.
    #[must_use]
    pub fn with_core(mut self, name: &str, value: impl ToString) -> Self {
        self.core_site.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds a variable to the environment of every process that is not a container.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: impl ToString) -> Self {
        self.environment.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds a file of properties to the `HADOOP_CONF_DIR` of every process.
    #[must_use]
    pub fn with_file(mut self, name: &str, properties: &Properties) -> Self {
        self.files.push((name.to_owned(), properties.to_xml()));
        self
    }
}

/// Ports of a ResourceManager.
#[derive(Debug, Clone, Copy)]
pub struct RmPorts {
    /// Scheduler port, for ApplicationMasters (8030).
    pub scheduler: u16,
    /// ResourceTracker port, for nodes (8031).
    pub tracker: u16,
    /// Client port (8032).
    pub client: u16,
    /// Administration port (8033).
    pub admin: u16,
    /// Port of pages and REST (8088).
    pub web: u16,
}

/// Ports of a node.
#[derive(Debug, Clone, Copy)]
pub struct NodePorts {
    /// ContainerManagement port, for ApplicationMasters (8041); part of the node's id.
    pub container_management: u16,
    /// Localizer port of the Java NodeManager (8040).
    pub localizer: u16,
    /// Port of pages and REST (8042).
    pub web: u16,
    /// AMRMProxy port (8049).
    pub amrm_proxy: u16,
}

/// Returns `core-site.xml`: all file systems are this machine's.
#[must_use]
pub fn core_site(folder: &Path, user: &str) -> Properties {
    let mut site = Properties::default();
    site.set("fs.defaultFS", "file:///")
        .set("hadoop.tmp.dir", folder.join("tmp").display())
        // The name of an anonymous caller of the REST pages.
        .set("hadoop.http.staticuser.user", user);
    site
}

/// Returns the properties of `yarn-site.xml` that all processes of the cluster share.
#[must_use]
pub fn yarn_site(folder: &Path, ports: RmPorts, options: &Options) -> Properties {
    let mut site = Properties::default();
    let at = |port: u16| format!("localhost:{port}");
    site.set("yarn.resourcemanager.hostname", "localhost")
        .set(
            "yarn.resourcemanager.scheduler.address",
            at(ports.scheduler),
        )
        .set(
            "yarn.resourcemanager.resource-tracker.address",
            at(ports.tracker),
        )
        .set("yarn.resourcemanager.address", at(ports.client))
        .set("yarn.resourcemanager.admin.address", at(ports.admin))
        .set("yarn.resourcemanager.webapp.address", at(ports.web))
        // So that a restarted ResourceManager is found soon; the default is 30 s.
        .set("yarn.resourcemanager.connect.retry-interval.ms", 500)
        .set(
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms",
            options.heartbeat_ms,
        )
        .set(
            "yarn.nm.liveness-monitor.expiry-interval-ms",
            options.node_expiry_ms,
        )
        // An ApplicationMaster that dies fails its test, instead of being started again.
        .set("yarn.resourcemanager.am.max-attempts", 1)
        .set("yarn.scheduler.minimum-allocation-mb", 128)
        .set(
            "yarn.application.classpath",
            format!("$HADOOP_CONF_DIR,{}/*", crate::hadoop::jars().display()),
        )
        // By default a folder that all ResourceManagers of the machine share.
        .set(
            "yarn.node-attribute.fs-store.root-dir",
            format!("file://{}", folder.join("node-attributes").display()),
        );
    opportunistic(&mut site, options);
    recovery(&mut site, folder, options.state_store);
    site.set_all(&options.yarn_site);
    site
}

fn opportunistic(site: &mut Properties, options: &Options) {
    let queuing = "yarn.resourcemanager.nm-container-queuing";
    site.set(
        "yarn.resourcemanager.opportunistic-container-allocation.enabled",
        options.central_opportunistic,
    )
    .set(
        format!("{queuing}.sorting-nodes-interval-ms"),
        options.heartbeat_ms,
    )
    .set(
        format!("{queuing}.min-queue-length"),
        options.queue_limits.0,
    )
    .set(
        format!("{queuing}.max-queue-length"),
        options.queue_limits.1,
    )
    .set(
        "yarn.nodemanager.opportunistic-containers-max-queue-length",
        options.queue_length_max,
    );
}

fn recovery(site: &mut Properties, folder: &Path, store: StateStore) {
    match store {
        StateStore::None => {
            site.set("yarn.resourcemanager.recovery.enabled", false);
        }
        StateStore::FileSystem => {
            site.set("yarn.resourcemanager.recovery.enabled", true)
                .set(
                    "yarn.resourcemanager.store.class",
                    "org.apache.hadoop.yarn.server.resourcemanager.recovery.FileSystemRMStateStore",
                )
                .set(
                    "yarn.resourcemanager.fs.state-store.uri",
                    format!("file://{}", folder.join("rm-state").display()),
                )
                // The one node of a test is back soon; the default gives the nodes of a large
                // cluster 10 s.
                .set(
                    "yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms",
                    1000,
                );
        }
    }
}

/// Returns `mapred-site.xml`: small ApplicationMasters, and every folder below the test's.
#[must_use]
pub fn mapred_site(folder: &Path) -> Properties {
    let mut site = Properties::default();
    site.set("mapreduce.framework.name", "yarn")
        .set(
            "mapreduce.application.classpath",
            format!("{}/*", crate::hadoop::jars().display()),
        )
        .set(
            "yarn.app.mapreduce.am.staging-dir",
            folder.join("staging").display(),
        )
        .set("yarn.app.mapreduce.am.resource.mb", 512)
        .set("yarn.app.mapreduce.am.command-opts", "-Xmx256m")
        .set("mapreduce.map.memory.mb", 256)
        .set("mapreduce.reduce.memory.mb", 256)
        // A busy machine makes a task slow, and a second attempt of it shows in the job's history.
        .set("mapreduce.map.speculative", false)
        .set("mapreduce.reduce.speculative", false);
    site
}

/// Adds the properties of one node to the shared `yarn-site.xml`. Its folders lie under `folder`.
pub fn node_site(
    site: &mut Properties,
    host: &str,
    folder: &Path,
    ports: NodePorts,
    options: &Options,
) {
    let at = |port: u16| format!("{host}:{port}");
    // For the node's own ApplicationMasters only.
    let amrm_proxy = format!("localhost:{}", ports.amrm_proxy);
    site.set("yarn.nodemanager.hostname", host)
        .set("yarn.nodemanager.address", at(ports.container_management))
        .set("yarn.nodemanager.localizer.address", at(ports.localizer))
        .set("yarn.nodemanager.webapp.address", at(ports.web))
        .set("yarn.nodemanager.amrmproxy.address", amrm_proxy)
        .set(
            "yarn.nodemanager.local-dirs",
            folder.join("local").display(),
        )
        .set("yarn.nodemanager.log-dirs", folder.join("logs").display())
        .set(
            "yarn.nodemanager.recovery.dir",
            folder.join("recovery").display(),
        )
        .set(
            "yarn.nodemanager.agent.admin.socket",
            folder.join("admin.sock").display(),
        )
        .set(
            "yarn.nodemanager.resource.memory-mb",
            options.node_memory_mb,
        )
        .set("yarn.nodemanager.resource.cpu-vcores", options.node_vcores)
        // An ApplicationMaster's JVM exceeds the little memory that a test asks for it.
        .set("yarn.nodemanager.pmem-check-enabled", false)
        .set("yarn.nodemanager.vmem-check-enabled", false)
        // A machine that builds may have full disks.
        .set(
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage",
            100,
        )
        .set(
            "yarn.nodemanager.env-whitelist",
            "JAVA_HOME,HADOOP_CONF_DIR,JAVA_TOOL_OPTIONS",
        )
        .set_all(&options.yarn_site);
}

/// Returns `capacity-scheduler.xml`: one queue with all resources, of which ApplicationMasters may
/// use nearly all.
#[must_use]
pub fn capacity_scheduler() -> Properties {
    let mut site = Properties::default();
    site.set("yarn.scheduler.capacity.root.queues", "default")
        .set("yarn.scheduler.capacity.root.default.capacity", 100)
        // The default lets no ApplicationMaster start on a small node.
        .set("yarn.scheduler.capacity.maximum-am-resource-percent", 0.9);
    site
}

/// Returns the logging configuration of Hadoop's processes, ApplicationMasters included: to
/// standard error, with the time in milliseconds.
const LOG4J: &str = "log4j.rootLogger=INFO,stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
";

/// Writes a `HADOOP_CONF_DIR`.
///
/// # Panics
/// When a file cannot be written.
pub fn write(conf: &Path, core_site: &Properties, yarn_site: &Properties) {
    fs::create_dir_all(conf)
        .unwrap_or_else(|error| panic!("cannot create {}: {error}", conf.display()));
    write_file(conf, "core-site.xml", &core_site.to_xml());
    write_file(conf, "yarn-site.xml", &yarn_site.to_xml());
    write_file(
        conf,
        "capacity-scheduler.xml",
        &capacity_scheduler().to_xml(),
    );
    write_file(conf, "log4j.properties", LOG4J);
}

/// Writes one more file of an existing `HADOOP_CONF_DIR`.
///
/// # Panics
/// When the file cannot be written.
pub fn write_file(conf: &Path, name: &str, text: &str) {
    let path = conf.join(name);
    fs::write(&path, text)
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_value_is_escaped() {
        let mut site = Properties::default();
        site.set("a", "1 < 2 & 3");
        assert!(
            site.to_xml()
                .contains("<name>a</name><value>1 &lt; 2 &amp; 3</value>"),
            "{}",
            site.to_xml()
        );
    }

    #[test]
    fn a_property_set_twice_has_its_last_value() {
        let mut site = Properties::default();
        site.set("a", 1)
            .set_all(&[("a".to_owned(), "2".to_owned())]);
        assert_eq!(site.to_xml().matches("<value>").count(), 1);
        assert!(site.to_xml().contains("<value>2</value>"));
    }
}
