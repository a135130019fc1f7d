//! Archives: whatever is in one, nothing outside of its folder changes, and no link leads there.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Cursor, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use dir_handle::DirHandle;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::{Memory, Target};

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target {
        name,
        bytes_max: 8 * 1024,
        // Buffers of the copy and the decompressor, a header with its long names, and a folder's
        // handle with its names.
        memory: Memory {
            base: 8 << 20,
            per_byte: 256,
        },
        run,
        seeds,
    }
}

pub(crate) const ZIP: Target = target("zip", |input| run("x.zip", input), zips);
pub(crate) const TAR: Target = target("tar", |input| run("x.tar", input), || vec![tar()]);
pub(crate) const GZIPPED_TAR: Target = target(
    "gzipped_tar",
    |input| run("x.tar.gz", input),
    || vec![gzip(&tar())],
);

fn run(name: &str, archive: &[u8]) {
    let base = tempfile::tempdir().expect("a folder");
    let base = base.path();
    fs::write(base.join("precious"), "precious").expect("a file that must not change");
    fs::create_dir(base.join("cache")).expect("a folder to unpack into");
    let cache = DirHandle::open_ambient(&base.join("cache")).expect("the folder is opened");
    let _unpacked_or_refused = localize::fuzzing::unpack(name, archive, &cache);
    assert_eq!(
        names(base),
        BTreeSet::from(["cache".to_owned(), "precious".to_owned()])
    );
    let precious = fs::metadata(base.join("precious")).expect("the file is there");
    assert_eq!((precious.len(), precious.nlink()), (8, 1));
    assert!(names(&base.join("cache")).is_subset(&BTreeSet::from([name.to_owned()])));
    assert_links_stay_in(&base.join("cache").join(name));
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

/// Asserts that no link below a folder leads out of it.
fn assert_links_stay_in(folder: &Path) {
    let Ok(root) = fs::canonicalize(folder) else {
        return;
    };
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        // A folder may have got a mode that its owner cannot read.
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("an entry").path();
            let status = fs::symlink_metadata(&path).expect("an entry has a status");
            assert_eq!(status.mode() & 0o6000, 0, "{path:?} has a set-id bit");
            if status.is_dir() {
                folders.push(path);
            } else if let Ok(real) = fs::canonicalize(&path) {
                assert!(real.starts_with(&root), "{path:?} leads to {real:?}");
            }
        }
    }
}

fn zips() -> Vec<Vec<u8>> {
    let write = |method| {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        zip.add_directory("lib/", options).expect("a folder");
        zip.start_file("lib/a", options).expect("a file");
        zip.write_all(&b"aaaa".repeat(20)).expect("its content");
        zip.start_file("../b", options).expect("a file");
        zip.finish().expect("the directory").into_inner()
    };
    vec![
        write(zip::CompressionMethod::Stored),
        write(zip::CompressionMethod::Deflated),
    ]
}

/// Returns a tar with an entry of each kind.
fn tar() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut add = |kind, name: &str, target: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o6755);
        header.set_size(content.len().try_into().expect("a length fits"));
        if !target.is_empty() {
            header.set_link_name(target).expect("a target fits");
        }
        tar.append_data(&mut header, name, content)
            .expect("an entry is added");
    };
    add(tar::EntryType::Directory, "lib", "", b"");
    add(tar::EntryType::Regular, "lib/a", "", b"aaaa");
    add(tar::EntryType::Symlink, "lib/b", "a", b"");
    add(tar::EntryType::Link, "lib/c", "lib/a", b"");
    add(tar::EntryType::Symlink, "up", "../precious", b"");
    tar.into_inner().expect("the end is written")
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(content).expect("the content is compressed");
    gzip.finish().expect("the end is written")
}
