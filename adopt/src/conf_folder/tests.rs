use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::*;
use crate::record::tests::adoption;
use crate::record::{Stage, Step};

fn folder() -> (TempDir, ConfFolder) {
    let folder = tempfile::tempdir().unwrap();
    let conf = ConfFolder::open(folder.path()).unwrap();
    (folder, conf)
}

fn names(folder: &TempDir) -> Vec<String> {
    let names = fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_record_is_replaced_as_a_whole_and_removed() {
    let (folder, conf) = folder();
    assert!(conf.record().unwrap().is_none());
    for stage in [Stage::Going(Step::WriteSite), Stage::Done] {
        let record = Record::new(stage, adoption());
        conf.store(&record).unwrap();
        assert_eq!(conf.record().unwrap(), Some(record));
        assert_eq!(names(&folder), [RECORD]);
    }
    conf.forget().unwrap();
    conf.forget().unwrap();
    assert!(names(&folder).is_empty());
}

#[test]
fn a_record_that_another_user_may_have_written_is_refused() {
    let (folder, conf) = folder();
    conf.store(&Record::new(Stage::Done, adoption())).unwrap();
    let path = folder.path().join(RECORD);
    for mode in [0o664, 0o646] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = conf.record().unwrap_err();
        assert!(matches!(error, RecordError::Untrusted { .. }), "{error}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(conf.record().unwrap().is_some());
    if geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        let error = conf.record().unwrap_err();
        assert!(
            matches!(error, RecordError::Untrusted { owner: 12345, .. }),
            "{error}"
        );
    }
}

#[test]
fn a_link_or_a_folder_in_place_of_the_record_is_an_error_and_nothing_is_written_through_it() {
    let (folder, conf) = folder();
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("target");
    let record = Record::new(Stage::Done, adoption());
    fs::write(&target, record.to_bytes().unwrap()).unwrap();
    symlink(&target, folder.path().join(RECORD)).unwrap();
    assert!(matches!(conf.record(), Err(RecordError::Io(_))));
    symlink(&target, folder.path().join(HALF_WRITTEN)).unwrap();
    conf.store(&Record::new(Stage::Going(Step::WriteSite), adoption()))
        .unwrap();
    assert_eq!(fs::read(&target).unwrap(), record.to_bytes().unwrap());
    assert!(conf.record().unwrap().is_some());
    conf.forget().unwrap();
    fs::create_dir(folder.path().join(RECORD)).unwrap();
    assert!(matches!(conf.record(), Err(RecordError::Io(_))));
}

#[test]
fn a_link_in_place_of_the_folder_of_profiles_is_not_followed() {
    let (folder, conf) = folder();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), folder.path().join(PROFILES)).unwrap();
    conf.link_profile(Path::new("/profile")).unwrap_err();
    assert!(names(&elsewhere).is_empty());
}

#[test]
fn the_profile_is_linked_once_and_removed_with_the_folder_that_was_made_for_it() {
    let (folder, conf) = folder();
    let profile = Path::new("/profile");
    conf.link_profile(profile).unwrap();
    conf.link_profile(profile).unwrap();
    assert!(conf.has_profile());
    assert_eq!(conf.unlink_profile(profile, true).unwrap(), Removed::Gone);
    assert!(names(&folder).is_empty());
    assert_eq!(conf.unlink_profile(profile, true).unwrap(), Removed::Gone);

    // Somebody else's link, and somebody else's folder, stay.
    conf.link_profile(Path::new("/other")).unwrap();
    conf.link_profile(profile).unwrap_err();
    assert_eq!(
        conf.unlink_profile(profile, true).unwrap(),
        Removed::Changed
    );
    fs::write(folder.path().join(PROFILES).join("theirs.sh"), "").unwrap();
    let other = Path::new("/other");
    assert_eq!(conf.unlink_profile(other, true).unwrap(), Removed::Gone);
    assert_eq!(names(&folder), [PROFILES]);
}

#[test]
fn properties_that_an_operator_changed_stay() {
    let (folder, conf) = folder();
    conf.write_site("ours").unwrap();
    assert_eq!(conf.remove_site("ours").unwrap(), Removed::Gone);
    assert_eq!(conf.remove_site("ours").unwrap(), Removed::Gone);
    assert!(!conf.has_site());
    fs::write(folder.path().join(SITE), "theirs").unwrap();
    assert_eq!(conf.remove_site("ours").unwrap(), Removed::Changed);
    assert!(conf.has_site());
}

#[test]
fn a_folder_that_everybody_may_write_to_is_refused() {
    let (folder, _) = folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let error = ConfFolder::open(folder.path()).unwrap_err();
    assert!(matches!(error, FolderError::Open(_)), "{error}");
}

#[test]
fn two_runs_at_once_are_kept_apart() {
    let (folder, conf) = folder();
    let _lock = conf.lock().unwrap();
    let second = ConfFolder::open(folder.path()).unwrap();
    assert!(matches!(second.lock(), Err(FolderError::Busy { .. })));
}
