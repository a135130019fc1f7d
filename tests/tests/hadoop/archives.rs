//! Archives of all tools of the machine, unpacked by the agent for a container, by Hadoop's own
//! localizer, and by GNU tar or unzip: the trees are the same, or the archive is refused by name.

#![expect(
    clippy::unwrap_used,
    reason = "bodies of tests are tests too: a panic is a failed test"
)]

mod made;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use test_support::LaunchContext;
use test_support::scripted::Completed;
use tests::scripted_cluster::ScriptedCluster;
use tests::{java, require};

use self::made::{Expected, RECIPES, make_all};
use crate::AGENT;

/// Exit status of a container whose localization fails (`ContainerExitStatus.INVALID`).
const LOCALIZATION_FAILED: i32 = -1000;

/// Entry of a folder, as a name stands for it.
#[derive(Clone, PartialEq, Eq)]
enum Node {
    Folder,
    Link(PathBuf),
    File {
        content: Vec<u8>,
        is_executable: bool,
    },
}

/// A folder with everything below it.
type Tree = BTreeMap<PathBuf, Node>;

#[test]
fn archives_of_many_tools_are_unpacked_as_hadoop_unpacks_them() {
    require!(java, hadoop, archivers);
    let cluster = ScriptedCluster::start(AGENT);
    let folder = cluster.node.folder().join("compared");
    fs::create_dir(&folder).unwrap();
    let archives = make_all(&folder);
    let hadoops = localize_by_hadoop(&folder, &archives);
    let ours: Vec<_> = archives
        .iter()
        .map(|archive| localize_by_agent(&cluster, &folder, archive))
        .collect();
    let mut wrong = Vec::new();
    for (at, recipe) in RECIPES.iter().enumerate() {
        let found = check(
            &folder,
            &archives[at],
            recipe.expected,
            &ours[at],
            &hadoops[at],
        );
        if let Err(why) = found {
            wrong.push(format!("{}: {why}", recipe.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    cluster.assert_serves();
}

/// Result of localizing an archive: what a container finds, or the reason of the failure.
type Localized = Result<Tree, String>;

fn check(
    folder: &Path,
    archive: &Path,
    expected: Expected,
    ours: &Localized,
    hadoops: &Localized,
) -> Result<(), String> {
    match (expected, ours, hadoops) {
        (Expected::Folder | Expected::FolderOrBrokenPipe, Ok(ours), Ok(hadoops)) => {
            same(ours, hadoops).map_err(|why| format!("not as by Hadoop: {why}"))?;
            same_as_tools(folder, archive, ours)
        }
        (Expected::FolderOrBrokenPipe, Ok(ours), Err(why)) if why.contains("Broken pipe") => {
            same_as_tools(folder, archive, ours)
        }
        (Expected::Unchanged, Ok(ours), Ok(hadoops)) => {
            let content = fs::read(archive).unwrap();
            let is_copy = matches!(
                ours.get(Path::new("")), Some(Node::File { content: found, .. }) if *found == content
            );
            if !is_copy {
                return Err("it is not the archive itself".to_owned());
            }
            same(ours, hadoops)
        }
        (Expected::Refused(text), Err(reason), Err(_))
        | (Expected::RefusedHere(text), Err(reason), Ok(_)) => {
            let name = archive.file_name().unwrap().to_str().unwrap();
            if reason.contains(text) && reason.contains(name) {
                Ok(())
            } else {
                Err(format!("another refusal: {reason}"))
            }
        }
        (_, ours, hadoops) => {
            let text = |localized: &Localized| match localized {
                Ok(tree) => format!("{} names", tree.len()),
                Err(why) => why.clone(),
            };
            Err(format!("ours: {}; Hadoop's: {}", text(ours), text(hadoops)))
        }
    }
}

/// Compares all names, kinds, targets, contents and the bit for execution.
fn same(ours: &Tree, other: &Tree) -> Result<(), String> {
    for (name, node) in ours {
        match other.get(name) {
            None => return Err(format!("{name:?} is only ours")),
            Some(found) if found != node => return Err(format!("{name:?} is another")),
            Some(_) => {}
        }
    }
    let missing = other.keys().find(|name| !ours.contains_key(*name));
    missing.map_or(Ok(()), |name| Err(format!("{name:?} is missing")))
}

/// Compares with what GNU tar or unzip make of the archive. Hadoop unpacks zips as streams, which
/// know neither links nor empty folders, and leaves out the manifest of a jar; everything that it
/// unpacks is a file that it may execute.
fn same_as_tools(folder: &Path, archive: &Path, ours: &Tree) -> Result<(), String> {
    let name = archive.file_name().unwrap().to_str().unwrap();
    let out = folder.join("tools").join(name);
    fs::create_dir_all(&out).unwrap();
    let is_tar = name.contains(".tar") || name.ends_with(".tgz");
    let script = match name {
        _ if !is_tar => "unzip -qo \"$archive\"",
        _ if name.ends_with("gz") => "gzip -dcq \"$archive\" | tar -x",
        _ => "tar -x < \"$archive\"",
    };
    let output = Command::new("bash")
        .args(["-uc", script])
        .env("archive", archive)
        .env("LC_ALL", "C.UTF-8")
        .current_dir(&out)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    // unzip: 1 is a warning, such as of bytes before the entries.
    if !matches!(output.status.code(), Some(0 | 1)) {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{script} failed: {errors}"));
    }
    let simplified = |tree: &Tree| -> Tree {
        let nodes = tree.iter().filter_map(|(name, node)| {
            let node = match node.clone() {
                Node::File { content, .. } => Node::File {
                    content,
                    is_executable: true,
                },
                Node::Folder if !is_tar => return None,
                Node::Link(target) if !is_tar => Node::File {
                    content: target.as_os_str().as_encoded_bytes().to_vec(),
                    is_executable: true,
                },
                node @ (Node::Folder | Node::Link(_)) => node,
            };
            Some((name.clone(), node))
        });
        nodes.collect()
    };
    let mut theirs = simplified(&tree(&out));
    if name.ends_with(".jar") {
        theirs.remove(Path::new("META-INF/MANIFEST.MF"));
    }
    same(&simplified(ours), &theirs).map_err(|why| format!("not as by {script}: {why}"))
}

/// Localizes all archives with the classes of a Java NodeManager.
fn localize_by_hadoop(folder: &Path, archives: &[PathBuf]) -> Vec<Localized> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/Localize.java");
    let out = folder.join("hadoop");
    let mut command = java::source_command(&source);
    command.env("LC_ALL", "C.UTF-8").arg(&out);
    for (number, archive) in archives.iter().enumerate() {
        command.arg("ARCHIVE").arg(archive).arg(number.to_string());
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: BTreeMap<_, _> = lines.lines().filter_map(|it| it.split_once(' ')).collect();
    let localized = archives.iter().enumerate().map(|(number, archive)| {
        let number = number.to_string();
        match lines.get(number.as_str()) {
            Some(&"ok") => Ok(tree(&out.join(number).join(archive.file_name().unwrap()))),
            Some(why) => Err((*why).to_owned()),
            None => panic!("Hadoop says nothing of {}: {errors}", archive.display()),
        }
    });
    localized.collect()
}

/// Runs a container that has the archive as a resource, and copies what it finds.
fn localize_by_agent(cluster: &ScriptedCluster, folder: &Path, archive: &Path) -> Localized {
    let copies = folder.join("agent");
    fs::create_dir_all(&copies).unwrap();
    let copy = copies.join(archive.file_name().unwrap());
    let to = copy.display();
    let command =
        format!("if [ -d lib ]; then mkdir {to} && cp -a lib/. {to}; else cp -pL lib {to}; fi");
    let context = LaunchContext::command(&command).archive("lib", archive);
    let id = cluster
        .am
        .try_start(&cluster.am.allocate(), context)
        .unwrap();
    let Completed {
        exit_status,
        diagnostics,
        ..
    } = cluster.rm.wait_completed(id);
    match exit_status {
        0 => Ok(tree(&copy)),
        LOCALIZATION_FAILED => Err(diagnostics),
        other => panic!("{}: {other}: {diagnostics}", archive.display()),
    }
}

/// Reads a folder, or a file, whose name is then empty. Folders get permissions to be read.
fn tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut paths = vec![root.to_path_buf()];
    while let Some(path) = paths.pop() {
        let status = fs::symlink_metadata(&path).unwrap();
        let kind = status.file_type();
        let node = if kind.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            paths.extend(entries.map(|entry| entry.unwrap().path()));
            Node::Folder
        } else if kind.is_symlink() {
            Node::Link(fs::read_link(&path).unwrap())
        } else if kind.is_file() {
            Node::File {
                content: fs::read(&path).unwrap(),
                is_executable: status.permissions().mode() & 0o100 != 0,
            }
        } else {
            // A pipe, which only a refused archive has.
            continue;
        };
        tree.insert(path.strip_prefix(root).unwrap().to_path_buf(), node);
    }
    tree
}
