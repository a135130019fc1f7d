//! Java's `keytool`, which writes the key stores that Java reads.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::skip;

/// Password of all stores that [`Keytool`] makes.
pub const STORE_PASSWORD: &str = "store-password";

/// `keytool` at work in one folder, where its files have the names that the test gives them.
#[derive(Clone, Debug)]
pub struct Keytool {
    folder: PathBuf,
}

impl Keytool {
    /// Returns the tool in a folder; without Java, skips the test of this name and returns `None`.
    #[must_use]
    pub fn find(test: &str, folder: &Path) -> Option<Self> {
        let mut command = Command::new("keytool");
        let command = command.arg("-help");
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        if command.status().is_ok_and(|status| status.success()) {
            return Some(Self {
                folder: folder.to_path_buf(),
            });
        }
        skip::skip(test, &"keytool is missing: it comes with Java");
        None
    }

    /// Returns the path of a file in the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs the tool with arguments, between blanks.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, arguments: &str) {
        let mut command = Command::new("keytool");
        let command = command.current_dir(&self.folder);
        // Tests make stores by the dozen: no second compiler, no second processor for each.
        let command = command.args(["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"]);
        let output = command.args(arguments.split_whitespace()).output();
        let output = output.unwrap_or_else(|error| panic!("cannot run keytool: {error}"));
        assert!(output.status.success(), "{arguments}: {output:?}");
    }

    /// Makes a key, with a certificate that it signs itself, in a store that may be new. The
    /// arguments after the kind of the key, such as `EC`, may name the format and more.
    ///
    /// # Panics
    /// When the tool fails.
    pub fn add_key(&self, store: &str, alias: &str, arguments: &str) {
        self.run(&format!(
            "-genkeypair -keystore {store} -storepass {STORE_PASSWORD} -alias {alias} \
             -dname CN={alias} -ext san=dns:localhost,ip:127.0.0.1 -keyalg {arguments}"
        ));
    }

    /// Writes the certificate of a store's entry into a file.
    ///
    /// # Panics
    /// When the tool fails.
    pub fn export(&self, store: &str, alias: &str, file: &str) {
        self.run(&format!(
            "-exportcert -keystore {store} -storepass {STORE_PASSWORD} -alias {alias} -file {file}"
        ));
    }

    /// Adds a certificate to a store: a trusted one, or the answer to the request of a key of this
    /// alias. More arguments may name the format.
    ///
    /// # Panics
    /// When the tool fails.
    pub fn import(&self, store: &str, alias: &str, file: &str, more: &str) {
        self.run(&format!(
            "-importcert -noprompt -keystore {store} -storepass {STORE_PASSWORD} -alias {alias} \
             -file {file} {more}"
        ));
    }
}
