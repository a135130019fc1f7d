//! Values that must not be shown (Hadoop: `ConfigRedactor` and
//! `hadoop.security.sensitive-config-keys`).

use crate::site_xml::{Properties, Value};

/// Property that lists the patterns.
const SENSITIVE: &str = "hadoop.security.sensitive-config-keys";

/// Text in place of a secret.
pub const REDACTED: &str = "<redacted>";

/// Parts of names, between dots, hyphens and underscores, that mark a secret.
const TELLING_PARTS: [&str; 10] = [
    "password",
    "passwd",
    "passphrase",
    "pass",
    "secret",
    "secrets",
    "credential",
    "credentials",
    "key",
    "keys",
];

/// Last parts of names that tell of a measure of something, be it of keys: no secret is a measure.
const MEASURES: [&str; 10] = [
    "bitlength",
    "count",
    "enabled",
    "interval",
    "length",
    "ms",
    "sec",
    "secs",
    "seconds",
    "size",
];

/// Names that look like those of secrets, and whose values are words of a list.
const CHOICES: [&str; 1] = ["yarn.nodemanager.agent.amrmproxy.token"];

/// Patterns of the names of secrets. Hadoop's list is of regular expressions; of those `.*`, `.`
/// and a `$` at the end are supported, which is all that Hadoop's own list uses.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    patterns: Vec<String>,
}

impl Secrets {
    /// Parses the value of `hadoop.security.sensitive-config-keys`: patterns between blanks or
    /// commas.
    #[must_use]
    pub fn new(patterns: &str) -> Self {
        let patterns = patterns.split(|c: char| c.is_whitespace() || c == ',');
        Self {
            patterns: patterns
                .filter(|p| !p.is_empty())
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Returns the patterns that these properties configure.
    #[must_use]
    pub fn of(properties: &Properties) -> Self {
        let patterns = properties.get(SENSITIVE).ok().flatten();
        patterns.map_or_else(Self::default, |value| Self::new(&value.text))
    }

    /// Returns whether the value of this name must not be shown.
    #[must_use]
    pub fn is_secret(&self, name: &str) -> bool {
        if CHOICES.contains(&name) {
            return false;
        }
        let lower = name.to_ascii_lowercase();
        let tells = |part: &str| {
            TELLING_PARTS.contains(&part) || part.ends_with("password") || part.ends_with("secret")
        };
        let parts = || lower.split(['.', '-', '_']);
        let is_measure = parts()
            .next_back()
            .is_some_and(|last| MEASURES.contains(&last));
        (parts().any(tells) && !is_measure)
            || lower.ends_with("token")
            || self.patterns.iter().any(|pattern| found_in(pattern, name))
    }

    /// Returns the value for display, or [`REDACTED`] if it [must be hidden](Self::hides).
    #[must_use]
    pub fn show<'v>(&self, name: &str, value: &'v Value) -> &'v str {
        if self.hides(name, value) {
            REDACTED
        } else {
            &value.text
        }
    }

    /// Returns whether a value must be hidden: its name, or a name that was expanded in it, marks a
    /// secret, or it is a URI with a password.
    #[must_use]
    pub fn hides(&self, name: &str, value: &Value) -> bool {
        self.is_secret(name)
            || value.used.iter().any(|used| self.is_secret(used))
            || has_user_info(&value.text)
    }
}

/// Returns whether the text has a `scheme://…@` without a slash in between.
fn has_user_info(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        authority.contains('@')
    })
}

/// Returns whether the pattern matches any part of the name (Java: `Matcher.find`).
fn found_in(pattern: &str, name: &str) -> bool {
    let (pattern, at_end) = match pattern.strip_suffix('$') {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let (pattern, at_start) = match pattern.strip_prefix('^') {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let pieces: Vec<&[u8]> = pattern.split(".*").map(str::as_bytes).collect();
    let name = name.as_bytes();
    let last = pieces.len() - 1;
    let mut from = 0;
    for (index, piece) in pieces.iter().enumerate() {
        let mut starts = from..=name.len().saturating_sub(piece.len());
        let fits = |start: &usize| {
            name.get(*start..*start + piece.len()).is_some_and(|part| {
                let equal = |(p, b): (&u8, &u8)| *p == b'.' || p == b;
                piece.iter().zip(part).all(equal)
            })
        };
        let found = if index == last && at_end {
            // The end is fixed, so only one position is possible.
            Some(name.len().wrapping_sub(piece.len()))
                .filter(|start| starts.contains(start) && fits(start))
        } else {
            starts.find(fits)
        };
        match found {
            Some(start) if index == 0 && at_start && start != 0 => return false,
            Some(start) => from = start + piece.len(),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::site_xml::Origin;

    fn hadoops() -> Secrets {
        let key = crate::shared::TABLE.find(SENSITIVE);
        Secrets::new(key.unwrap().default.unwrap())
    }

    #[test]
    fn names_behind_which_secrets_stand_are_known() {
        for name in [
            "ssl.server.keystore.password",
            "fs.s3a.secret.key",
            "fs.s3a.bucket.nightly.secret.key",
            "fs.azure.account.key.store.blob.core.windows.net",
            "fs.azure.oauth2.client.id",
            "ssl.keystore.pass",
            "MY_DB_PASSWD",
            "service.accesstoken.token",
            "javax.jdo.option.ConnectionPassword",
        ] {
            assert!(hadoops().is_secret(name), "{name}");
        }
        for name in [
            "yarn.nodemanager.keytab",
            "yarn.nodemanager.address",
            "hadoop.security.token.service.use_ip",
            "yarn.nodemanager.local-dirs",
            "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs",
            "yarn.resourcemanager.container-tokens.master-key-rolling-interval-secs",
            "hadoop.security.key.default.bitlength",
        ] {
            assert!(!hadoops().is_secret(name), "{name}");
        }
    }

    #[test]
    fn a_value_that_took_in_a_secret_is_hidden_too() {
        let value = |text: &str, used: &[&str]| Value {
            text: text.to_owned(),
            origin: Origin::Default,
            used: used.iter().map(|u| (*u).to_owned()).collect(),
            unresolved: None,
        };
        let secrets = hadoops();
        assert_eq!(
            secrets.show("a.url", &value("x", &["env.DB_PASSWORD"])),
            REDACTED
        );
        assert_eq!(
            secrets.show("a.url", &value("s3a://id:word@bucket/x", &[])),
            REDACTED
        );
        assert_eq!(
            secrets.show("a.url", &value("http://host/x@y", &["user.name"])),
            "http://host/x@y"
        );
    }

    #[test]
    fn patterns_match_as_javas_find_does() {
        for (pattern, name, expected) in [
            ("secret$", "a.secret", true),
            ("secret$", "a.secret.b", false),
            ("fs.s3a.*.secret.key", "fs.s3a.bucket.x.secret.key", true),
            ("a.c", "xabcx", true),
            ("^a", "ba", false),
            ("oauth.*token", "oauth2.my.token.x", true),
            ("x$", "", false),
            ("", "anything", true),
        ] {
            assert_eq!(found_in(pattern, name), expected, "{pattern} in {name}");
        }
    }

    proptest! {
        #[test]
        fn no_pattern_panics(pattern in "[a.*$^]{0,12}", name in "\\PC{0,12}") {
            let _ = Secrets::new(&pattern).is_secret(&name);
        }
    }
}
