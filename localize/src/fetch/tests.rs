//! Downloads from folders of the test: checks at the source, and the result.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hadoop_fs::FsConfig;
use nix::sys::stat::Mode;
use records::ApplicationId;

use super::super::error::LocalizeError;
use super::super::layout::Scope;
use super::super::resource::Visibility;
use super::*;

const TIMESTAMP_MS: i64 = 1_700_000_000_123;

/// A source folder that all users may read, and an empty target.
struct Place {
    base: tempfile::TempDir,
    target: DirHandle,
}

impl Place {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        for name in ["source", "target"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        // Independent of the umask of the test.
        for path in [base.path(), &base.path().join("source")] {
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        let target = DirHandle::open_ambient(&base.path().join("target")).unwrap();
        Self { base, target }
    }

    fn source(&self, name: &str) -> PathBuf {
        self.base.path().join("source").join(name)
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.source(name), content).unwrap();
        self.finish(name, 0o644);
    }

    fn finish(&self, name: &str, mode: u32) {
        fs::set_permissions(self.source(name), Permissions::from_mode(mode)).unwrap();
        let milliseconds = u64::try_from(TIMESTAMP_MS).unwrap();
        // Microseconds must not matter.
        let time = Duration::from_millis(milliseconds) + Duration::from_micros(456);
        let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + time);
        File::open(self.source(name))
            .unwrap()
            .set_times(times)
            .unwrap();
    }

    fn spec(&self, name: &str, kind: ResourceKind) -> ResourceSpec {
        ResourceSpec {
            url: ResourceUrl {
                scheme: Some("file".to_owned()),
                user_info: None,
                host: None,
                port: None,
                path: self.source(name).to_str().unwrap().to_owned(),
            },
            size: -1,
            timestamp_ms: TIMESTAMP_MS,
            kind,
            visibility: Visibility::Public,
        }
    }

    fn fetch(&self, spec: &ResourceSpec, scope: &Scope) -> Result<u64, FetchError> {
        let sources = Sources {
            file_systems: Arc::new(FileSystems::new(FsConfig::default())),
            archives: Arc::new(archives::Here),
            own_user: "agent".to_owned(),
        };
        let asker = Asker {
            user: "joe".parse().unwrap(),
            application: ApplicationId::new(1, 1),
        };
        let wanted = Wanted {
            url: &spec.url,
            scope,
            asker: &asker,
        };
        fetch(&Fetch {
            spec,
            source: sources.opener()(&wanted, None)?.as_ref(),
            read_archive: &sources.archive_reader(&wanted),
            name: spec.url.name().unwrap(),
            target: &self.target,
            public: scope.is_public(),
            modes: scope.modes(),
            wall_clock: || EpochMillis(0),
            progress: &Progress::default(),
        })
    }

    fn fetch_file(&self, name: &str, scope: &Scope) -> Result<u64, FetchError> {
        self.fetch(&self.spec(name, ResourceKind::File), scope)
    }

    fn arrived(&self, name: &str) -> PathBuf {
        self.base.path().join("target").join(name)
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.arrived(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    }
}

fn private() -> Scope {
    Scope::Private("joe".parse().unwrap())
}

#[test]
fn a_file_arrives_read_only_for_those_who_share_it() {
    let place = Place::new();
    place.write("f", b"content");
    assert_eq!(place.fetch_file("f", &Scope::Public).unwrap(), 7);
    assert_eq!(fs::read(place.arrived("f")).unwrap(), b"content");
    assert_eq!(place.mode("f"), 0o555);

    let place = Place::new();
    place.write("f", b"content");
    place.fetch_file("f", &private()).unwrap();
    assert_eq!(place.mode("f"), 0o500);
}

#[test]
fn a_source_of_another_time_is_refused_in_hadoops_words() {
    let place = Place::new();
    place.write("f", b"content");
    let mut spec = place.spec("f", ResourceKind::File);
    spec.timestamp_ms += 1;
    let error = place.fetch(&spec, &Scope::Public).unwrap_err();
    let expected = format!(
        "Resource file:{} changed on src filesystem - expected: \"2023-11-14T22:13:20.124+0000\", \
         was: \"2023-11-14T22:13:20.123+0000\", current time: \"1970-01-01T00:00:00.000+0000\"",
        place.source("f").display()
    );
    assert_eq!(error.to_string(), expected);
    assert!(!place.arrived("f").exists());
}

#[test]
fn times_outside_the_calendar_are_printed_as_numbers() {
    assert_eq!(iso_8601(i64::MAX), i64::MAX.to_string());
    assert_eq!(iso_8601(i64::MIN), i64::MIN.to_string());
    assert_eq!(iso_8601(-1), "1969-12-31T23:59:59.999+0000");
}

#[track_caller]
fn assert_not_public(place: &Place, name: &str) {
    let error = place.fetch_file(name, &Scope::Public).unwrap_err();
    let path = place.source(name);
    let expected = format!(
        "Resource file:{} is not publicly accessible and as such cannot be part of the public cache.",
        path.display()
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_public_file_must_be_readable_and_reachable_for_others() {
    let place = Place::new();
    place.write("f", b"content");
    place.finish("f", 0o640);
    assert_not_public(&place, "f");
    assert!(place.fetch_file("f", &private()).is_ok());

    let place = Place::new();
    place.write("f", b"content");
    fs::set_permissions(place.base.path(), Permissions::from_mode(0o754)).unwrap();
    assert_not_public(&place, "f");
}

#[test]
fn a_public_link_is_judged_by_the_file_it_leads_to() {
    let place = Place::new();
    let hidden = place.base.path().join("hidden");
    fs::create_dir(&hidden).unwrap();
    place.write("../hidden/f", b"secret");
    fs::set_permissions(&hidden, Permissions::from_mode(0o700)).unwrap();
    symlink(hidden.join("f"), place.source("link")).unwrap();
    assert_not_public(&place, "link");
}

#[test]
fn a_public_folder_must_be_readable_throughout() {
    let place = Place::new();
    fs::create_dir_all(place.source("d/inner")).unwrap();
    place.write("d/inner/f", b"content");
    place.finish("d/inner/f", 0o600);
    place.finish("d", 0o755);
    assert_not_public(&place, "d");
}

#[test]
fn a_folder_is_copied_whatever_its_type() {
    let place = Place::new();
    fs::create_dir_all(place.source("d.zip/inner/empty")).unwrap();
    place.write("d.zip/inner/f", b"content");
    symlink("f", place.source("d.zip/inner/link")).unwrap();
    place.finish("d.zip", 0o755);
    let spec = place.spec("d.zip", ResourceKind::Archive);
    assert_eq!(place.fetch(&spec, &private()).unwrap(), 14);
    assert_eq!(
        fs::read(place.arrived("d.zip/inner/link")).unwrap(),
        b"content"
    );
    assert_eq!(place.mode("d.zip/inner/empty"), 0o700);
    assert_eq!(place.mode("d.zip/inner/f"), 0o500);
}

#[test]
fn links_to_nothing_in_a_folder_are_left_out() {
    let place = Place::new();
    fs::create_dir(place.source("d")).unwrap();
    place.write("d/f", b"content");
    for (name, target) in [
        ("missing", "nothing"),
        ("below", "f/x"),
        ("circle", "circle"),
    ] {
        symlink(target, place.source("d").join(name)).unwrap();
    }
    place.finish("d", 0o755);
    assert_eq!(place.fetch_file("d", &Scope::Public).unwrap(), 7);
    let names = fs::read_dir(place.arrived("d")).unwrap();
    let names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
    assert_eq!(names, ["f"]);
}

#[test]
fn a_folder_that_links_to_itself_ends() {
    let place = Place::new();
    fs::create_dir(place.source("d")).unwrap();
    symlink(".", place.source("d/again")).unwrap();
    place.finish("d", 0o755);
    // Where the kernel's limit on links ends the path, the link leads to nothing, as for Java.
    assert_eq!(place.fetch_file("d", &private()).unwrap(), 0);
    let inner = |depth: usize| place.arrived("d").join(["again"].repeat(depth).join("/"));
    assert!(inner(30).is_dir() && !inner(41).exists());
}

#[test]
fn pipes_and_devices_are_refused_without_waiting_for_them() {
    let place = Place::new();
    nix::unistd::mkfifo(&place.source("pipe"), Mode::S_IRWXU).unwrap();
    let error = place.fetch_file("pipe", &private()).unwrap_err();
    assert!(matches!(error, FetchError::SpecialFile { .. }), "{error:?}");
    let mut spec = place.spec("pipe", ResourceKind::File);
    spec.url.path = "/dev/zero".to_owned();
    let error = place.fetch(&spec, &private()).unwrap_err();
    assert!(matches!(error, FetchError::SpecialFile { .. }), "{error:?}");
}

#[test]
fn a_missing_source_and_a_foreign_scheme_are_named() {
    let place = Place::new();
    let error = place.fetch_file("missing", &private()).unwrap_err();
    assert!(matches!(error, FetchError::Missing { .. }), "{error:?}");
    let mut spec = place.spec("f", ResourceKind::File);
    spec.url.scheme = Some("s3a".to_owned());
    spec.url.host = Some("bucket".to_owned());
    let url = spec.url.to_string();
    let source = Arc::new(place.fetch(&spec, &private()).unwrap_err());
    let link = "f".to_owned();
    let text = LocalizeError::Resource { link, url, source }.diagnostics();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "No FileSystem for scheme \"s3a\"");
    assert!(
        lines[2].starts_with("cannot read s3a://bucket/") && lines[2].ends_with("are read"),
        "{text}"
    );
}

#[test]
fn an_archive_is_unpacked_and_an_unknown_one_copied() {
    let place = Place::new();
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    tar.append_data(&mut header, "inner", &b"x"[..]).unwrap();
    let tar = tar.into_inner().unwrap();
    place.write("a.tar", &tar);
    place.write("a.rar", &tar);
    for (name, packed) in [("a.tar", false), ("a.rar", true)] {
        place
            .fetch(&place.spec(name, ResourceKind::Archive), &private())
            .unwrap();
        assert_eq!(place.arrived(name).is_file(), packed, "{name}");
    }
    assert_eq!(fs::read(place.arrived("a.tar/inner")).unwrap(), b"x");
}

#[test]
fn a_download_that_nobody_waits_for_is_given_up() {
    let place = Place::new();
    place.write("f", b"content");
    let spec = place.spec("f", ResourceKind::File);
    let given_up = Progress::default();
    given_up.give_up();
    let error = fetch(&Fetch {
        spec: &spec,
        name: "f",
        target: &place.target,
        public: false,
        modes: private().modes(),
        wall_clock: || EpochMillis(0),
        progress: &given_up,
        source: &LocalSource { reader: None },
        read_archive: &archives::read,
    });
    assert!(matches!(error, Err(FetchError::GivenUp)), "{error:?}");
}
