//! Folders of containers, and the directories that they are on.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};

use super::*;

const CONTAINER: &str = "container_1700000000000_0007_01_000002";

fn id() -> ContainerId {
    ApplicationId::new(1_700_000_000_000, 7)
        .attempt(1)
        .container(2)
}

fn config(base: &Path) -> DirsConfig {
    DirsConfig {
        local_dirs: vec![base.join("l0"), base.join("l1")],
        log_dirs: vec![base.join("g0"), base.join("g1")],
        log_dir_permissions: 0o710,
        log_retain_sec: 0,
    }
}

fn started(base: &Path) -> StartedDirs {
    NodeDirs::start(&config(base), None, EpochMillis(5)).unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path)
        .unwrap()
        .permissions()
        .mode()
        & 0o7777
}

#[test]
fn container_gets_folders_on_every_disk_with_closed_modes() {
    let base = tempfile::tempdir().unwrap();
    let dirs = started(base.path()).dirs;
    let (id, user) = (id(), "joe".parse().unwrap());
    let made = dirs.create_container_dirs(&id, &user).unwrap();
    let app = "usercache/joe/appcache/application_1700000000000_0007";
    for local in ["l0", "l1"] {
        let local = base.path().join(local);
        assert_eq!(mode(&local.join("usercache/joe")), 0o750);
        assert_eq!(mode(&local.join("usercache/joe/appcache")), 0o710);
        assert_eq!(mode(&local.join(app)), 0o710);
        assert_eq!(mode(&local.join(app).join(CONTAINER)), 0o710);
    }
    assert_eq!(mode(made.log_dir.path()), 0o710);
    let work_dir = made.work_dir.path();
    assert!(work_dir.ends_with(format!("{app}/{CONTAINER}")));
    let b = base.path();
    assert_eq!(
        made.local_dirs,
        [b.join("l0").join(app), b.join("l1").join(app)]
    );
    let user = "usercache/joe";
    assert_eq!(
        made.local_user_dirs,
        [b.join("l0").join(user), b.join("l1").join(user)]
    );
    let log = format!("application_1700000000000_0007/{CONTAINER}");
    assert_eq!(
        made.log_dirs,
        [b.join("g0").join(&log), b.join("g1").join(&log)]
    );
}

#[test]
fn a_link_planted_in_place_of_an_application_folder_is_not_followed() {
    let base = tempfile::tempdir().unwrap();
    let dirs = started(base.path()).dirs;
    let outside = base.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    for local in ["l0", "l1"] {
        let user = base.path().join(local).join("usercache/joe");
        std::fs::create_dir(&user).unwrap();
        symlink(&outside, user.join("appcache")).unwrap();
    }
    let (id, user) = (id(), "joe".parse().unwrap());
    assert!(dirs.create_container_dirs(&id, &user).is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn a_folder_is_not_opened_through_a_link_that_took_the_place_of_one_above_it() {
    let base = tempfile::tempdir().unwrap();
    let dirs = started(base.path()).dirs;
    let (id, user) = (id(), "joe".parse().unwrap());
    let made = dirs.create_container_dirs(&id, &user).unwrap();
    for folder in [&made.work_dir, &made.log_dir] {
        folder.open().unwrap();
        let application = folder.path().parent().unwrap();
        let moved = application.with_extension("moved");
        std::fs::rename(application, &moved).unwrap();
        symlink(&moved, application).unwrap();
        assert!(folder.path().is_dir());
        assert!(folder.open().is_err(), "{folder:?}");
    }
}

#[test]
fn a_folder_that_was_just_made_is_open_already() {
    let base = tempfile::tempdir().unwrap();
    let dirs = started(base.path()).dirs;
    let (id, user) = (id(), "joe".parse().unwrap());
    let made = dirs.create_container_dirs(&id, &user).unwrap();
    // The handle goes to one who opens it, and is not kept for others.
    let folder = made.clone().work_dir;
    let moved = folder.path().with_extension("moved");
    std::fs::rename(folder.path(), &moved).unwrap();
    let opened = folder.open().unwrap();
    opened.create_file("x", 0o600).unwrap();
    assert!(moved.join("x").exists());
    assert!(folder.open().is_err());
    assert!(made.work_dir.open().is_err());
}

#[test]
fn a_disk_that_fails_is_left_out_of_the_lists() {
    let base = tempfile::tempdir().unwrap();
    let dirs = started(base.path()).dirs;
    let made: Vec<_> = {
        std::fs::remove_dir(base.path().join("l1/usercache")).unwrap();
        std::fs::write(base.path().join("l1/usercache"), "in the way").unwrap();
        let steps = layout::application_steps(
            Modes::OF_AGENT,
            &"joe".parse().unwrap(),
            id().application_id(),
        );
        {
            let local = dirs.view().readable(DirKind::Local);
            make_on_all(&local, &local[0], &steps, None)
                .map(|(made, _)| made.into_iter().cloned().collect())
                .unwrap()
        }
    };
    assert_eq!(made.len(), 1);
    assert_eq!(made[0].path, base.path().join("l0"));
}

#[test]
fn a_configured_directory_that_cannot_be_made_is_reported_and_the_others_serve() {
    let base = tempfile::tempdir().unwrap();
    std::fs::write(base.path().join("file"), "").unwrap();
    let mut config = DirsConfig {
        local_dirs: vec![base.path().join("file/l"), base.path().join("l")],
        log_dirs: vec![base.path().join("g")],
        log_dir_permissions: 0o710,
        log_retain_sec: 0,
    };
    let started = NodeDirs::start(&config, None, EpochMillis(5)).unwrap();
    assert_eq!(started.dirs.view().readable(DirKind::Local).len(), 1);
    assert_eq!(started.dirs.report().local.bad, 1);
    drop(started);
    config.local_dirs.pop();
    let error = NodeDirs::start(&config, None, EpochMillis(5)).unwrap_err();
    assert!(matches!(
        &error,
        DirsError::NoneUsable {
            kind: "local-dirs",
            ..
        }
    ));
}

/// Records what a check of a directory would find.
fn set(dirs: &NodeDirs, kind: DirKind, index: usize, measured: Result<u64, &str>) {
    let mut view = (*dirs.view()).clone();
    let space = |free_bytes| dir_handle::DiskSpace {
        total_bytes: 100,
        free_bytes,
    };
    let measured = measured.map(space).map_err(str::to_owned);
    view.health.measured(kind, index, measured);
    dirs.set_view(view);
}

#[test]
fn new_files_avoid_full_and_failed_directories_and_old_ones_are_found_on_full_ones() {
    let base = tempfile::tempdir().unwrap();
    let config = config(base.path());
    let health = DiskHealthConfig {
        interval_ms: 1,
        min_healthy_disks: 0.5,
        max_utilization_percent: Some(100.0),
        utilization_watermark_low_percent: 100.0,
        min_free_space_mb: None,
        free_space_watermark_high_mb: 0,
    };
    let dirs = NodeDirs::start(&config, Some(health), EpochMillis(5))
        .unwrap()
        .dirs;
    let (id, user) = (id(), "joe".parse().unwrap());
    let application = ContainerId::application_id(&id);
    let made = |dirs: &NodeDirs| dirs.create_container_dirs(&id, &user).unwrap();
    assert_eq!(made(&dirs).log_dirs.len(), 2);
    for full_or_failed in [Ok(0), Err("broken")] {
        let is_read = full_or_failed.is_ok();
        for (kind, index) in [(DirKind::Local, 0), (DirKind::Log, 1)] {
            set(&dirs, kind, index, full_or_failed);
        }
        let made = made(&dirs);
        let (local, log) = (base.path().join("l1"), base.path().join("g0"));
        assert!(made.work_dir.path().starts_with(&local));
        assert!(made.log_dir.path().starts_with(&log));
        assert_eq!((made.local_dirs.len(), made.log_dirs.len()), (1, 1));
        for bytes in [0, 10] {
            assert_eq!(dirs.choose_for(bytes, &mut rand::rng()).unwrap(), 1);
        }
        let count = 1 + usize::from(is_read);
        assert_eq!(dirs.open_log_folders(application).len(), count);
        assert_eq!(dirs.log_deletions(application).len(), count);
        assert_eq!(dirs.container_deletions(&id, &user).len(), count);
        assert_eq!(dirs.application_folders(application, &user).len(), count);
        assert_eq!(dirs.local(0).is_some(), is_read);
        assert_eq!(dirs.report().readable_log_dirs.len(), count);
        dirs.require_enough().unwrap();
    }
    set(&dirs, DirKind::Log, 0, Ok(0));
    assert!(matches!(
        dirs.require_enough(),
        Err(DirsError::DisksFailed { .. })
    ));
    assert!(dirs.create_container_dirs(&id, &user).is_err());
}

/// Accounts by which every submitter's containers run as `nobody`; `None` where this process may
/// not give files away, which is printed.
fn nobody_for_all(test: &str) -> Option<Arc<Users>> {
    if let Some(obstacle) = users::obstacles().first() {
        test_support::skip::skip(test, obstacle);
        return None;
    }
    let pattern = users::UserPattern::new(".*").unwrap();
    let rules = users::Rules::new(users::RunAs::One("nobody".to_owned()), pattern);
    Some(Arc::new(Users::new(rules, None).unwrap()))
}

#[test]
fn folders_of_users_belong_to_the_account_and_what_is_above_does_not() {
    let test = "folders_of_users_belong_to_the_account_and_what_is_above_does_not";
    let Some(users) = nobody_for_all(test) else {
        return;
    };
    let nobody = users.run_as("joe").unwrap().uid();
    let base = tempfile::tempdir().unwrap();
    let dirs = started(base.path()).dirs.for_users(Some(users));
    let (id, user) = (id(), "joe".parse().unwrap());
    // The first time all folders are made, the second time those above are found.
    for _ in 0..2 {
        let made = dirs.create_container_dirs(&id, &user).unwrap();
        made.work_dir.open().unwrap().create("inner", 0o700).ok();
        let inner = made.work_dir.path().join("inner");
        for (path, expected) in [
            (base.path().join("l0/usercache"), 0),
            (base.path().join("l0/usercache/joe"), nobody),
            (base.path().join("l1/usercache/joe/appcache"), nobody),
            (made.work_dir.path().to_owned(), nobody),
            (inner, nobody),
            (made.log_dir.path().parent().unwrap().to_owned(), nobody),
            (made.log_dir.path().to_owned(), nobody),
        ] {
            let owner = std::fs::metadata(&path).unwrap().uid();
            assert_eq!(owner, expected, "{}", path.display());
        }
        assert_eq!(mode(&base.path().join("l0/usercache/joe")), 0o2750);
        assert_eq!(mode(made.work_dir.path()), 0o2750);
        assert_eq!(mode(made.log_dir.path()), 0o2750);
    }
}

#[test]
fn folders_of_another_account_are_not_used() {
    let test = "folders_of_another_account_are_not_used";
    let Some(users) = nobody_for_all(test) else {
        return;
    };
    let base = tempfile::tempdir().unwrap();
    let dirs = started(base.path()).dirs;
    let (id, user) = (id(), "joe".parse().unwrap());
    // An earlier run had containers of the agent's own user.
    dirs.create_container_dirs(&id, &user).unwrap();
    let dirs = dirs.for_users(Some(users));
    let error = dirs.create_container_dirs(&id, &user).unwrap_err();
    let text = crate::error_chain(&error);
    assert!(text.contains("belongs to user id 0"), "{text}");
}
