//! A process of its own for each test with a realm, since the library takes its configuration from
//! the environment.

use std::path::Path;
use std::process::Command;

use test_support::realm::{self, Realm};
use test_support::skip;

/// Variable by which a process knows that it has a test for itself, and the folder of its realm.
const FOLDER: &str = "GSSAPI_TEST_REALM";

/// Runs a test in a process whose library is that of a new realm.
pub(crate) fn in_realm(name: &str, test: impl FnOnce(Realm)) {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return test(Realm::start(Path::new(&folder)));
    }
    if let Err(why) = realm::is_possible() {
        return skip::skip(name, &why);
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(FOLDER, folder.path())
        .env("KRB5_CONFIG", folder.path().join("krb5.conf"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{told}"
    );
}
