//! Archives: whatever is in one, nothing outside of its folder changes, whatever its links lead to.

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
        bytes_max: 16 * 1024,
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

pub(crate) const ZIP: Target = target(
    "zip",
    |input| {
        run("x.zip", input);
        run("x.jar", input);
    },
    zips,
);
pub(crate) const TAR: Target = target(
    "tar",
    |input| run("x.tar", input),
    || vec![tar(), through_links(), sparse_in_header(), sparse_in_data()],
);
pub(crate) const GZIPPED_TAR: Target = target(
    "gzipped_tar",
    |input| run("x.tar.gz", input),
    || vec![gzip(&tar())],
);

fn run(name: &str, archive: &[u8]) {
    let base = tempfile::tempdir().expect("a folder");
    let base = base.path();
    fs::write(base.join("precious"), "precious").expect("a file that must not change");
    fs::create_dir(base.join("outside")).expect("a folder that must stay empty");
    fs::create_dir(base.join("cache")).expect("a folder to unpack into");
    let cache = DirHandle::open_ambient(&base.join("cache")).expect("the folder is opened");
    let before = fs::metadata(base.join("precious")).expect("the file is there");
    let _unpacked_or_refused = localize::fuzzing::unpack(name, archive, &cache);
    assert_eq!(
        names(base),
        BTreeSet::from(["cache", "outside", "precious"].map(str::to_owned))
    );
    let precious = fs::symlink_metadata(base.join("precious")).expect("the file is there");
    let facts = |it: &fs::Metadata| (it.ino(), it.mode(), it.nlink(), it.ctime(), it.ctime_nsec());
    assert_eq!(facts(&precious), facts(&before));
    assert_eq!(names(&base.join("outside")), BTreeSet::new());
    assert!(names(&base.join("cache")).is_subset(&BTreeSet::from([name.to_owned()])));
    assert_no_set_id(&base.join("cache").join(name));
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

/// Asserts that nothing below a folder runs with the rights of its owner.
fn assert_no_set_id(folder: &Path) {
    let mut folders = vec![folder.to_owned()];
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

/// Appends an entry whose header the test completes.
fn append(
    tar: &mut tar::Builder<Vec<u8>>,
    kind: u8,
    (name, target): (&str, &str),
    content: &[u8],
    fill: impl FnOnce(&mut [u8]),
) {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_mode(0o6755);
    header.set_size(content.len().try_into().expect("a length fits"));
    // The writer's own functions refuse some names and targets.
    let old = header.as_old_mut();
    for (field, text) in [(&mut old.name, name), (&mut old.linkname, target)] {
        let start = field.get_mut(..text.len()).expect("a text fits");
        start.copy_from_slice(text.as_bytes());
    }
    fill(header.as_mut_bytes());
    header.set_cksum();
    tar.append(&header, content).expect("an entry is added");
}

/// Returns a tar with these entries: kind, name, target, content.
fn tar_of(entries: &[(u8, &str, &str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (kind, name, target, content) in entries {
        append(&mut tar, *kind, (name, target), content.as_bytes(), |_| {});
    }
    tar.into_inner().expect("the end is written")
}

/// Returns a tar with an entry of each kind.
fn tar() -> Vec<u8> {
    tar_of(&[
        (b'5', "lib", "", ""),
        (b'0', "lib/a", "", "aaaa"),
        (b'2', "lib/b", "a", ""),
        (b'1', "lib/c", "lib/a", ""),
        (b'2', "up", "../../precious", ""),
        (b'g', "pax", "", "15 comment=abc\n"),
        (b'x', "pax", "", "14 path=lib/d\n13 mtime=1.5\n"),
        (b'0', "short", "", "d"),
        (b'L', "long", "", "lib/e"),
        (b'K', "long", "", "lib/a"),
        (b'2', "short", "", ""),
        (b'D', "lib/f", "", "Ya\0\0"),
        (b'V', "label", "", ""),
    ])
}

/// Returns a tar with entries below links that stay inside, and one that does not.
fn through_links() -> Vec<u8> {
    tar_of(&[
        (b'5', "lib", "", ""),
        (b'2', "a/lib64", "../lib", ""),
        (b'2', "b", "a/./lib64/..", ""),
        (b'0', "b/lib/m", "", "1"),
        (b'1', "a/lib64/n", "b/lib/m", ""),
        (b'1', "o", "b", ""),
        (b'2', "out", "../../outside", ""),
        (b'0', "out/x", "", "evil"),
    ])
}

/// Returns a tar with a sparse file whose map is in GNU's header.
fn sparse_in_header() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    append(&mut tar, b'S', ("sparse", ""), b"end", |header| {
        for (at, number) in [
            (386, "00000001000"),
            (398, "00000000003"),
            (483, "00000002000"),
        ] {
            let field = header.get_mut(at..at + number.len());
            field.expect("a field").copy_from_slice(number.as_bytes());
        }
    });
    tar.into_inner().expect("the end is written")
}

/// Returns a tar with a sparse file whose map is in its data.
fn sparse_in_data() -> Vec<u8> {
    let mut data = "1\n512\n3\n".to_owned();
    data += &"\0".repeat(512 - data.len());
    data += "end";
    let form = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n";
    let name = "21 GNU.sparse.name=a\n28 GNU.sparse.realsize=1024\n";
    tar_of(&[
        (b'x', "pax", "", &format!("{form}{name}")),
        (b'0', "stored", "", &data),
    ])
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(content).expect("the content is compressed");
    gzip.finish().expect("the end is written")
}
