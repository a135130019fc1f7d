//! HDFS as the file system of resources and role histories: a real NameNode and DataNode.

#![expect(
    clippy::unwrap_used,
    reason = "bodies of tests are tests too: a panic is a failed test"
)]

mod role_history;

use nix::sys::signal::Signal;
use test_support::LaunchContext;
use test_support::scripted::Completed;
use tests::cluster::{Cluster, JOB_DEADLINE, SLOT_MB};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::hdfs::Hdfs;
use tests::lab::Lab;
use tests::node::Node;
use tests::node_process::node_kind;
use tests::require;
use tests::rm::{ResourceManager, RmKind};
use tests::scripted_cluster::ScriptedCluster;
use wire::proto::hadoop_yarn::{LocalResourceTypeProto, LocalResourceVisibilityProto};

use crate::AGENT;

/// Exit status that Hadoop reports when localization fails (`ContainerExitStatus.INVALID`).
const LOCALIZATION_FAILED: i32 = -1000;

/// Limit on a call of the NameNode, in milliseconds: time for a busy machine, and short enough to
/// wait for.
const RPC_TIMEOUT_MS: u32 = 8000;

#[test]
fn jobs_whose_default_file_system_is_hdfs_succeed() {
    require!(java, hadoop);
    let rm = RmKind::Hadoop;
    let mut lab = Lab::new(
        &rm,
        Options {
            node_memory_mb: 4 * SLOT_MB,
            ..Options::default()
        },
    );
    // Lives as long as the cluster, which writes to it.
    let hdfs = Hdfs::start_for(&mut lab);
    let rm = ResourceManager::start(&lab, &rm);
    let node = Node::start_registered(&lab, &node_kind(AGENT), "node", &rm);
    let cluster = Cluster { node, rm, lab };
    for (name, container_type) in [
        ("guaranteed", ContainerType::Guaranteed),
        ("opportunistic", ContainerType::Opportunistic),
    ] {
        let mut shell = cluster.submit(name, "sleep 0", 3, container_type);
        let id = shell.application_id();
        shell.assert_succeeds(JOB_DEADLINE);
        cluster.node.logs(&id).assert_succeeded(3);
    }
    drop(cluster);
    drop(hdfs);
}

/// A resource in HDFS, with the modification time that it has or should have.
struct Resource<'a> {
    path: &'a str,
    modified_ms: i64,
    kind: LocalResourceTypeProto,
    visibility: LocalResourceVisibilityProto,
}

impl<'a> Resource<'a> {
    const fn file(path: &'a str, modified_ms: i64) -> Self {
        Self {
            path,
            modified_ms,
            kind: LocalResourceTypeProto::File,
            visibility: LocalResourceVisibilityProto::Application,
        }
    }

    /// Returns a context whose command needs the resource as `link`.
    fn needed_by(&self, hdfs: &Hdfs, command: &str) -> LaunchContext {
        let context = LaunchContext::command(command);
        let context = context.resource("link", self.path.as_ref(), self.kind, self.modified_ms);
        let mut context = context.into_proto();
        let resource = context.local_resources[0].value.as_mut().unwrap();
        resource.set_visibility(self.visibility);
        let url = resource.resource.as_mut().unwrap();
        url.scheme = Some("hdfs".to_owned());
        url.host = Some("localhost".to_owned());
        url.port = Some(i32::from(hdfs.port()));
        LaunchContext::from(context)
    }
}

fn run(cluster: &ScriptedCluster, context: LaunchContext) -> Completed {
    let am = &cluster.am;
    let id = am.try_start(&am.allocate(), context).unwrap();
    cluster.rm.wait_completed(id)
}

#[track_caller]
fn fails_to_localize(cluster: &ScriptedCluster, context: LaunchContext, reason: &str) {
    let completed = run(cluster, context);
    assert_eq!(completed.exit_status, LOCALIZATION_FAILED, "{completed:?}");
    assert!(completed.diagnostics.contains(reason), "{completed:?}");
    cluster.assert_serves();
}

#[track_caller]
fn succeeds(cluster: &ScriptedCluster, context: LaunchContext) {
    let completed = run(cluster, context);
    assert_eq!(completed.exit_status, 0, "{completed:?}");
}

#[test]
fn resources_in_hdfs_are_localized_or_fail_their_container_alone() {
    require!(java, hadoop);
    let folder = tempfile::tempdir().unwrap();
    let mut hdfs = Hdfs::start(folder.path());
    let core_site = [
        ("fs.defaultFS", hdfs.uri()),
        ("ipc.client.rpc-timeout.ms", RPC_TIMEOUT_MS.to_string()),
    ];
    let cluster = ScriptedCluster::start_with(AGENT, |site| {
        for (name, value) in core_site {
            site.set(name, value);
        }
    });
    good_resources(&cluster, &hdfs);
    bad_resources(&cluster, &hdfs);
    name_node_that_hangs_or_dies(&cluster, &mut hdfs);
}

fn good_resources(cluster: &ScriptedCluster, hdfs: &Hdfs) {
    // More than one chunk of the reader.
    let large = vec![b'x'; (5 << 20) + 7];
    let file = Resource::file("/res/large", hdfs.write("/res/large", &large));
    let command = format!("test $(stat -Lc %s link) = {}", large.len());
    succeeds(cluster, file.needed_by(hdfs, &command));
    let public = Resource {
        visibility: LocalResourceVisibilityProto::Public,
        ..file
    };
    succeeds(cluster, public.needed_by(hdfs, &command));
    let _ = hdfs.write("/res/folder/inner/a", b"");
    let modified_ms = hdfs.files().status("/res/folder").unwrap().modified_ms;
    let of_folder = Resource::file("/res/folder", modified_ms);
    succeeds(cluster, of_folder.needed_by(hdfs, "test -f link/inner/a"));
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    tar.append_data(&mut header, "in/side", &b"y"[..]).unwrap();
    let tar = tar.into_inner().unwrap();
    let archive = Resource {
        kind: LocalResourceTypeProto::Archive,
        ..Resource::file("/res/a.tar", hdfs.write("/res/a.tar", &tar))
    };
    succeeds(
        cluster,
        archive.needed_by(hdfs, "test $(cat link/in/side) = y"),
    );
}

fn bad_resources(cluster: &ScriptedCluster, hdfs: &Hdfs) {
    let missing = Resource::file("/res/missing", 1);
    let text = format!("File does not exist: {}/res/missing", hdfs.uri());
    fails_to_localize(cluster, missing.needed_by(hdfs, "true"), &text);

    let _ = hdfs.write("/res/changed", b"x");
    let changed = Resource::file("/res/changed", 1000);
    let text = format!(
        "Resource {}/res/changed changed on src filesystem",
        hdfs.uri()
    );
    fails_to_localize(cluster, changed.needed_by(hdfs, "true"), &text);

    let secret = Resource {
        visibility: LocalResourceVisibilityProto::Public,
        ..Resource::file("/secret/file", hdfs.write("/secret/file", b"x"))
    };
    hdfs.files().set_mode("/secret", 0o750).unwrap();
    let text = "is not publicly accessible and as such cannot be part of the public cache";
    fails_to_localize(cluster, secret.needed_by(hdfs, "true"), text);

    let corrupt = Resource {
        kind: LocalResourceTypeProto::Archive,
        ..Resource::file("/res/c.zip", hdfs.write("/res/c.zip", b"no archive"))
    };
    fails_to_localize(cluster, corrupt.needed_by(hdfs, "true"), "c.zip");
}

fn name_node_that_hangs_or_dies(cluster: &ScriptedCluster, hdfs: &mut Hdfs) {
    let modified_ms = hdfs.write("/res/late", b"x");
    hdfs.name_node.signal(Signal::SIGSTOP);
    let late = Resource::file("/res/late", modified_ms);
    let text = format!("{}/res/late: no answer within", hdfs.uri());
    fails_to_localize(cluster, late.needed_by(hdfs, "true"), &text);
    hdfs.name_node.signal(Signal::SIGCONT);
    succeeds(cluster, late.needed_by(hdfs, "true"));

    hdfs.name_node.kill();
    let absent = Resource::file("/res/absent", modified_ms);
    let text = format!("cannot read the status of {}/res/absent", hdfs.uri());
    fails_to_localize(cluster, absent.needed_by(hdfs, "true"), &text);
}
