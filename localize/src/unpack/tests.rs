//! Malicious archives, and plain ones that must keep working.

mod links;
mod tars;
mod zips;

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{Cursor, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use archives::Unsupported;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use tar::{EntryType, Header};
use zip::write::SimpleFileOptions;

use super::super::error::RefusedEntry as Refused;
use super::super::layout::Scope;
use super::super::progress::Progress;
use super::*;

impl Content for Cursor<Vec<u8>> {
    fn modified_ms(&self) -> io::Result<i64> {
        Ok(0)
    }
}

/// A folder `cache` to unpack into, with a file and a folder beside it that must not change.
struct Place {
    base: tempfile::TempDir,
    cache: DirHandle,
}

impl Place {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let precious = base.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        fs::set_permissions(precious, Permissions::from_mode(0o640)).unwrap();
        fs::create_dir(base.path().join("outside")).unwrap();
        fs::create_dir(base.path().join("cache")).unwrap();
        let cache = DirHandle::open_ambient(&base.path().join("cache")).unwrap();
        Self { base, cache }
    }

    fn unpack(&self, packing: Packing<'_>, bytes: Vec<u8>) -> Result<u64, UnpackError> {
        self.unpack_within(packing, bytes, 0, u32::MAX)
    }

    fn unpack_within(
        &self,
        packing: Packing<'_>,
        bytes: Vec<u8>,
        free_reserve_bytes: u64,
        entries: u32,
    ) -> Result<u64, UnpackError> {
        let progress = Progress::default();
        let mut budget = Budget::new(&self.cache, &progress);
        budget.restrict(free_reserve_bytes, entries);
        let content = &mut Cursor::new(bytes);
        let modes = Scope::Public.modes();
        let result = unpack(
            packing,
            "x.tar",
            content,
            &self.cache,
            modes,
            &mut budget,
            &archives::read,
        );
        self.assert_nothing_left_the_folder();
        result.map(|()| budget.written_bytes())
    }

    /// Asserts the claim of every test here: the neighbours are unchanged, and nothing is new.
    fn assert_nothing_left_the_folder(&self) {
        let names = |path: &Path| -> BTreeSet<_> {
            let entries = fs::read_dir(path).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect()
        };
        let base = self.base.path();
        assert_eq!(
            names(base),
            BTreeSet::from(["cache".into(), "outside".into(), "precious".into()])
        );
        assert_eq!(names(&base.join("outside")), BTreeSet::new());
        let precious = fs::symlink_metadata(base.join("precious")).unwrap();
        assert!(precious.is_file());
        assert_eq!((precious.nlink(), precious.mode() & 0o7777), (1, 0o640));
        assert_eq!(fs::read(base.join("precious")).unwrap(), b"precious");
        assert!(names(&base.join("cache")).is_subset(&BTreeSet::from(["x.tar".into()])));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join("cache/x.tar").join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

/// Appends one entry with exactly this name, even one that the tar writer would refuse.
fn tar_entry(tar: &mut Vec<u8>, kind: EntryType, name: &str, target: &str, content: &[u8]) {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(u64::try_from(content.len()).unwrap());
    header.set_mode(0o4777);
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name.as_bytes());
    old.linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_cksum();
    tar.extend_from_slice(header.as_bytes());
    tar.extend_from_slice(content);
    tar.resize(tar.len().next_multiple_of(512), 0);
}

fn tar_of(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (kind, name, other) in entries {
        if kind.is_file() {
            tar_entry(&mut tar, *kind, name, "", other.as_bytes());
        } else {
            tar_entry(&mut tar, *kind, name, other, b"");
        }
    }
    tar.resize(tar.len() + 1024, 0);
    tar
}

fn zip_of(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default();
    for (name, content) in entries {
        writer.start_file(*name, options).unwrap();
        writer.write_all(content.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[track_caller]
fn assert_refused(
    result: Result<u64, UnpackError>,
    expected: impl Into<Refused>,
    expected_entry: &str,
) {
    match result {
        Err(UnpackError::Refused {
            reason,
            entry,
            archive,
        }) => {
            assert_eq!((reason, entry.as_str()), (expected.into(), expected_entry));
            assert_eq!(archive, "x.tar");
        }
        other => panic!("{other:?}"),
    }
}

const FILE: EntryType = EntryType::Regular;
const LINK: EntryType = EntryType::Symlink;
const HARD: EntryType = EntryType::Link;
const FOLDER: EntryType = EntryType::Directory;

#[test]
fn a_tar_is_unpacked_with_cache_modes() {
    let place = Place::new();
    let tar = tar_of(&[
        (FOLDER, "./", ""),
        (FOLDER, "bin/", ""),
        (FILE, "bin/run", "#!"),
        (FILE, "deep/er/file", "x"),
        (LINK, "bin/again", "run"),
        (LINK, "deep/er/up", "../../bin/run"),
        (HARD, "hard", "bin/run"),
    ]);
    assert_eq!(place.unpack(Packing::Tar, tar.clone()).unwrap(), 3);
    assert_eq!(place.read("deep/er/up"), "#!");
    assert_eq!(place.read("hard"), "#!");
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(
        (mode("bin/run"), mode("bin"), mode("deep/er")),
        (0o555, 0o755, 0o755)
    );

    let place = Place::new();
    place.unpack(Packing::GzippedTar, gzip(&tar)).unwrap();
    assert_eq!(place.read("bin/again"), "#!");
}

#[test]
fn gzip_members_after_each_other_are_one_tar() {
    let place = Place::new();
    let tar = tar_of(&[(FILE, "a", "1"), (FILE, "b", "2")]);
    let (first, second) = tar.split_at(700);
    let bytes = [gzip(first), gzip(second)].concat();
    place.unpack(Packing::GzippedTar, bytes).unwrap();
    assert_eq!(place.read("b"), "2");
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    for (name, reason) in [
        ("../precious", Refused::LeavesFolder),
        ("a/../../precious", Refused::LeavesFolder),
        ("..", Refused::LeavesFolder),
    ] {
        let tar = tar_of(&[(FILE, name, "evil")]);
        assert_refused(Place::new().unpack(Packing::Tar, tar), reason, name);
        let zip = zip_of(&[(name, "evil")]);
        assert_refused(Place::new().unpack(Packing::Zip, zip), reason, name);
    }
    let tar = tar_of(&[(FOLDER, "../new/", "")]);
    let refused = Place::new().unpack(Packing::Tar, tar);
    assert_refused(refused, Refused::LeavesFolder, "../new/");
    // A slash at the begin does not count, as for GNU tar and Java.
    for (packing, archive) in [
        (Packing::Tar, tar_of(&[(FILE, "//tmp/precious", "1")])),
        (Packing::Zip, zip_of(&[("/tmp/precious", "1")])),
    ] {
        let place = Place::new();
        place.unpack(packing, archive).unwrap();
        assert_eq!(place.read("tmp/precious"), "1");
    }
}

#[test]
fn a_long_name_of_gnu_tar_is_judged_as_any_other() {
    let mut tar = Vec::new();
    let name = format!("{}../../precious", "a/".repeat(80));
    let kind = EntryType::GNULongName;
    tar_entry(&mut tar, kind, "././@LongLink", "", name.as_bytes());
    tar_entry(&mut tar, FILE, "harmless", "", b"evil");
    let refused = Place::new().unpack(Packing::Tar, tar);
    assert_refused(refused, Refused::LeavesFolder, &name);
}

#[test]
fn devices_and_pipes_are_refused() {
    for kind in [EntryType::Char, EntryType::Block, EntryType::Fifo] {
        let tar = tar_of(&[(kind, "dev", "")]);
        assert_refused(
            Place::new().unpack(Packing::Tar, tar),
            Unsupported::SpecialFile,
            "dev",
        );
    }
}

#[test]
fn the_last_of_duplicate_entries_stays() {
    let place = Place::new();
    let tar = tar_of(&[(FILE, "a", "first"), (FILE, "./a", "2")]);
    place.unpack(Packing::Tar, tar).unwrap();
    assert_eq!(place.read("a"), "2");
    let tar = tar_of(&[(FILE, "d/a", "1"), (FILE, "d", "2")]);
    assert_refused(
        Place::new().unpack(Packing::Tar, tar),
        Refused::ReplacesFolder,
        "d",
    );
}

#[test]
fn a_truncated_tar_is_an_error() {
    let tar = tar_of(&[(FILE, "a", &"x".repeat(4000))]);
    for length in [100, 512, 513, 2000, 4511] {
        let cut = Place::new().unpack(Packing::Tar, tar[..length].to_vec());
        assert!(
            matches!(cut, Err(UnpackError::Malformed { .. })),
            "{length}: {cut:?}"
        );
    }
    let gzipped = gzip(&tar);
    let half = gzipped[..gzipped.len() / 2].to_vec();
    let cut = Place::new().unpack(Packing::GzippedTar, half);
    assert!(matches!(cut, Err(UnpackError::Malformed { .. })), "{cut:?}");
}

#[test]
fn a_name_of_gigabytes_is_refused_before_it_is_in_memory() {
    // Two gigabytes of zeros in a few kilobytes would take longer than the test's time.
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(8 << 20);
    header.set_cksum();
    let mut tar = header.as_bytes().to_vec();
    tar.resize(tar.len() + (8 << 20), b'a');
    let refused = Place::new().unpack(Packing::GzippedTar, gzip(&tar));
    let Err(UnpackError::Malformed { source, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(
        source
            .to_string()
            .contains("more headers than any archive needs"),
        "{source}"
    );
}

#[test]
fn bombs_end_at_the_room_on_the_disk_and_at_the_count_of_entries() {
    let tar = tar_of(&[(FILE, "a", "1"), (FILE, "b", "2")]);
    let place = Place::new();
    let full = place.unpack_within(Packing::Tar, tar.clone(), u64::MAX, u32::MAX);
    assert_refused(full, Refused::DiskFull, "a");
    let many = Place::new().unpack_within(Packing::Tar, tar, 0, 1);
    assert_refused(many, Refused::TooManyEntries, "b");
    let zip = zip_of(&[("a", "1"), ("b", "2")]);
    let many = Place::new().unpack_within(Packing::Zip, zip, 0, 1);
    assert_refused(many, Refused::TooManyEntries, "b");
}

#[test]
fn content_hidden_in_an_entry_that_has_none_costs_room_as_well() {
    let mut tar = Vec::new();
    // A folder with a list of names, which an incremental backup has.
    tar_entry(&mut tar, EntryType::new(b'D'), "d/", "", &[0; 4096]);
    let full = Place::new().unpack_within(Packing::Tar, tar, u64::MAX, u32::MAX);
    assert_refused(full, Refused::DiskFull, "d/");
}

#[test]
fn how_to_unpack_is_told_by_the_end_of_the_name() {
    let archive = ResourceKind::Archive;
    let pattern = ResourceKind::Pattern(Some("p".to_owned()));
    for (name, as_archive, as_pattern) in [
        (
            "A.JAR",
            Some(Packing::Jar),
            Some(Packing::JarByPattern(Some("p"))),
        ),
        ("a.zip", Some(Packing::Zip), Some(Packing::Zip)),
        (
            "a.Tar.Gz",
            Some(Packing::GzippedTar),
            Some(Packing::GzippedTar),
        ),
        (
            "a.tgz",
            Some(Packing::GzippedTar),
            Some(Packing::GzippedTar),
        ),
        ("a.tar", Some(Packing::Tar), Some(Packing::Tar)),
        ("a.tar.bz2", None, None),
        ("a.gz", None, None),
    ] {
        assert_eq!(Packing::of(name, &archive), as_archive, "{name}");
        assert_eq!(Packing::of(name, &pattern), as_pattern, "{name}");
        assert_eq!(Packing::of(name, &ResourceKind::File), None, "{name}");
    }
}

fn hostile_path() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["a", "b", "c", "..", ".", "", "precious", "outside"]);
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Unpacks each archive entry by entry into one folder, without the refused entries, so that
    /// harmful sequences are not cut short by their first harmless refusal.
    #[test]
    fn no_sequence_of_entries_leads_out(entries in prop::collection::vec((0..4_usize, hostile_path(), hostile_path()), 1..12)) {
        let place = Place::new();
        let root = place.cache.create("x.tar", 0o755).unwrap();
        let progress = Progress::default();
        let mut budget = Budget::new(&place.cache, &progress);
        let mut extract = Extract::new("x.tar", root, Scope::Public.modes(), &mut budget);
        let base = place.base.path().to_str().unwrap();
        for (kind, name, other) in entries {
            // Some targets are absolute, and lead to the neighbours.
            let other = other.replacen("a/", &format!("{base}/"), 1);
            let (name, other) = (name.as_bytes(), other.as_bytes());
            let _may_be_refused = match kind {
                0 => extract.folder(name),
                1 => extract.file(name, &mut &b"12345"[..], None),
                2 => extract.symbolic_link(name, other),
                _ => extract.hard_link(name, other),
            };
        }
        place.assert_nothing_left_the_folder();
    }
}

proptest! {
    // Each case unpacks eight archives to a disk that is shared with other tests.
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_bytes_are_refused_or_unpacked_but_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..3000), cut in 0..2000_usize, flip in 0..2000_usize) {
        for packing in [Packing::Zip, Packing::Jar, Packing::Tar, Packing::GzippedTar, Packing::JarByPattern(None)] {
            let _either = Place::new().unpack(packing, bytes.clone());
        }
        for (packing, mut good) in [
            (Packing::Zip, zip_of(&[("a/b", "content"), ("c", "more")])),
            (Packing::Tar, tar_of(&[(FILE, "a/b", "content"), (LINK, "c", "a"), (FILE, "d", "more")])),
        ] {
            let flip = flip % good.len();
            good[flip] = good[flip].wrapping_add(1);
            let _either = Place::new().unpack(packing, good.clone());
            good.truncate(cut);
            let _either = Place::new().unpack(packing, good);
        }
    }
}
