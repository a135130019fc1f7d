//! A real HDFS: one NameNode and one DataNode of Hadoop, on ports and folders of their own.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hadoop_fs::{Caller, FileSystem, FileSystems, FsConfig};
use serde_json::Value;
use test_support::current_user;

use crate::conf::{self, Properties};
use crate::lab::Lab;
use crate::ports::Port;
use crate::process::Process;
use crate::{http, java, wait};

const NAME_NODE: &str = "org.apache.hadoop.hdfs.server.namenode.NameNode";
const DATA_NODE: &str = "org.apache.hadoop.hdfs.server.datanode.DataNode";

/// Class of `hdfs dfs`.
const SHELL: &str = "org.apache.hadoop.fs.FsShell";

/// Class of `hdfs fetchdt`.
const FETCHER: &str = "org.apache.hadoop.hdfs.tools.DelegationTokenFetcher";

/// Heap of each process.
const HEAP_MB: u32 = 256;

/// Deadline for two JVMs' starts, on a machine that is busy building.
const START_DEADLINE: Duration = Duration::from_secs(180);

/// A NameNode and its DataNode. Dropping it kills both.
#[derive(Debug)]
pub struct Hdfs {
    /// Process of the NameNode.
    pub name_node: Process,
    /// Process of the DataNode.
    pub data_node: Process,
    port: u16,
    web: u16,
    user: String,
    conf: PathBuf,
    folder: PathBuf,
    environment: Vec<(String, String)>,
}

/// Differences of an HDFS from the usual one of the tests.
#[derive(Debug, Clone, Default)]
pub struct Differences {
    /// More properties of both processes and of the shell.
    pub site: Vec<(String, String)>,
    /// More variables of their environment.
    pub environment: Vec<(String, String)>,
}

impl Hdfs {
    /// Formats and starts an HDFS in a new folder within `folder` and waits until it can be written
    /// to. The user of the tests is its superuser.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn start(folder: &Path) -> Self {
        Self::start_with(folder, Differences::default())
    }

    /// Starts an HDFS as [`Self::start`] does, with these differences.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn start_with(folder: &Path, differences: Differences) -> Self {
        let folder = folder.join("hdfs");
        let Differences { site, environment } = differences;
        let ports: [Port; 5] = std::array::from_fn(|_| Port::reserve());
        let [rpc, web, data, data_web, data_ipc] = ports.map(Port::release);
        let conf = write_conf(&folder, rpc, web, [data, data_web, data_ipc], &site);
        let log_folder = folder.join("log");
        let start = |name: &str, class: &str, arguments: &[&str]| {
            let mut command = java::command(&conf, class, HEAP_MB);
            command.args(arguments).current_dir(&folder);
            command.envs(environment.iter().map(|(name, value)| (name, value)));
            Process::start(name, &mut command, &log_folder)
        };
        let mut format = start("format", NAME_NODE, &["-format", "-nonInteractive"]);
        let formatted = format.wait_exit(START_DEADLINE);
        assert!(formatted.success(), "{}", format.log());
        let (name_node, data_node) = (
            start("name-node", NAME_NODE, &[]),
            start("data-node", DATA_NODE, &[]),
        );
        let hdfs = Self {
            name_node,
            data_node,
            port: rpc,
            web,
            user: current_user(),
            conf,
            folder,
            environment,
        };
        wait::until("a DataNode at the NameNode", START_DEADLINE, || {
            let state = state(web)?;
            let is_ready = state["NumLiveDataNodes"] == 1 && state["FSState"] == "Operational";
            wait::check(is_ready, state.to_string())
        });
        hdfs
    }

    /// Starts an HDFS that is the default file system of the lab's clients, and of its nodes and
    /// ResourceManager if they start later.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn start_for(lab: &mut Lab) -> Self {
        let hdfs = Self::start(lab.folder());
        lab.set_default_fs(&hdfs.uri());
        hdfs
    }

    /// Runs `hdfs dfs` with these variables and arguments. Returns whether it succeeded, and what
    /// it printed.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn shell(&self, variables: &[(&str, &str)], arguments: &[&str]) -> (bool, String) {
        self.run(SHELL, variables, arguments)
    }

    /// Gets a token of a user who has a ticket, by `hdfs fetchdt`, and returns the file with it.
    ///
    /// # Panics
    /// When the NameNode gives none.
    #[must_use]
    pub fn token(&self, ticket: &str) -> Vec<u8> {
        let file = self.folder.join("token");
        // A file that exists is left as it is.
        drop(fs::remove_file(&file));
        let path = file.display().to_string();
        let ticket = [("KRB5CCNAME", ticket)];
        let (succeeded, printed) = self.run(FETCHER, &ticket, &["--renewer", "yarn", &path]);
        assert!(succeeded, "{printed}");
        fs::read(&file).unwrap_or_else(|error| panic!("no token, {error}: {printed}"))
    }

    /// Cancels a token of a user who has a ticket.
    ///
    /// # Panics
    /// When the NameNode refuses.
    pub fn cancel(&self, ticket: &str, token: &[u8]) {
        let file = self.folder.join("cancelled");
        fs::write(&file, token)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
        let path = file.display().to_string();
        let ticket = [("KRB5CCNAME", ticket)];
        let (succeeded, printed) = self.run(FETCHER, &ticket, &["--cancel", &path]);
        assert!(succeeded, "{printed}");
    }

    fn run(&self, class: &str, variables: &[(&str, &str)], arguments: &[&str]) -> (bool, String) {
        let mut command = java::command(&self.conf, class, HEAP_MB);
        command.args(arguments).current_dir(&self.folder);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let output = command.envs(variables.iter().copied()).output();
        let output = output.unwrap_or_else(|error| panic!("hdfs dfs does not run: {error}"));
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        (output.status.success(), printed)
    }

    /// Returns the URI of the file system, without a path.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("hdfs://localhost:{}", self.port)
    }

    /// Returns the port of the NameNode.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the files, for their owner.
    ///
    /// # Panics
    /// When the NameNode does not answer.
    #[must_use]
    pub fn files(&self) -> Box<dyn FileSystem> {
        let file_systems = FileSystems::new(FsConfig::default());
        let uri = self.uri().parse().expect("the URI of a test is one");
        let opened = file_systems.open(&uri, Caller::user(&self.user, "test"));
        opened.unwrap_or_else(|error| panic!("cannot open {}: {error}", self.uri()))
    }

    /// Writes a file that all users may read, with the folders above it. Returns its modification
    /// time in milliseconds since 1970.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, path: &str, content: &[u8]) -> i64 {
        let written = || -> Result<i64, Box<dyn std::error::Error>> {
            let files = self.files();
            if let Some((folder, _)) = path.rsplit_once('/') {
                files.make_dirs(folder, 0o755)?;
            }
            let mut file = files.create(path, 0o644, false)?;
            file.write_all(content)?;
            file.close()?;
            Ok(files.status(path)?.modified_ms)
        };
        written().unwrap_or_else(|error| panic!("cannot write {path}: {error}"))
    }

    /// Returns the status of a file or folder as the NameNode's REST shows it (`FileStatus` of
    /// WebHDFS), which has more than [`hadoop_fs::Status`].
    ///
    /// # Panics
    /// When there is no such file.
    #[must_use]
    pub fn rest_status(&self, path: &str) -> Value {
        let query = format!("op=GETFILESTATUS&user.name={}", self.user);
        let url = format!("http://localhost:{}/webhdfs/v1{path}?{query}", self.web);
        let mut answer = http::get_json(&url).unwrap_or_else(|error| panic!("{error}"));
        answer["FileStatus"].take()
    }

    /// Reads a whole file.
    ///
    /// # Panics
    /// When it cannot be read.
    #[must_use]
    pub fn read(&self, path: &str) -> Vec<u8> {
        let read = || -> Result<Vec<u8>, Box<dyn std::error::Error>> {
            let mut file = self.files().open(path)?;
            let mut content = Vec::new();
            file.read_to_end(&mut content)?;
            Ok(content)
        };
        read().unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
    }
}

/// Writes the configuration of both processes and returns its folder, which is also the root of the
/// pages: the published artifact has none, and neither process starts without their folders.
fn write_conf(
    folder: &Path,
    rpc: u16,
    web: u16,
    data: [u16; 3],
    more: &[(String, String)],
) -> PathBuf {
    let at = |port: u16| format!("localhost:{port}");
    let mut core_site = Properties::default();
    core_site
        .set("fs.defaultFS", format!("hdfs://{}", at(rpc)))
        .set("hadoop.tmp.dir", folder.join("tmp").display())
        .set_all(more);
    let mut hdfs_site = Properties::default();
    hdfs_site
        .set("dfs.namenode.http-address", at(web))
        .set("dfs.datanode.address", at(data[0]))
        .set("dfs.datanode.http.address", at(data[1]))
        .set("dfs.datanode.ipc.address", at(data[2]))
        .set("dfs.replication", 1)
        // A machine that builds may have full disks.
        .set("dfs.namenode.resource.du.reserved", 0)
        .set("dfs.heartbeat.interval", 1)
        // What Hadoop's defaults for HDFS have would win over `core-site.xml`.
        .set_all(more);
    let conf = folder.join("conf");
    conf::write(&conf, &core_site, &Properties::default());
    conf::write_file(&conf, "hdfs-site.xml", &hdfs_site.to_xml());
    let below = ["log", "tmp", "conf/webapps/hdfs", "conf/webapps/datanode"];
    for path in below.map(|name| folder.join(name)) {
        fs::create_dir_all(&path)
            .unwrap_or_else(|error| panic!("cannot create {}: {error}", path.display()));
    }
    conf
}

/// Returns what the NameNode says of itself.
fn state(web: u16) -> Result<Value, String> {
    let query = "Hadoop:service=NameNode,name=FSNamesystemState";
    let mut answer = http::get_json(&format!("http://localhost:{web}/jmx?qry={query}"))?;
    let state = answer["beans"].get_mut(0).map(Value::take);
    state.ok_or_else(|| "it has no state yet".to_owned())
}
