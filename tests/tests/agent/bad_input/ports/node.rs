//! A node with limits that listens on each of its ports, and the polite peers of each.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use records::{ApplicationId, ContainerId};
use tempfile::TempDir;
use test_support::LaunchContext;
use test_support::scripted::{IdleScheduler, Launched, ScriptedAm, ScriptedAmRmClient};
use tests::node::NodeKind;
use tests::ports::Port;
use tests::proxy_cluster::{ProxyCluster, SLEEP, wait_launched};
use tests::{http, wait};
use wire::credentials::Credentials;
use wire::proto::hadoop_yarn::AllocateRequestProto;
use wire::token::{MasterKey, Token};

use crate::bad_input::limits::limited_agent;

/// User of the attackers' application.
pub(super) const TENANT: &str = "mallory";

/// Number of the attackers' application.
const TENANT_APPLICATION: i32 = 1;

/// User of the polite peers.
const POLITE_USER: &str = "ann";

/// Number of the polite master's application.
const POLITE_APPLICATION: i32 = 2;

/// Number of the application with a log and a map output.
const JOB_APPLICATION: i32 = 3;

/// Number of the first application that runs a container beside an attack.
const FIRST_APPLICATION: i32 = 10;

/// Deadline of a polite peer, on a machine that is busy building.
const DEADLINE: Duration = Duration::from_secs(60);

const SHUFFLE: &str = "mapreduce_shuffle";

/// Key of the job's hashes.
const JOB_SECRET: &[u8] = b"the secret of a job.";

/// Bytes of the job's map output: more than the kernel buffers for a reducer.
const OUTPUT_BYTES: usize = 4 << 20;

/// A node with a port of every kind. Fields are dropped in this order.
pub(super) struct Node {
    pub(super) cluster: ProxyCluster,
    /// Master that takes no containers and only calls the AMRMProxy.
    polite_master: Mutex<ScriptedAmRmClient>,
    polite_token: Token,
    /// AMRMToken of the attackers' application.
    pub(super) tenant_token: Token,
    /// Container whose log is 1 MiB long.
    pub(super) logged: ContainerId,
    pub(super) web_port: u16,
    pub(super) shuffle_port: u16,
    /// Name of the job with a map output, as in a fetch.
    job: String,
    next_application: AtomicI32,
    _folder: TempDir,
}

impl Node {
    pub(super) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let agent = NodeKind::Agent(limited_agent(folder.path()));
        let shuffle_port = Port::reserve().release();
        let script = IdleScheduler::default().into_script();
        let cluster = ProxyCluster::start(&agent, script, |site| {
            site.set("yarn.nodemanager.aux-services", SHUFFLE)
                .set("mapreduce.shuffle.port", shuffle_port)
                .set("mapreduce.shuffle.connection-keep-alive.enable", true);
        });
        cluster.rm.with(|tracker| tracker.acknowledge_all = true);
        let web_port = cluster.rm.wait_registrations(1).http_port();
        let runtime = cluster.rm.runtime().clone();
        let tenant_token = launch(&cluster, TENANT, TENANT_APPLICATION).token;
        let polite = launch(&cluster, POLITE_USER, POLITE_APPLICATION);
        let polite_token = polite.token.clone();
        let polite_master = runtime.block_on(async {
            let master = ScriptedAmRmClient::connect(cluster.proxy, polite).await;
            master.register().await;
            master
        });
        let am = ScriptedAm::connect_as(POLITE_USER, &cluster.rm, JOB_APPLICATION);
        let logged = am.run("yes | head -c 1048576 > <LOG_DIR>/stdout; exit 0");
        assert_eq!(cluster.rm.wait_completed(logged).exit_status, 0);
        let job = write_output(&cluster, &am);
        Self {
            polite_master: Mutex::new(polite_master),
            polite_token,
            tenant_token,
            logged,
            web_port: web_port.try_into().unwrap(),
            shuffle_port,
            job,
            next_application: AtomicI32::new(FIRST_APPLICATION),
            cluster,
            _folder: folder,
        }
    }

    pub(super) fn admin_socket(&self) -> PathBuf {
        self.cluster.node.folder().join("admin.sock")
    }

    /// Returns the NMToken of the attackers' application.
    pub(super) fn nm_token(&self) -> Token {
        let node = self.cluster.rm.wait_registered();
        let secrets = self.cluster.rm.secrets();
        let application = ApplicationId::new(secrets.rm_identifier, TENANT_APPLICATION);
        secrets.nm_token(application.attempt(1), &node, TENANT)
    }

    /// Connects another user's ApplicationMaster, which runs a container.
    pub(super) fn run_container(&self) {
        let application = self.next_application.fetch_add(1, Ordering::Relaxed);
        let am = ScriptedAm::connect_as(POLITE_USER, &self.cluster.rm, application);
        let id = am.run("true");
        assert_eq!(self.cluster.rm.wait_completed(id).exit_status, 0);
    }

    /// Connects the polite master to the AMRMProxy anew, and makes its next call.
    pub(super) fn allocate(&self) {
        let mut master = self.polite_master.lock().unwrap();
        let runtime = self.cluster.rm.runtime();
        let answer = runtime.block_on(async {
            let token = self.polite_token.clone();
            master.renew(self.cluster.proxy, token).await;
            master.allocate(AllocateRequestProto::default()).await
        });
        answer.unwrap();
    }

    pub(super) fn scrape(&self) {
        for path in ["/health", "/metrics"] {
            let answer = http::get(&format!("http://127.0.0.1:{}{path}", self.web_port)).unwrap();
            assert_eq!(answer.status, 200, "{path}");
        }
    }

    /// Returns the number of refusals of a port for a reason.
    pub(super) fn refusals(&self, port: &str, reason: &str) -> u64 {
        let url = format!("http://127.0.0.1:{}/metrics", self.web_port);
        let text = http::get(&url).unwrap().body;
        let series = format!("nm_agent_refusals_total{{port=\"{port}\",reason=\"{reason}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&series));
        value
            .unwrap_or_else(|| panic!("no {series}"))
            .parse()
            .unwrap()
    }

    /// Returns a fetch of the map output for a reducer: a few bytes for 0, many for 1.
    pub(super) fn fetch(&self, reduce: u32) -> String {
        let target = format!("/mapOutput?job={}&reduce={reduce}&map=map", self.job);
        let port = self.shuffle_port;
        let key = MasterKey::new(0, Bytes::from_static(JOB_SECRET));
        let hash = STANDARD.encode(key.sign(format!("{port}{target}").as_bytes()));
        format!(
            "GET {target} HTTP/1.1\r\nUrlHash: {hash}\r\nname: mapreduce\r\nversion: 1.0.0\r\n\
             Host: h:{port}\r\n\r\n"
        )
    }

    /// Fetches the map output as a reducer does: again after a refusal or a broken connection.
    pub(super) fn reduce(&self) {
        wait::until("a fetch", DEADLINE, || {
            let text = |error: io::Error| error.to_string();
            let mut stream =
                TcpStream::connect((Ipv4Addr::LOCALHOST, self.shuffle_port)).map_err(text)?;
            stream.set_read_timeout(Some(DEADLINE)).map_err(text)?;
            stream.write_all(self.fetch(0).as_bytes()).map_err(text)?;
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).map_err(text)?;
            let answer = String::from_utf8_lossy(&answer).into_owned();
            wait::check(answer == "HTTP/1.1 200", answer)
        });
    }

    /// Asks as an operator does.
    pub(super) fn ask_status(&self) {
        let mut stream = UnixStream::connect(self.admin_socket()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(STATUS).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("{\"ok\":"), "{answer}");
    }
}

/// Request for the state of the node at the admin socket.
pub(super) const STATUS: &[u8] = b"{\"command\":\"status\"}\n";

/// Launches the master of an application of this user.
fn launch(cluster: &ProxyCluster, user: &str, application: i32) -> Launched {
    let am = ScriptedAm::connect_as(user, &cluster.rm, application);
    let mut credentials = Credentials::default();
    let token = cluster.scheduler.token(am.attempt());
    credentials.tokens.insert(String::new(), token);
    let context = LaunchContext::command(SLEEP).tokens(credentials.write_v0().into());
    am.try_start(&am.first().master(), context).unwrap();
    let local_dirs = [cluster.node.local_dir()];
    wait_launched(&local_dirs, am.attempt().application_id).1
}

/// Registers a job with the shuffle and writes a map output of it, with partitions for two
/// reducers. Returns the job's name.
fn write_output(cluster: &ProxyCluster, am: &ScriptedAm) -> String {
    let token = Token {
        identifier: Bytes::new(),
        password: Bytes::from_static(JOB_SECRET),
        kind: "mapreduce.job".to_owned(),
        service: String::new(),
    };
    let mut data = Vec::new();
    token.put_writable(&mut data);
    let context = LaunchContext::command(SLEEP).service_data(SHUFFLE, data.into());
    am.try_start(&am.allocate(), context).unwrap();
    let application = am.attempt().application_id.to_string();
    let caches = cluster.node.local_dir().join("usercache").join(POLITE_USER);
    let folder = caches
        .join("appcache")
        .join(&application)
        .join("output/map");
    fs::create_dir_all(&folder).unwrap();
    let lengths = [8, OUTPUT_BYTES as u64];
    fs::write(folder.join("file.out"), vec![1; 8 + OUTPUT_BYTES]).unwrap();
    let mut index: Vec<u8> = [0, 4, lengths[0], 8, lengths[1] - 4, lengths[1]]
        .iter()
        .flat_map(|number| number.to_be_bytes())
        .collect();
    let checksum = u64::from(crc32fast::hash(&index));
    index.extend(checksum.to_be_bytes());
    fs::write(folder.join("file.out.index"), index).unwrap();
    application.replacen("application_", "job_", 1)
}
