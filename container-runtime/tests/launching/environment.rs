//! Everything that a container starts with: variables, links, folders, descriptors, dispositions.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use container_runtime::launch::{LaunchEvent, Link};
use records::ContainerExitStatus;

use crate::{Node, config, output};

#[tokio::test]
async fn the_agents_environment_stays_with_the_agent() {
    let mut config = config();
    config.agent_environment = BTreeMap::from([
        ("AGENT_SECRET".to_owned(), "hunter2".to_owned()),
        ("JAVA_HOME".to_owned(), "/jdk".to_owned()),
    ]);
    let mut node = Node::with(config);
    let mut plan =
        node.plan("env -0 >environment; tr '\\\\0' '\\\\n' </proc/self/environ >/dev/null");
    plan.environment = BTreeMap::from([
        ("MINE".to_owned(), "$JAVA_HOME/x".to_owned()),
        ("dotted.name".to_owned(), "kept".to_owned()),
    ]);
    let environment = plan.dirs.work_dir.path().join("environment");
    let id = plan.container_id;
    assert_eq!(node.run(plan).await.0, 0);
    let environment = fs::read(environment).unwrap();
    let variables: Vec<_> = environment
        .split(|b| *b == 0)
        .map(|v| String::from_utf8_lossy(v).into_owned())
        .collect();
    let has = |variable: &str| variables.iter().any(|v| v == variable);
    assert!(has("JAVA_HOME=/jdk") && has("MINE=/jdk/x"), "{variables:?}");
    assert!(has("dotted.name=kept") && has(&format!("CONTAINER_ID={id}")));
    // The test itself has a PATH and CARGO's variables.
    for name in ["AGENT_SECRET=", "CARGO", "RUST"] {
        let leaked = variables.iter().find(|v| v.starts_with(name));
        assert_eq!(leaked, None);
    }
}

#[tokio::test]
async fn a_path_that_mentions_itself_keeps_the_script_working() {
    let mut node = Node::start();
    let mut plan = node.plan("echo $PATH ><LOG_DIR>/stdout");
    plan.environment
        .insert("PATH".to_owned(), "$PATH:/extra".to_owned());
    plan.links = vec![Link {
        link: "dir/link".to_owned(),
        target: PathBuf::from("/etc/hostname"),
    }];
    let log_dir = plan.dirs.log_dir.path().to_owned();
    let (status, diagnostics) = node.run(plan).await;
    assert_eq!(status, 0, "{diagnostics}");
    let path = output(&log_dir);
    assert!(
        path.contains("/bin:") && path.ends_with(":/extra\n"),
        "{path}"
    );
}

#[tokio::test]
async fn links_are_made_for_resources() {
    let mut node = Node::start();
    let resource = node.root.path().join("resource");
    fs::create_dir(&resource).unwrap();
    fs::write(resource.join("a.jar"), "a").unwrap();
    fs::write(resource.join("b c.jar"), "b").unwrap();
    let mut plan = node.plan("cat 'all here/res/a.jar' 'b c.jar' ><LOG_DIR>/stdout");
    for link in ["all here/res", "libs/*"] {
        plan.links.push(Link {
            link: link.to_owned(),
            target: resource.clone(),
        });
    }
    let log_dir = plan.dirs.log_dir.path().to_owned();
    let (status, diagnostics) = node.run(plan).await;
    assert_eq!(status, 0, "{diagnostics}");
    assert_eq!(output(&log_dir), "ab");
}

/// With this `PATH`, bash finds neither `ln` nor `mkdir`.
#[tokio::test]
async fn thousands_of_links_need_no_process() {
    const COUNT: usize = 3_000;
    let mut node = Node::start();
    let mut plan = node.plan("exit 5");
    plan.environment
        .insert("PATH".to_owned(), "/nowhere".to_owned());
    let link = |n: usize| Link {
        link: format!("folder {}/link-{n}", n % 3),
        target: PathBuf::from("/etc/hostname"),
    };
    plan.links = (0..COUNT).map(link).collect();
    let work_dir = plan.dirs.work_dir.path().to_owned();
    let (status, diagnostics) = node.run(plan).await;
    assert_eq!(status, 5, "{diagnostics}");
    for n in 0..COUNT {
        assert!(work_dir.join(link(n).link).is_symlink(), "{n}");
    }
}

/// `BASH_ENV` has the script make all links, as bash might run something before.
#[tokio::test]
async fn links_made_by_the_agent_cannot_be_told_from_those_of_the_script() {
    let long = "x".repeat(300);
    let cases = [
        &[("a", "1"), ("b/c/d", "2"), ("b/c/e f", "3")][..],
        &[("a", "1"), ("./a", "2")],
        &[("a", "1"), ("$NOTHING", "2")],
        &[("a", "1"), ("b$NOTHING", "2"), ("b", "3")],
        &[("a", ""), ("a/b", "2")],
        &[("a/b", "1"), ("a", "2")],
        &[("tmp", "1"), ("tmp/x", "2"), ("container_tokens", "3")],
        &[("launch_container.sh", "1"), ("container_tokens/x", "2")],
        &[("-n", "1"), ("!", "2"), ("(/=", "3"), ("'/a\nb", "$HOME")],
        &[("a", "1"), (&long, "2"), ("b", "3")],
    ];
    let mut node = Node::start();
    let resource = node.root.path().join("resource");
    for links in cases {
        let mut results = Vec::new();
        for by_script in [true, false] {
            fs::create_dir(&resource).unwrap();
            let mut plan = node.plan("exit 5");
            plan.links = Vec::from_iter(links.iter().map(|(link, target)| Link {
                link: (*link).to_owned(),
                target: resource.join(target),
            }));
            if by_script {
                let file = "/nowhere".to_owned();
                plan.environment.insert("BASH_ENV".to_owned(), file);
            }
            let dirs = plan.dirs.clone();
            let status = node.run(plan).await.0;
            let log = |name| fs::read_to_string(dirs.log_dir.path().join(name)).unwrap();
            results.push((
                status,
                [log("prelaunch.out"), log("prelaunch.err")],
                [tree(dirs.work_dir.path()), tree(&resource)],
            ));
            fs::remove_dir_all(&resource).unwrap();
        }
        assert_eq!(results[0], results[1], "{links:?}");
    }
}

/// Returns the names, permissions and link targets in a directory, sorted. The script's content
/// is left out.
fn tree(directory: &Path) -> Vec<(PathBuf, u32, Option<PathBuf>)> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(path) = pending.pop() {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            if metadata.is_dir() {
                pending.push(path.clone());
            }
            let name = path.strip_prefix(directory).unwrap().to_owned();
            found.push((
                name,
                metadata.permissions().mode(),
                fs::read_link(&path).ok(),
            ));
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn a_link_that_cannot_be_made_fails_before_the_command() {
    let mut node = Node::start();
    let mut plan = node.plan("touch started");
    plan.links = vec![Link {
        link: "tmp/../../x".to_owned(),
        target: PathBuf::from("/t"),
    }];
    let started = plan.dirs.work_dir.path().join("started");
    node.launch(plan);
    let event = node.event().await;
    let LaunchEvent::LaunchFailed {
        status,
        diagnostics,
        ..
    } = event
    else {
        panic!("{event:?}");
    };
    assert_eq!(status, ContainerExitStatus::LAUNCH_FAILED);
    assert!(diagnostics.contains("tmp/../../x"), "{diagnostics}");
    assert!(!started.exists());
}

#[tokio::test]
async fn a_missing_directory_fails_the_launch_with_its_path() {
    let mut node = Node::start();
    let plan = node.plan("true");
    fs::remove_dir(plan.dirs.work_dir.path()).unwrap();
    let path = plan.dirs.work_dir.path().display().to_string();
    let id = node.launch(plan);
    let event = node.event().await;
    assert!(
        matches!(&event, LaunchEvent::LaunchFailed { id: failed, diagnostics, .. } if *failed == id && diagnostics.contains(&path)),
        "{event:?}"
    );
    assert!(node.launcher.processes().is_empty());
}

#[tokio::test]
async fn a_link_in_the_place_of_a_folder_above_the_containers_fails_the_launch() {
    let mut node = Node::start();
    let plan = node.plan("true");
    let folder = plan.dirs.work_dir.path().parent().unwrap().to_owned();
    let outside = node.root.path().join("outside");
    fs::rename(&folder, &outside).unwrap();
    std::os::unix::fs::symlink(&outside, &folder).unwrap();
    node.launch(plan);
    let event = node.event().await;
    assert!(
        matches!(event, LaunchEvent::LaunchFailed { .. }),
        "{event:?}"
    );
    for folder in ["work", "log"] {
        assert_eq!(fs::read_dir(outside.join(folder)).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn descriptors_are_not_inherited() {
    let root = tempfile::tempdir().unwrap();
    // Without close-on-exec, as C libraries open files.
    let file = fs::File::create(root.path().join("open")).unwrap();
    nix::fcntl::fcntl(
        &file,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
    )
    .unwrap();
    let mut node = Node::start();
    let plan = node.plan("ls -l /proc/\\$\\$/fd ><LOG_DIR>/stdout");
    let log_dir = plan.dirs.log_dir.path().to_owned();
    assert_eq!(node.run(plan).await.0, 0);
    drop(file);
    let listing = output(&log_dir);
    let descriptors: Vec<_> = listing
        .lines()
        .filter_map(|line| line.split_once(" -> ")?.0.rsplit(' ').next())
        .filter_map(|number| number.parse::<u32>().ok())
        .filter(|number| *number != 255)
        .collect();
    assert_eq!(descriptors, [0, 1, 2], "{listing}");
    assert!(listing.contains("0 -> /dev/null"), "{listing}");
}

#[tokio::test]
async fn signals_start_unblocked_and_with_default_dispositions() {
    // The test harness ignores SIGPIPE, as every Rust program does.
    let mut node = Node::start();
    let plan = node.plan("exec cat /proc/self/status ><LOG_DIR>/stdout");
    let log_dir = plan.dirs.log_dir.path().to_owned();
    assert_eq!(node.run(plan).await.0, 0);
    let status = output(&log_dir);
    let set_of = |name: &str| {
        let set = status.lines().find_map(|line| line.strip_prefix(name));
        u64::from_str_radix(set.unwrap().trim(), 16).unwrap()
    };
    // Signals 32 and 33 belong to glibc, whose posix_spawn has them ignored until the child has
    // threads.
    assert_eq!(set_of("SigBlk:"), 0);
    assert_eq!(set_of("SigIgn:") & !(0b11 << 31), 0);
}

#[tokio::test]
async fn debug_information_is_in_the_log_directory() {
    let mut config = config();
    config.debug_info = true;
    let mut node = Node::with(config);
    let mut plan = node.plan("sleep 0.01");
    plan.links = vec![Link {
        link: "lib/resource".to_owned(),
        target: PathBuf::from("/etc/hostname"),
    }];
    let (work_dir, log_dir) = (
        plan.dirs.work_dir.path().to_owned(),
        plan.dirs.log_dir.path().to_owned(),
    );
    assert_eq!(node.run(plan).await.0, 0);
    let copy = fs::read(log_dir.join("launch_container.sh")).unwrap();
    assert_eq!(
        copy,
        fs::read(work_dir.join("launch_container.sh")).unwrap()
    );
    let info = fs::read_to_string(log_dir.join("directory.info")).unwrap();
    assert!(info.contains(" ./lib/resource"), "{info}");
}

#[tokio::test]
async fn a_container_can_be_launched_again_in_its_directories() {
    let mut node = Node::start();
    let mut plan = node.plan("readlink res ><LOG_DIR>/stdout; ls res >>res-list; exit 1");
    plan.links = vec![Link {
        link: "res".to_owned(),
        target: node.root.path().to_owned(),
    }];
    for _ in 0..2 {
        assert_eq!(node.run(plan.clone()).await.0, 1);
    }
    let target = node.root.path().to_str().unwrap();
    assert_eq!(output(plan.dirs.log_dir.path()), format!("{target}\n"));
    assert!(!node.root.path().join("res").exists());
}
