//! Values of `${env.NAME}` and of Java system properties.

use std::collections::BTreeMap;
use std::fmt;

use nix::unistd::{User, getuid};

/// Environment variables, and the Java system properties that Hadoop's start scripts would derive
/// from them.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    system: BTreeMap<String, String>,
}

impl fmt::Debug for Environment {
    /// Formats the names only, as variables may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("variables", &self.variables.keys())
            .field("system", &self.system.keys())
            .finish()
    }
}

impl Environment {
    /// Returns an environment of these variables. The user's name is that of the process, as in
    /// Java, not that of a variable.
    ///
    /// Source: `hadoop-functions.sh` and `yarn` of Hadoop 3.4 for the properties that the scripts
    /// pass to Java with `-D`.
    #[must_use]
    pub fn new(variables: &BTreeMap<String, String>) -> Self {
        let variable = |name: &str| {
            variables
                .get(name)
                .filter(|value| !value.is_empty())
                .cloned()
        };
        // A user without an entry in the user database has only the environment's name.
        let account = User::from_uid(getuid()).ok().flatten();
        let user_name = account
            .as_ref()
            .map(|account| account.name.clone())
            .or_else(|| variable("USER"))
            .or_else(|| variable("LOGNAME"))
            .unwrap_or_else(|| getuid().to_string());
        let user_home = account
            .map(|account| account.dir.to_string_lossy().into_owned())
            .or_else(|| variable("HOME"))
            .unwrap_or_else(|| "/".to_owned());
        let home = variable("HADOOP_HOME");
        // The scripts always define the log folder; without a Hadoop on the machine it is beside
        // the other folders.
        let log_dir = variable("YARN_LOG_DIR")
            .or_else(|| variable("HADOOP_LOG_DIR"))
            .or_else(|| home.as_ref().map(|home| format!("{home}/logs")))
            .unwrap_or_else(|| "${hadoop.tmp.dir}/logs".to_owned());
        let mut system = BTreeMap::from([
            ("java.io.tmpdir".to_owned(), "/tmp".to_owned()),
            ("user.name".to_owned(), user_name),
            ("user.home".to_owned(), user_home),
            ("file.separator".to_owned(), "/".to_owned()),
            ("path.separator".to_owned(), ":".to_owned()),
            ("yarn.log.dir".to_owned(), log_dir.clone()),
            ("hadoop.log.dir".to_owned(), log_dir),
        ]);
        if let Some(home) = home {
            let yarn_home = variable("HADOOP_YARN_HOME").unwrap_or_else(|| home.clone());
            system.insert("yarn.home.dir".to_owned(), yarn_home);
            system.insert("hadoop.home.dir".to_owned(), home);
        }
        Self {
            variables: variables.clone(),
            system,
        }
    }

    /// Returns the value of a name inside `${…}` from outside the configuration: `env.X`,
    /// `env.X-default` (when unset), `env.X:-default` (when unset or empty), or a Java system
    /// property.
    pub(super) fn resolve(&self, name: &str) -> Option<String> {
        match name.strip_prefix("env.") {
            Some(rest) if !rest.is_empty() => self.resolve_variable(rest),
            Some(_) | None => self.system.get(name).cloned(),
        }
    }

    fn resolve_variable(&self, text: &str) -> Option<String> {
        // Hadoop looks for the first `:-` or `-`; a colon alone belongs to the name.
        let dash = match text.find('-') {
            None => return self.variables.get(text).cloned(),
            Some(dash) => dash,
        };
        let default = text[dash + 1..].to_owned();
        match text[..dash].strip_suffix(':') {
            Some(name) => {
                let set = self.variables.get(name).filter(|value| !value.is_empty());
                Some(set.cloned().unwrap_or(default))
            }
            None => Some(
                self.variables
                    .get(&text[..dash])
                    .cloned()
                    .unwrap_or(default),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        let variables = [("FOO", "foo"), ("EMPTY", "")];
        Environment::new(&variables.map(|(k, v)| (k.to_owned(), v.to_owned())).into())
    }

    /// Asserts the expansions of Hadoop 3.4.2 with `FOO=foo` and an empty `EMPTY`.
    #[test]
    fn variables_and_their_defaults_are_hadoops() {
        let environment = environment();
        for (name, hadoop) in [
            ("env.FOO", Some("foo")),
            ("env.FOO:-d", Some("foo")),
            ("env.NOPE:-d", Some("d")),
            ("env.NOPE-d", Some("d")),
            ("env.EMPTY:-d", Some("d")),
            ("env.EMPTY-d", Some("")),
            ("env.EMPTY", Some("")),
            ("env.NOPE", None),
            ("env.NOPE:-", Some("")),
            ("env.A-B-C", Some("B-C")),
            ("env.NOPE:x", None),
            ("env.", None),
            ("java.io.tmpdir", Some("/tmp")),
        ] {
            assert_eq!(environment.resolve(name).as_deref(), hadoop, "{name}");
        }
    }

    #[test]
    fn the_log_folder_is_the_one_that_the_start_scripts_pass_on() {
        let with = |pairs: &[(&str, &str)]| {
            let map = pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            Environment::new(&map.collect()).resolve("yarn.log.dir")
        };
        let home = ("HADOOP_HOME", "/opt/hadoop");
        assert_eq!(with(&[home]).as_deref(), Some("/opt/hadoop/logs"));
        let logs = ("HADOOP_LOG_DIR", "/var/log/hadoop");
        assert_eq!(with(&[home, logs]).as_deref(), Some("/var/log/hadoop"));
    }

    #[test]
    fn debug_output_shows_no_values() {
        let variables = [("DB_PASSWORD".to_owned(), "hunter2".to_owned())];
        let text = format!("{:?}", Environment::new(&variables.into()));
        assert!(text.contains("DB_PASSWORD") && !text.contains("hunter2"));
    }
}
