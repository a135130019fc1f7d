//! The markers that clients leave in commands and values for the NodeManager to fill in, and the
//! Java version that one of them depends on.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Text that replaces `<ADD_OPENS>` for Java 17 and later (Hadoop:
/// `ApplicationConstants.JVM_ADD_OPENS_VAR` and `Shell.ADDITIONAL_JDK17_PLUS_OPTIONS`). Java 8
/// would refuse to start with it.
const ADD_OPENS_OPTIONS: &str = "--add-opens=java.base/java.lang=ALL-UNNAMED \
     --add-exports=java.base/sun.net.dns=ALL-UNNAMED --add-exports=java.base/sun.net.util=ALL-UNNAMED";
const ADD_OPENS_SINCE: u32 = 17;

/// Bytes read of a `release` file; real ones have about 1 KiB.
const RELEASE_READ_MAX: u64 = 64 * 1024;

/// Returns whether a text may contain a marker; most do not.
pub(super) fn has_markers(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'<' | b'{' | b'}'))
}

/// Fills in `<LOG_DIR>`, `<CPS>`, `<ADD_OPENS>`, `{{` and `}}`, in this order (Hadoop:
/// `ContainerLaunch.expandEnvironment`).
pub(super) fn expand(text: &str, log_dir: &str, java_feature_version: Option<u32>) -> String {
    let add_opens = match java_feature_version {
        Some(version) if version >= ADD_OPENS_SINCE => ADD_OPENS_OPTIONS,
        Some(_) | None => "",
    };
    text.replace("<LOG_DIR>", log_dir)
        .replace("<CPS>", ":")
        .replace("<ADD_OPENS>", add_opens)
        .replace("{{", "$")
        .replace("}}", "")
}

/// The feature version (8, 11, 17 …) of the Java in `environment`'s `JAVA_HOME`, from its `release`
/// file, so that no JVM is started to ask. A NodeManager in Java asks its own runtime; containers
/// get the same `JAVA_HOME` through the environment whitelist. `None`: no `JAVA_HOME`, no such file
/// or nothing in it. To be read once, at start.
#[must_use]
pub fn java_feature_version(environment: &BTreeMap<String, String>) -> Option<u32> {
    let java_home = environment
        .get("JAVA_HOME")
        .filter(|home| !home.is_empty())?;
    let file = File::open(Path::new(java_home).join("release")).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut release = String::new();
    file.take(RELEASE_READ_MAX)
        .read_to_string(&mut release)
        .ok()?;
    release.lines().find_map(|line| {
        let version = line.trim().strip_prefix("JAVA_VERSION=")?;
        parse_feature_version(version.trim_matches('"'))
    })
}

/// `1.8.0_392` is 8, `17.0.9` and `17-ea` are 17.
fn parse_feature_version(version: &str) -> Option<u32> {
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    match numbers.next()? {
        Ok(1) => numbers.next()?.ok(),
        first => first.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_become_what_bash_reads() {
        let text = "{{JAVA_HOME}}/bin/java <ADD_OPENS> -cp {{PWD}}<CPS>lib/* 1><LOG_DIR>/stdout";
        assert_eq!(
            expand(text, "/logs/c1", Some(11)),
            "$JAVA_HOME/bin/java  -cp $PWD:lib/* 1>/logs/c1/stdout"
        );
        for text in ["<LOG_DIR>", "<CPS>", "<ADD_OPENS>", "{{", "}}"] {
            assert!(
                has_markers(text) && expand(text, "", None) != text,
                "{text}"
            );
        }
        let plain = "a:$B/`c`>d";
        assert!(!has_markers(plain) && expand(plain, "", None) == plain);
    }

    #[test]
    fn add_opens_depends_on_the_java_version() {
        assert!(
            expand("<ADD_OPENS>", "", Some(17)).starts_with("--add-opens=java.base/java.lang=")
        );
        assert_eq!(expand("<ADD_OPENS>", "", Some(16)), "");
        assert_eq!(expand("<ADD_OPENS>", "", None), "");
    }

    #[test]
    fn feature_versions_of_old_and_new_java_are_read() {
        for (text, version) in [
            ("1.8.0_392", Some(8)),
            ("11.0.21", Some(11)),
            ("17", Some(17)),
            ("21-ea", Some(21)),
            ("", None),
            ("x", None),
            ("1", None),
            ("99999999999", None),
        ] {
            assert_eq!(parse_feature_version(text), version, "{text}");
        }
    }

    #[test]
    fn the_release_file_of_java_home_is_asked() {
        let home = tempfile::tempdir().unwrap();
        let mut environment = BTreeMap::new();
        assert_eq!(java_feature_version(&environment), None);
        environment.insert(
            "JAVA_HOME".to_owned(),
            home.path().to_str().unwrap().to_owned(),
        );
        assert_eq!(java_feature_version(&environment), None);
        std::fs::write(
            home.path().join("release"),
            "IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"17.0.9\"\n",
        )
        .unwrap();
        assert_eq!(java_feature_version(&environment), Some(17));
    }
}
