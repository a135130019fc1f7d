//! The resources of one test: the right to run a cluster, a folder, ports, and the configuration
//! written from them.

use std::fs::{self, File};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use test_support::current_user;

use crate::conf::{self, NodePorts, Options, Properties, RmPorts};
use crate::ports::Port;
use crate::rm::RmKind;
use crate::{hadoop, java, maven, rm_pair, wait};

/// Folder, below a node's, with the configuration of its containers where it differs.
const CONTAINERS_CONF: &str = "conf-of-containers";

/// File with MapReduce's properties.
const MAPRED_SITE: &str = "mapred-site.xml";

/// Host name of nodes without a network of their own.
pub const LOCALHOST: &str = "localhost";

/// Hadoop's default port of the AMRMProxy.
const AMRM_PROXY_PORT: u16 = 8049;

/// Clusters with Hadoop's ResourceManager that run at once on a machine. Each takes about a
/// gigabyte and mostly waits for heartbeats: on two cores two of them take hardly longer than one,
/// and more miss their deadlines.
const HADOOP_CLUSTERS_MAX: usize = 2;

/// Deadline for other clusters to end: more than any run of tests takes.
const TURN_DEADLINE: Duration = Duration::from_secs(3600);

/// Folder, ports, configuration and turn of one cluster.
#[derive(Debug)]
pub struct Lab {
    folder: PathBuf,
    options: Options,
    core_site: Properties,
    yarn_site: Properties,
    mapred_site: Properties,
    rm_ports: RmPorts,
    user: String,
    // Freed last.
    _turn: Option<File>,
}

impl Lab {
    /// Waits for its turn, makes the folder and writes the configuration of the clients and of the
    /// ResourceManager, which is of kind `rm`.
    ///
    /// # Panics
    /// When the folder cannot be made or Hadoop cannot be downloaded.
    #[must_use]
    pub fn new(rm: &RmKind, options: Options) -> Self {
        let cache = maven::cache_dir();
        // Before the turn is taken: nobody waits for a cluster while this downloads.
        let _ = hadoop::jars();
        let turn = match rm {
            RmKind::Hadoop => Some(wait_turn(&cache)),
            RmKind::Mini(_) => None,
        };
        let folder = tempfile::Builder::new().prefix("nm-agent-lab-").tempdir();
        let folder = folder
            .unwrap_or_else(|error| panic!("cannot create a folder: {error}"))
            .keep();
        let rm_ports = reserve_rm_ports();
        let user = current_user();
        let mut core_site = conf::core_site(&folder, &user);
        core_site.set_all(&options.core_site);
        let yarn_site = conf::yarn_site(&folder, rm_ports, &options);
        for name in ["log", "home", "tmp"] {
            let path = folder.join(name);
            fs::create_dir(&path)
                .unwrap_or_else(|error| panic!("cannot create {}: {error}", path.display()));
        }
        let conf = folder.join("conf");
        conf::write(&conf, &core_site, &yarn_site);
        // The configuration of the job's client: a job carries it.
        let mapred_site = conf::mapred_site(&folder);
        conf::write_file(&conf, MAPRED_SITE, &mapred_site.to_xml());
        write_files(&conf, &options);
        Self {
            folder,
            options,
            core_site,
            yarn_site,
            mapred_site,
            rm_ports,
            user,
            _turn: turn,
        }
    }

    /// Returns the variables that the test adds to the environment of every process.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (&str, &str)> {
        let variables = self.options.environment.iter();
        variables.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the folder that all files of this test lie in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns `HADOOP_CONF_DIR` of the ResourceManager and of clients.
    #[must_use]
    pub fn conf(&self) -> PathBuf {
        self.folder.join("conf")
    }

    /// Returns the folder for the output of processes.
    #[must_use]
    pub fn log_folder(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Returns the home folder of clients: DistributedShell puts its uploads there.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// Returns the ports of this cluster's ResourceManager.
    #[must_use]
    pub const fn rm_ports(&self) -> RmPorts {
        self.rm_ports
    }

    /// Returns the user that the tests run as.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Sets a property of the ResourceManager and of clients, from their next start on. The
    /// configuration of existing nodes does not change.
    pub fn set(&mut self, name: &str, value: impl ToString) {
        self.yarn_site.set(name, value);
        conf::write(&self.conf(), &self.core_site, &self.yarn_site);
    }

    /// Writes the configuration of one of several ResourceManagers into a folder of this name, with
    /// a property of its own, and returns the folder.
    #[must_use]
    pub(crate) fn rm_conf(&self, name: &str, own: (&str, &str)) -> PathBuf {
        let (mut site, conf) = (self.yarn_site.clone(), self.folder.join(name));
        site.set(own.0, own.1);
        conf::write(&conf, &self.core_site, &site);
        conf
    }

    /// Sets a property of MapReduce's clients and history server, from their next start on.
    pub fn set_mapred(&mut self, name: &str, value: impl ToString) {
        self.mapred_site.set(name, value);
        let xml = self.mapred_site.to_xml();
        conf::write_file(&self.conf(), MAPRED_SITE, &xml);
    }

    /// Returns the value of a property of MapReduce; `None`: it has its default.
    #[must_use]
    pub fn mapred(&self, name: &str) -> Option<&str> {
        self.mapred_site.get(name)
    }

    /// Makes this URI the default file system of clients and of the ResourceManager, from their
    /// next start on, and of nodes whose configuration is written later.
    pub fn set_default_fs(&mut self, uri: &str) {
        self.core_site.set("fs.defaultFS", uri);
        conf::write(&self.conf(), &self.core_site, &self.yarn_site);
    }

    /// Writes the configuration of a node called `name`, with ports and folders of its own.
    ///
    /// # Panics
    /// When a file cannot be written.
    #[must_use]
    pub fn node_site(&self, name: &str) -> NodeSite {
        self.node_site_at(name, LOCALHOST, reserve_node_ports(), |_| {})
    }

    /// Writes the configuration of a node on `host`, an address of this machine, after `change`.
    ///
    /// # Panics
    /// When a file cannot be written.
    #[must_use]
    pub fn node_site_changed(
        &self,
        name: &str,
        host: &str,
        change: impl FnOnce(&mut Properties),
    ) -> NodeSite {
        self.node_site_at(name, host, reserve_node_ports(), change)
    }

    /// Writes the configuration of a node that has this address and a network of its own, whose
    /// AMRMProxy listens on Hadoop's default port.
    ///
    /// # Panics
    /// When a file cannot be written.
    #[must_use]
    pub fn node_site_in(&self, name: &str, host: &str) -> NodeSite {
        let ports = NodePorts {
            amrm_proxy: AMRM_PROXY_PORT,
            ..reserve_node_ports()
        };
        self.node_site_at(name, host, ports, |_| {})
    }

    /// Configures nodes and clients to find the ResourceManager at this address of the machine. Its
    /// pages stay at `localhost`.
    pub fn set_rm_host(&mut self, host: &str) {
        let ports = self.rm_ports;
        for (service, port) in [
            ("scheduler.", ports.scheduler),
            ("resource-tracker.", ports.tracker),
            ("", ports.client),
        ] {
            let name = format!("yarn.resourcemanager.{service}address");
            self.set(&name, format!("{host}:{port}"));
        }
    }

    /// Returns the address at which the ResourceManager listens for clients.
    ///
    /// # Panics
    /// When the configured host has no address.
    #[must_use]
    pub fn rm_client_address(&self) -> SocketAddr {
        let address = self.yarn_site.get("yarn.resourcemanager.address");
        let addresses = address.and_then(|address| address.to_socket_addrs().ok());
        let mut addresses = addresses.into_iter().flatten();
        // Hadoop's servers listen by IPv4 only.
        let found = addresses.find(SocketAddr::is_ipv4);
        found.unwrap_or_else(|| panic!("{address:?} is no address"))
    }

    fn node_site_at(
        &self,
        name: &str,
        host: &str,
        ports: NodePorts,
        change: impl FnOnce(&mut Properties),
    ) -> NodeSite {
        let folder = self.folder.join(name);
        let mut site = self.yarn_site.clone();
        conf::node_site(&mut site, host, &folder, ports, &self.options);
        change(&mut site);
        let conf = folder.join("conf");
        conf::write(&conf, &self.core_site, &site);
        // A Java node's shuffle takes MapReduce's defaults for what only `yarn-site.xml` says.
        let mapred_site = site.beginning_with("mapreduce.");
        conf::write_file(&conf, MAPRED_SITE, &mapred_site.to_xml());
        write_files(&conf, &self.options);
        if site.get("yarn.nodemanager.amrmproxy.enabled") == Some("true") {
            // An AM learns of its node's proxy from its own configuration only.
            let mut site = site.clone();
            let proxy = format!("localhost:{}", ports.amrm_proxy);
            for id in rm_pair::IDS {
                let name = format!("yarn.resourcemanager.scheduler.address.{id}");
                if site.get(&name).is_some() {
                    site.set(name, &proxy);
                }
            }
            site.set("yarn.resourcemanager.scheduler.address", proxy);
            conf::write(&folder.join(CONTAINERS_CONF), &self.core_site, &site);
            write_files(&folder.join(CONTAINERS_CONF), &self.options);
        }
        NodeSite {
            name: name.to_owned(),
            host: host.to_owned(),
            folder,
            log_folder: self.log_folder(),
            ports,
            environment: self.options.environment.clone(),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Containers that outlived their node, as after a test that kills it.
        crate::proc::kill_mentioning(&self.folder);
        if std::thread::panicking() {
            eprintln!("what the test left is in {}", self.folder.display());
        } else {
            // A folder that a dying process still writes to is litter, not a failure of the test.
            drop(fs::remove_dir_all(&self.folder));
        }
    }
}

/// Configuration and files of one node.
#[derive(Debug, Clone)]
pub struct NodeSite {
    /// Name of the node in file names.
    pub name: String,
    /// Host name or address that the node listens on.
    pub host: String,
    /// Folder that the node writes in.
    pub folder: PathBuf,
    /// Folder for the output of the node's process.
    pub log_folder: PathBuf,
    /// Ports that the node listens on.
    pub ports: NodePorts,
    /// More variables of the node's process, as name and value.
    pub environment: Vec<(String, String)>,
}

impl NodeSite {
    /// Sets folder and environment of the node's process, with the variables that its containers
    /// need and inherit through the whitelist.
    pub(crate) fn set_environment(&self, command: &mut Command) {
        let home = java::home().unwrap_or_else(|why| panic!("{why}"));
        command
            .env("JAVA_HOME", home)
            .env("HADOOP_CONF_DIR", self.containers_conf())
            // Quick and small ApplicationMasters.
            .env(
                "JAVA_TOOL_OPTIONS",
                "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            )
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.folder);
    }

    /// Returns `HADOOP_CONF_DIR` of the node.
    #[must_use]
    pub fn conf(&self) -> PathBuf {
        self.folder.join("conf")
    }

    /// Returns `HADOOP_CONF_DIR` of the node's containers: the node's own, unless
    /// ApplicationMasters are to find an AMRMProxy at the scheduler's address.
    #[must_use]
    pub fn containers_conf(&self) -> PathBuf {
        let own = self.folder.join(CONTAINERS_CONF);
        if own.is_dir() { own } else { self.conf() }
    }

    /// Returns the folder of `yarn.nodemanager.log-dirs`.
    #[must_use]
    pub fn log_dir(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Returns the folder of `yarn.nodemanager.local-dirs`.
    #[must_use]
    pub fn local_dir(&self) -> PathBuf {
        self.folder.join("local")
    }
}

/// Writes the files that a test adds to each `HADOOP_CONF_DIR`.
fn write_files(conf: &Path, options: &Options) {
    for (name, text) in &options.files {
        conf::write_file(conf, name, text);
    }
}

/// Waits until one of the places for Hadoop's ResourceManager is free, also among processes. The
/// kernel frees a place when its file is closed.
fn wait_turn(cache: &Path) -> File {
    wait::until("a turn", TURN_DEADLINE, || {
        (0..HADOOP_CLUSTERS_MAX)
            .find_map(|place| {
                let path = cache.join(format!("cluster-{place}.lock"));
                maven::try_lock(&path)
            })
            .ok_or("as many clusters as may run")
    })
}

/// Returns free ports for a ResourceManager.
pub(crate) fn reserve_rm_ports() -> RmPorts {
    let [scheduler, tracker, client, admin, web] = reserve();
    RmPorts {
        scheduler,
        tracker,
        client,
        admin,
        web,
    }
}

fn reserve_node_ports() -> NodePorts {
    let [container_management, localizer, web, amrm_proxy] = reserve();
    NodePorts {
        container_management,
        localizer,
        web,
        amrm_proxy,
    }
}

/// Reserves ports that differ. All are held until all are found. Holding them until the server
/// starts would gain little: the next reservation starts behind these.
fn reserve<const N: usize>() -> [u16; N] {
    let ports: [Port; N] = std::array::from_fn(|_| Port::reserve());
    ports.map(Port::release)
}
