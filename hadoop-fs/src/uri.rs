//! URIs of files, as Hadoop's `Path` reads and prints them.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Location of a file: file system and path. Parts that are absent come from the default file
/// system.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uri {
    /// Scheme of the file system, such as `hdfs`; absent for the default file system.
    pub scheme: Option<String>,
    /// Host or logical name of the file system; absent for `file`.
    pub host: Option<String>,
    /// Port; absent when the scheme's own port or a logical name is meant.
    pub port: Option<u16>,
    /// Absolute path inside the file system, not percent-encoded. One that was read has no empty
    /// component.
    pub path: String,
}

/// Text that names no file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not a URI of a file: {reason}")]
pub struct ParseUriError {
    /// The text as given.
    pub text: String,
    /// Rule that the text breaks.
    pub reason: &'static str,
}

impl Uri {
    /// Returns the URI of an absolute path on this machine.
    #[must_use]
    pub fn file(path: impl Into<String>) -> Self {
        Self {
            scheme: Some("file".to_owned()),
            path: path.into(),
            ..Self::default()
        }
    }

    /// Returns the URI of another path in the same file system.
    #[must_use]
    pub fn with_path(&self, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            ..self.clone()
        }
    }

    /// Returns the URI with what it takes from the default file system (Hadoop:
    /// `Path.makeQualified`).
    #[must_use]
    pub fn resolved(&self, default_fs: &Self) -> Self {
        let is_default = match &self.scheme {
            None => self.host.is_none(),
            Some(_) if self.has_scheme("file") => false,
            Some(scheme) => self.host.is_none() && default_fs.has_scheme(scheme),
        };
        if is_default {
            return default_fs.with_path(&self.path);
        }
        let scheme = self.scheme.clone().or_else(|| default_fs.scheme.clone());
        Self {
            scheme,
            ..self.clone()
        }
    }

    /// Returns whether the scheme is this one, in whatever case.
    #[must_use]
    pub fn has_scheme(&self, scheme: &str) -> bool {
        let own = self.scheme.as_deref();
        own.is_some_and(|own| own.eq_ignore_ascii_case(scheme))
    }
}

impl fmt::Display for Uri {
    /// Formats the URI as Hadoop's `Path` does: `file:/a/b`, `hdfs://host:8020/a/b`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = &self.scheme {
            write!(f, "{scheme}:")?;
        }
        if let Some(host) = &self.host {
            write!(f, "//{host}")?;
            if let Some(port) = self.port {
                write!(f, ":{port}")?;
            }
        }
        f.write_str(&self.path)
    }
}

impl FromStr for Uri {
    type Err = ParseUriError;

    /// Reads `scheme://host:port/path`, of which only the path must be present. A URI without a
    /// path, such as `hdfs://host`, means the root. Slashes that repeat one or end the path are
    /// left out (Hadoop: `Path.normalizePath`).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |reason| ParseUriError {
            text: text.to_owned(),
            reason,
        };
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme.to_owned()), rest),
            Some(_) | None => (None, text),
        };
        let Some(rest) = rest.strip_prefix("//") else {
            if !rest.starts_with('/') {
                return Err(error("its path is not absolute"));
            }
            return Ok(Self {
                scheme,
                path: normalized(rest),
                ..Self::default()
            });
        };
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        // User information may hold a password and is of no use to `hdfs`.
        let authority = authority.rsplit_once('@').map_or(authority, |(_, end)| end);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let port = port.parse().map_err(|_| error("its port is no number"))?;
                (host, Some(port))
            }
            Some(_) | None => (authority, None),
        };
        if host.is_empty() && port.is_some() {
            return Err(error("it has a port without a host"));
        }
        let host = Some(host.to_owned()).filter(|host| !host.is_empty());
        Ok(Self {
            scheme,
            host,
            port,
            path: normalized(path),
        })
    }
}

/// Returns the absolute path without empty components.
fn normalized(path: &str) -> String {
    let components = path.split('/').filter(|component| !component.is_empty());
    let joined: String = components.flat_map(|component| ["/", component]).collect();
    if joined.is_empty() {
        "/".to_owned()
    } else {
        joined
    }
}

fn is_scheme(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        && bytes.all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_print_as_they_were_read() {
        for text in [
            "/a/b",
            "file:/a/b",
            "hdfs://nn:8020/a b%20c",
            "hdfs://cluster/a",
            "hdfs://[::1]:9000/a",
        ] {
            assert_eq!(text.parse::<Uri>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_forms_mean_the_same_file() {
        let printed = |text: &str| text.parse::<Uri>().unwrap().to_string();
        assert_eq!(printed("file:///a"), "file:/a");
        assert_eq!(printed("file:////a//b/"), "file:/a/b");
        assert_eq!(printed("////a"), "/a");
        assert_eq!(printed("//"), "/");
        assert_eq!(printed("hdfs://nn"), "hdfs://nn/");
        assert_eq!(printed("hdfs://joe:secret@nn:1/a"), "hdfs://nn:1/a");
    }

    #[test]
    fn texts_that_name_no_file_are_refused() {
        for text in ["", "a/b", "hdfs:a", "hdfs://nn:x/a", "hdfs://:1/a"] {
            assert!(text.parse::<Uri>().is_err(), "{text}");
        }
    }
}
