//! The machine's Java: its home folder, and commands that run Hadoop's classes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::files::search_path;

/// Options of every Java process: what Java 17 needs to run Hadoop.
const OPTIONS: [&str; 3] = [
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "-Xshare:auto",
    "-Djava.net.preferIPv4Stack=true",
];

/// Options that Spark needs on Java 17 besides, of which its launcher adds more.
const SPARK_OPTIONS: [&str; 4] = [
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.invoke=ALL-UNNAMED",
];

/// Compilers and collector of a Java process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vm {
    /// For a quick start with little memory on a small machine: C1 and the serial collector.
    QuickStart,
    /// The JVM's own choice, as in a cluster: for measurements.
    Default,
}

impl Vm {
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::QuickStart => &["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
            Self::Default => &[],
        }
    }
}

/// Returns `JAVA_HOME` of this machine: the variable when it is set, otherwise found from `java` on
/// the path.
///
/// # Errors
/// When there is no usable Java.
pub fn home() -> Result<&'static Path, String> {
    static HOME: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    HOME.get_or_init(find_home).as_deref().map_err(Clone::clone)
}

fn find_home() -> Result<PathBuf, String> {
    let home = match std::env::var_os("JAVA_HOME") {
        Some(home) if !home.is_empty() => PathBuf::from(home),
        Some(_) | None => home_of_program(
            &search_path("java").ok_or("no `java` on the path, and JAVA_HOME is unset")?,
        )?,
    };
    let java = home.join("bin/java");
    let output = Command::new(&java)
        .arg("-version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{} -version` does not run: {error}", java.display()))?;
    if output.status.success() {
        Ok(home)
    } else {
        Err(format!(
            "`{} -version` ended with {}",
            java.display(),
            output.status
        ))
    }
}

/// Returns the Java home that the links of `/usr/bin/java` lead to: `HOME/bin/java`.
fn home_of_program(java: &Path) -> Result<PathBuf, String> {
    let real = java
        .canonicalize()
        .map_err(|error| format!("cannot resolve {}: {error}", java.display()))?;
    let home = real
        .parent()
        .and_then(Path::parent)
        .ok_or_else(|| format!("{} is not in a bin folder", real.display()))?;
    Ok(home.to_path_buf())
}

/// Returns a command that runs `main_class` with `conf` and Hadoop's jars as class path, and starts
/// quickly. Its standard input is empty.
///
/// # Panics
/// When there is no Java or the jars cannot be downloaded.
#[must_use]
pub fn command(conf: &Path, main_class: &str, heap_mb: u32) -> Command {
    command_on(Vm::QuickStart, conf, main_class, heap_mb)
}

/// Returns a command as [`command`] does, on this kind of JVM.
///
/// # Panics
/// When there is no Java or the jars cannot be downloaded.
#[must_use]
pub fn command_on(vm: Vm, conf: &Path, main_class: &str, heap_mb: u32) -> Command {
    with_class_path(bare(vm, heap_mb), &class_path(conf), main_class)
}

/// Returns a command as [`command`] does, with the jars of this folder in place of Hadoop's, and
/// with the options with which Spark's launcher starts a JVM.
///
/// # Panics
/// When there is no Java.
#[must_use]
pub fn spark_command(conf: &Path, jars: &Path, main_class: &str, heap_mb: u32) -> Command {
    let mut command = bare(Vm::QuickStart, heap_mb);
    command.args(SPARK_OPTIONS);
    with_class_path(command, &class_path_of(conf, jars), main_class)
}

fn with_class_path(mut command: Command, class_path: &OsStr, main_class: &str) -> Command {
    command.arg("-cp").arg(class_path).arg(main_class);
    command
}

/// Returns a command as [`command`] does, for a class of this jar.
///
/// # Panics
/// When there is no Java or the jars cannot be downloaded.
#[must_use]
pub fn command_with_jar(conf: &Path, jar: &Path, main_class: &str, heap_mb: u32) -> Command {
    let mut command = bare(Vm::QuickStart, heap_mb);
    let mut class_path = class_path(conf);
    class_path.push(":");
    class_path.push(jar);
    command.arg("-cp").arg(class_path).arg(main_class);
    command
}

/// Returns a command that compiles and runs one Java source file with Hadoop's jars as class path.
///
/// # Panics
/// When there is no JDK or the jars cannot be downloaded.
#[must_use]
pub fn source_command(source: &Path) -> Command {
    source_on(&[], &crate::hadoop::jar_files(), source)
}

/// Returns a command as [`source_command`] does, with these further options of the JVM.
///
/// # Panics
/// When there is no JDK or the jars cannot be downloaded.
#[must_use]
pub fn source_command_with(options: &[OsString], source: &Path) -> Command {
    source_on(options, &crate::hadoop::jar_files(), source)
}

/// Returns a command as [`source_command`] does, of a client with this configuration.
///
/// # Panics
/// When there is no JDK or the jars cannot be downloaded.
#[must_use]
pub fn source_command_at(conf: &Path, source: &Path) -> Command {
    let mut class_path = vec![conf.to_path_buf()];
    class_path.extend(crate::hadoop::jar_files());
    source_on(&[], &class_path, source)
}

fn source_on(options: &[OsString], class_path: &[PathBuf], source: &Path) -> Command {
    let mut command = bare(Vm::QuickStart, 256);
    command.args(options);
    // Source-file mode refuses a class path with wildcards in some releases, so the jars are
    // listed.
    let class_path = std::env::join_paths(class_path).expect("no path of a jar contains a colon");
    command.arg("-cp").arg(class_path).arg(source);
    command
}

/// Compiles one Java source file with Hadoop's jars as class path and packs its classes into a jar
/// in `folder`. Returns the path of the jar, which has the name of the source.
///
/// # Panics
/// When there is no JDK, the jars cannot be downloaded, or the source does not compile.
#[must_use]
pub fn jar_of_source(source: &Path, folder: &Path) -> PathBuf {
    let name = source.file_stem().expect("a source has a name");
    let classes = folder.join(name);
    let jar = classes.with_extension("jar");
    let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
        let home = home().unwrap_or_else(|why| panic!("{why}"));
        let output = Command::new(home.join("bin").join(program))
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("`{program}` does not run: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`{program}` failed: {errors}");
    };
    let mut class_path = crate::hadoop::jars().as_os_str().to_owned();
    class_path.push("/*");
    let (classes, source) = (classes.as_os_str(), source.as_os_str());
    run(
        "javac",
        &["-cp".as_ref(), &class_path, "-d".as_ref(), classes, source],
    );
    run(
        "jar",
        &[
            "-cf".as_ref(),
            jar.as_ref(),
            "-C".as_ref(),
            classes,
            ".".as_ref(),
        ],
    );
    jar
}

/// Returns the options of a JVM that starts quickly, as one text with blanks between.
#[must_use]
pub fn quick_options(heap_mb: u32) -> String {
    let options = OPTIONS.iter().chain(Vm::QuickStart.options());
    let options: String = options.map(|option| format!("{option} ")).collect();
    format!("{options}-Xmx{heap_mb}m")
}

fn bare(vm: Vm, heap_mb: u32) -> Command {
    let home = home().unwrap_or_else(|why| panic!("{why}"));
    let mut command = Command::new(home.join("bin/java"));
    command
        .args(OPTIONS)
        .args(vm.options())
        .arg(format!("-Xmx{heap_mb}m"))
        .stdin(Stdio::null());
    command
}

/// Returns the class path `CONF:JARS/*`, which Java itself expands.
///
/// # Panics
/// When the jars cannot be downloaded.
#[must_use]
pub fn class_path(conf: &Path) -> OsString {
    class_path_of(conf, crate::hadoop::jars())
}

fn class_path_of(conf: &Path, jars: &Path) -> OsString {
    let mut path = conf.as_os_str().to_owned();
    path.push(":");
    path.push(jars);
    path.push("/*");
    path
}
