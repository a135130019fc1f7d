//! Containers of several users on one node, which tries each to reach what is another's: files,
//! processes, the agent.
//!
//! The users are two of those that every Debian system has. Each test needs the right to run
//! processes as other users.

mod archives;
mod crashes;
mod ends;
mod files;
mod first_containers;
mod hdfs_peers;
mod left_on_disk;
mod processes;
mod shared_places;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::User;
use records::ContainerId;
use test_support::LaunchContext;
use test_support::scripted::ScriptedAm;
use test_support::skip;
use tests::conf::Properties;
use tests::scripted_cluster::ScriptedCluster;

use crate::AGENT;

/// User whose containers try what they should not.
const ATTACKER: &str = "games";
/// User whose containers are attacked.
const VICTIM: &str = "daemon";
/// User that runs no containers by the node's rules.
const BANNED: &str = "sync";

const CLASS: &str = "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor";

/// A node whose containers run as their users.
struct Tenants {
    attacker: ScriptedAm,
    victim: ScriptedAm,
    cluster: ScriptedCluster,
}

impl Tenants {
    /// Starts the node after changes of its `yarn-site.xml`. `None`: this test may not run
    /// processes as other users, which is printed.
    fn start_with(test: &str, change: impl FnOnce(&mut Properties)) -> Option<Self> {
        Self::start_program(test, AGENT, change)
    }

    /// Starts the node with this program as the agent.
    fn start_program(
        test: &str,
        program: &str,
        change: impl FnOnce(&mut Properties),
    ) -> Option<Self> {
        if let Some(obstacle) = users::obstacles().first() {
            skip::skip(test, obstacle);
            return None;
        }
        let cluster = ScriptedCluster::start_with(program, |site| {
            site.set("yarn.nodemanager.container-executor.class", CLASS)
                .set(
                    "yarn.nodemanager.linux-container-executor.nonsecure-mode.limit-users",
                    false,
                );
            let local = site.get("yarn.nodemanager.local-dirs").map(PathBuf::from);
            let folder = local.as_deref().and_then(Path::parent);
            let folder = folder.expect("the configuration has a local folder");
            // Users must be able to reach their folders.
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(folder, mode).expect("the folder is ours");
            let conf = folder.join("conf");
            fs::create_dir_all(&conf).expect("the folder is writable");
            let rules = format!(
                "allowed.system.users={ATTACKER},{VICTIM},{BANNED}\nbanned.users={BANNED}\n"
            );
            let written = fs::write(conf.join("container-executor.cfg"), rules);
            written.expect("the folder is writable");
            change(site);
        });
        Some(Self {
            attacker: ScriptedAm::connect_as(ATTACKER, &cluster.rm, 2),
            victim: ScriptedAm::connect_as(VICTIM, &cluster.rm, 3),
            cluster,
        })
    }

    fn start(test: &str) -> Option<Self> {
        Self::start_with(test, |_| {})
    }

    /// Writes a script that every user may read and returns the command that runs it, with its
    /// output in the log file `out`.
    fn script(&self, name: &str, text: &str) -> String {
        let path = self.cluster.node.folder().join(name);
        fs::write(&path, text).expect("the folder is writable");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, mode).expect("the file is ours");
        format!("bash {} > <LOG_DIR>/out 2>&1", path.display())
    }

    /// Runs a script in a container of this master to its end and returns the output.
    #[track_caller]
    fn output(&self, am: &ScriptedAm, name: &str, text: &str) -> String {
        let id = am.run(&self.script(name, text));
        let completed = self.cluster.rm.wait_completed(id);
        let output = self.cluster.log(id, "out");
        assert_eq!(completed.exit_status, 0, "{completed:?}\n{output}");
        output
    }

    /// Starts a container of this master with this context and waits for its end; returns exit
    /// status and diagnostics.
    #[track_caller]
    fn end_of(&self, am: &ScriptedAm, context: LaunchContext) -> (i32, String) {
        let started = am.try_start(&am.allocate(), context);
        let id = started.expect("the container starts");
        let completed = self.cluster.rm.wait_completed(id);
        (completed.exit_status, completed.diagnostics)
    }

    /// Returns the work folder of a container.
    fn work_dir(&self, user: &str, id: ContainerId) -> PathBuf {
        let application = id.application_id().to_string();
        let user = self.cluster.node.local_dir().join("usercache").join(user);
        user.join("appcache").join(application).join(id.to_string())
    }

    /// Returns the log folder of a container.
    fn log_dir(&self, id: ContainerId) -> PathBuf {
        let application = id.application_id().to_string();
        self.cluster
            .node
            .log_dir()
            .join(application)
            .join(id.to_string())
    }
}

fn account(name: &str) -> User {
    let found = User::from_name(name).expect("accounts can be looked up");
    found.unwrap_or_else(|| panic!("no account {name}"))
}
