//! Requirements of tests on the machine, and what happens where one is not met.
//!
//! A test that cannot run prints a line `SKIPPED: <test>: <why>` and returns. With
//! `NM_AGENT_REQUIRE_ALL=1` a missing requirement is a failure, so that a check on a complete
//! machine cannot pass by skipping.

use std::process::{Command, Stdio};

/// Returns from the test unless each named function of [`requirements`](crate::requirements) is
/// satisfied.
///
/// `require!(java, hadoop)` skips the test on a machine without Java, or without Hadoop's jars and
/// a way to get them.
#[macro_export]
macro_rules! require {
    ($($what:ident),+ $(,)?) => {
        $(
            if let Err(why) = $crate::requirements::$what() {
                // The path of a local function names the test; the thread's name does not when
                // tests run one by one.
                fn here() {}
                $crate::skip::skip(::std::any::type_name_of_val(&here).trim_end_matches("::here"), &why);
                return;
            }
        )+
    };
}

/// Requires a Java 11 or later that reports its version.
///
/// # Errors
/// With the reason why there is none.
pub fn java() -> Result<(), String> {
    crate::java::home().map(drop)
}

/// Requires a Java with its compiler, for tests that carry a Java source file.
///
/// # Errors
/// With the reason why there is none.
pub fn jdk() -> Result<(), String> {
    let home = crate::java::home()?;
    let compiler = home.join("bin/javac");
    if compiler.is_file() {
        Ok(())
    } else {
        Err(format!(
            "{} is missing: a JDK is needed",
            compiler.display()
        ))
    }
}

/// Requires Java and Hadoop's jars: those in the cache, or Maven to download them.
///
/// # Errors
/// With what is missing.
pub fn hadoop() -> Result<(), String> {
    java()?;
    if crate::hadoop::is_cached() {
        Ok(())
    } else {
        runs("mvn", "--version")
    }
}

/// Requires Spark's jars, those in the cache or Maven to download them, and a compiler for its
/// jobs.
///
/// # Errors
/// With what is missing.
pub fn spark() -> Result<(), String> {
    jdk()?;
    if crate::spark::is_cached() {
        Ok(())
    } else {
        runs("mvn", "--version")
    }
}

/// Requires Prometheus' exporter of Java's beans, in the cache or by Maven, and a compiler for what
/// shows it a node's.
///
/// # Errors
/// With what is missing.
pub fn jmx_exporter() -> Result<(), String> {
    jdk()?;
    if crate::jmx_exporter::is_cached() {
        Ok(())
    } else {
        runs("mvn", "--version")
    }
}

/// Requires the programs that archives are made with (Debian: `libarchive-tools`, `zip`, `unzip`,
/// `p7zip-full`, `python3`), and the compiler's package for `jar`.
///
/// # Errors
/// With what is missing.
pub fn archivers() -> Result<(), String> {
    jdk()?;
    runs("tar", "--version")?;
    runs("bsdtar", "--version")?;
    runs("zip", "-v")?;
    runs("unzip", "-v")?;
    runs("7z", "i")?;
    python()
}

/// Requires Python with its module for virtual environments.
///
/// # Errors
/// With what is missing.
pub fn python() -> Result<(), String> {
    runs("python3", "-m venv --help")
}

/// Requires Chromium, for tests of pages.
///
/// # Errors
/// With the reason why it does not run.
pub fn chromium() -> Result<(), String> {
    runs(crate::browser::CHROMIUM, "--version")
}

/// Requires Prometheus and its tool, for tests of metrics, dashboards and alerts.
///
/// # Errors
/// With the program that does not run.
pub fn prometheus() -> Result<(), String> {
    runs(crate::prometheus::PROMETHEUS, "--version")?;
    runs(crate::prometheus::PROMTOOL, "--version")
}

/// Requires root, for tests that act as another user.
///
/// # Errors
/// With the user that the test has instead.
pub fn root() -> Result<(), String> {
    let uid = nix::unistd::geteuid();
    if uid.is_root() {
        Ok(())
    } else {
        Err(format!(
            "acting as another user needs root, and this is {uid}"
        ))
    }
}

/// Requires the right and the tools (Debian: `iproute2`, `util-linux`) to make networks for nodes.
///
/// # Errors
/// With what is missing.
pub fn network_namespaces() -> Result<(), String> {
    runs("nsenter", "--version")?;
    runs("unshare", "--net ip link add hub type bridge")
}

/// Requires the right and the tools (Debian: `hostname`, `util-linux`) to give a process names of
/// its own.
///
/// # Errors
/// With what is missing.
pub fn name_namespaces() -> Result<(), String> {
    runs("unshare", "--mount --uts hostname node")
}

/// Requires a virtual machine: QEMU, and the tools that build its image unless it is built.
///
/// # Errors
/// With what is missing.
pub fn guest() -> Result<(), String> {
    crate::guest::can_run_our_programs()?;
    runs("qemu-system-x86_64", "--version")?;
    if crate::guest::is_built() {
        return Ok(());
    }
    runs("mke2fs", "-V").or_else(|_| runs("/usr/sbin/mke2fs", "-V"))?;
    runs("mmdebstrap", "--version")
}

/// Requires `cargo-deb`, which makes the package for Debian (`cargo install cargo-deb --locked`).
///
/// # Errors
/// With the program that does not run.
pub fn cargo_deb() -> Result<(), String> {
    runs("cargo-deb", "--version")
}

/// Requires hierarchies of cgroups in which this user may freeze, limit and create.
///
/// # Errors
/// With the reason why there are none.
pub fn cgroups() -> Result<(), String> {
    let hierarchy = crate::cgroups::Hierarchy::new();
    hierarchy.map(drop).map_err(|lack| lack.to_string())
}

/// Requires the programs of a Kerberos realm (Debian: `krb5-kdc`, `krb5-admin-server`,
/// `krb5-user`).
///
/// # Errors
/// With the program that is missing.
pub fn kerberos() -> Result<(), String> {
    test_support::realm::is_possible()
}

/// Requires the right and the tools to make accounts of users, and to run processes as them.
///
/// # Errors
/// With what is missing.
pub fn accounts() -> Result<(), String> {
    crate::accounts::are_possible()
}

/// Requires curl with Kerberos.
///
/// # Errors
/// With the reason why there is none.
pub fn curl_with_kerberos() -> Result<(), String> {
    let output = Command::new("curl").arg("--version").output();
    let output = output.map_err(|error| format!("`curl` does not run: {error}"))?;
    if String::from_utf8_lossy(&output.stdout).contains("GSS-API") {
        Ok(())
    } else {
        Err("curl has no Kerberos (GSS-API)".to_owned())
    }
}

fn runs(program: &str, arguments: &str) -> Result<(), String> {
    let status = Command::new(program)
        .args(arguments.split(' '))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{program} {arguments}` ended with {status}")),
        Err(error) => Err(format!("`{program}` does not run: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let why = runs("no-such-program-of-ours", "--version").unwrap_err();
        assert!(why.contains("no-such-program-of-ours"), "{why}");
    }

    #[test]
    fn a_program_that_fails_is_not_taken_for_present() {
        assert!(runs("false", "--version").is_err());
    }
}
