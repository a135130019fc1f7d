//! Whether a container can start without its launch script being run, and with what.
//!
//! Pure. The script sets variables and ends in `exec /bin/bash -c "COMMAND"`: a process that has
//! started one bash goes on as another. What the container can see is the second one, and that one
//! is made of arguments, environment, descriptors and working directory only. If this module can
//! compute what bash would make of the script, the agent executes the second bash itself, with the
//! same pid, arguments, environment (in bash's order) and files, and the first one's milliseconds
//! are saved.
//!
//! Computed are text, `$NAME`, `${NAME}` and escaped characters between double quotes. Everything
//! else is left to the script: other expansions, substitutions, a `"` that ends the quotes,
//! characters outside printable ASCII, variables that bash itself sets or obeys.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::CString;

use super::environment::{
    ACTIVE_IN_QUOTES, ContainerEnvironment, OWN_PID, entry, is_exportable, is_literal, name_length,
};
use super::script::{PRELAUNCH_ERR, PRELAUNCH_OUT};
use super::spawn::Bash;

pub(super) use defaults::BashDefaults;

mod defaults;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;

/// Maximum size of command and environment. Linux executes up to 128 KiB whatever the stack limit
/// is (execve(2)), the pointers included; the script reports a larger one as "Argument list too
/// long", with exit code 126.
const BYTES_MAX: usize = 96 << 10;
/// Maximum number of variables. Bash's table of variables, which gives the environment its order,
/// is laid out anew beyond twice its 1,024 buckets.
const VARIABLES_MAX: usize = 1_000;
/// Buckets of bash's table of variables (`VARIABLES_HASH_BUCKETS`).
const BUCKETS: u32 = 1_024;

/// Variables that bash computes, changes or obeys (bash(1), "Shell Variables"), sorted. Where a
/// container sets or mentions one, the script runs.
const SHELL_VARIABLES: [&str; 47] = [
    "CHILD_MAX",
    "COLUMNS",
    "COPROC",
    "DIRSTACK",
    "ENV",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "EXECIGNORE",
    "FIGNORE",
    "FUNCNAME",
    "FUNCNEST",
    "GLOBIGNORE",
    "GROUPS",
    "HOSTFILE",
    "HOSTNAME",
    "HOSTTYPE",
    "IFS",
    "IGNOREEOF",
    "INPUTRC",
    "LINENO",
    "LINES",
    "MACHTYPE",
    "MAIL",
    "MAILCHECK",
    "MAILPATH",
    "MAPFILE",
    "OLDPWD",
    "OPTARG",
    "OPTERR",
    "OPTIND",
    "OSTYPE",
    "PIPESTATUS",
    "POSIXLY_CORRECT",
    "POSIX_PEDANTIC",
    "PPID",
    "RANDOM",
    "REPLY",
    "SECONDS",
    "SHELLOPTS",
    "SHLVL",
    "SRANDOM",
    "TERM",
    "TIMEFORMAT",
    "TMOUT",
    "UID",
    "_",
];
/// Beginnings of further such names. `LC_`: bash warns about an unknown locale each time one is
/// set. `LD_`: the loader obeys, and may write files, in each process.
const SHELL_PREFIXES: [&str; 8] = [
    "BASH",
    "COMP_",
    "HIST",
    "LC_",
    "LD_",
    "PS",
    "READLINE_",
    "TEXTDOMAIN",
];
/// Names that a container may set although they begin so: the search path of libraries is the same
/// for both bashes.
const HARMLESS: [&str; 1] = ["LD_LIBRARY_PATH"];
/// A variable that bash sets from the user database unless it is in the environment. A container
/// may set it, but what bash sets is not known here.
const LOGIN_SHELL: &str = "SHELL";

/// Computes the bash that the launch script would execute in the end; `None`: only bash can.
/// `log_dir` and `command` are the texts that stand in the script, whose links are all made.
pub(super) fn one_bash(
    defaults: &BashDefaults,
    environment: &ContainerEnvironment,
    log_dir: &str,
    command: &str,
) -> Option<Bash> {
    let mut shell = Shell::start(defaults, environment)?;
    let log_dir = literal(log_dir)?;
    let in_log_dir = |name: &str| Cow::Owned([log_dir, "/", name].concat());
    shell.export("PRELAUNCH_OUT", in_log_dir(PRELAUNCH_OUT))?;
    shell.export("PRELAUNCH_ERR", in_log_dir(PRELAUNCH_ERR))?;
    for (name, value) in &environment.whitelisted {
        let value = match shell.value(name)? {
            "" => Cow::Borrowed(literal(value)?),
            set => Cow::Owned(set.to_owned()),
        };
        shell.export(name, value)?;
    }
    for (name, value) in environment.node.iter().chain(&environment.others) {
        if value == OWN_PID {
            shell.export_pid(name)?;
        } else {
            shell.export(name, shell.expand(value)?)?;
        }
    }
    let command = shell.expand(command)?.into_owned();
    shell.execute(command)
}

/// The variables of the bash that would run the script. Most values are those of the container's
/// environment as they stand there, so they are borrowed.
struct Shell<'a> {
    variables: BTreeMap<&'a str, Variable<'a>>,
}

struct Variable<'a> {
    /// `None`: the pid of the process.
    value: Option<Cow<'a, str>>,
    exported: bool,
    /// Number of variables created before this one.
    created: usize,
}

impl<'a> Shell<'a> {
    /// A bash before the script's first line.
    fn start(defaults: &'a BashDefaults, environment: &'a ContainerEnvironment) -> Option<Self> {
        let mut shell = Self {
            variables: BTreeMap::new(),
        };
        for (name, value) in environment.initial() {
            shell.export(name, Cow::Borrowed(value))?;
        }
        // Without one in its environment (entry point mode), bash computes it.
        shell.variables.get("PWD")?;
        if !shell.variables.contains_key("PATH") {
            shell.set("PATH", Some(Cow::Borrowed(&defaults.path)), false);
        }
        // 1 in the first bash, which takes itself off before it executes another.
        shell.set("SHLVL", Some(Cow::Borrowed("0")), true);
        Some(shell)
    }

    /// Does what `export NAME="value"` does, with the expanded value.
    fn export(&mut self, name: &'a str, value: Cow<'a, str>) -> Option<()> {
        let known = is_exportable(name) && !belongs_to_shell(name) && is_plain(&value);
        known.then(|| self.set(name, Some(value), true))
    }

    /// Does what `export NAME="$$"` does.
    fn export_pid(&mut self, name: &'a str) -> Option<()> {
        let is_first = self.variables.values().all(|v| v.value.is_some());
        let known = is_first && !belongs_to_shell(name);
        known.then(|| self.set(name, None, true))
    }

    fn set(&mut self, name: &'a str, value: Option<Cow<'a, str>>, exported: bool) {
        let created = self.variables.len();
        let known = self.variables.entry(name).or_insert(Variable {
            value: None,
            exported,
            created,
        });
        (known.value, known.exported) = (value, exported);
    }

    /// Returns what `$NAME` becomes.
    fn value(&self, name: &str) -> Option<&str> {
        if belongs_to_shell(name) {
            return None;
        }
        match self.variables.get(name) {
            Some(variable) => variable.value.as_deref(),
            None => (name != LOGIN_SHELL).then_some(""),
        }
    }

    /// Returns what a text between double quotes becomes.
    fn expand<'t>(&self, text: &'t str) -> Option<Cow<'t, str>> {
        if is_literal(text) {
            return Some(Cow::Borrowed(text));
        }
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(ACTIVE_IN_QUOTES) {
            let (before, active) = rest.split_at(at);
            expanded.push_str(before);
            if let Some(after) = active.strip_prefix('$') {
                let (name, after) = parameter(after)?;
                expanded.push_str(self.value(name)?);
                rest = after;
            } else {
                let escaped = active.strip_prefix('\\')?;
                let character = escaped.chars().next()?;
                match character {
                    // Removed before names are read: `$A\` and `x` on the next line are `$Ax`.
                    '\n' => return None,
                    '$' | '`' | '"' | '\\' => expanded.push(character),
                    _not_special => expanded.extend(['\\', character]),
                }
                rest = escaped.strip_prefix(character)?;
            }
        }
        expanded.push_str(rest);
        Some(Cow::Owned(expanded))
    }

    /// Does what `exec /bin/bash -c "command"` does, with the expanded command.
    fn execute(self, command: String) -> Option<Bash> {
        let mut exported: Vec<_> = self
            .variables
            .into_iter()
            .filter(|(_, variable)| variable.exported)
            .collect();
        // Bash walks its table bucket by bucket, and new variables come first in theirs.
        exported.sort_by_cached_key(|(name, v)| (bucket(name), Reverse(v.created)));
        let pid_entry = exported.iter().position(|(_, v)| v.value.is_none());
        let environment = exported
            .into_iter()
            .map(|(name, variable)| entry(name, &variable.value.unwrap_or_default()));
        let environment = environment.collect::<Result<Vec<_>, _>>().ok()?;
        let lengths = environment.iter().map(|entry| entry.as_bytes().len());
        let bytes: usize = lengths.map(|length| length + 1 + size_of::<usize>()).sum();
        let fits = environment.len() <= VARIABLES_MAX && command.len() + bytes <= BYTES_MAX;
        (fits && is_plain(&command)).then_some(Bash {
            arguments: vec![c"-c".to_owned(), CString::new(command).ok()?],
            environment,
            pid_entry,
        })
    }
}

/// Splits the text after a `$` into the parameter's name and what follows. `None`: another kind of
/// expansion.
fn parameter(text: &str) -> Option<(&str, &str)> {
    let (name, after) = match text.strip_prefix('{') {
        Some(braced) => braced.split_once('}')?,
        None => text.split_at(name_length(text)),
    };
    (!name.is_empty() && name_length(name) == name.len()).then_some((name, after))
}

/// Returns a text that means itself between double quotes.
fn literal(text: &str) -> Option<&str> {
    is_literal(text).then_some(text)
}

/// Returns whether a text is ASCII and free of control characters. Others may be bash's own marks
/// (1 and 127), or depend on the locale.
fn is_plain(text: &str) -> bool {
    text.bytes()
        .all(|b| matches!(b, b'\t' | b'\n' | b' '..=b'~'))
}

fn belongs_to_shell(name: &str) -> bool {
    let listed = SHELL_VARIABLES.binary_search(&name).is_ok()
        || SHELL_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    listed && !HARMLESS.contains(&name)
}

/// Returns the bucket of a name in bash's table of variables: its FNV-1 hash modulo the buckets
/// (bash: `hash_string`, since 4.4).
fn bucket(name: &str) -> u32 {
    let hash = name.bytes().fold(2_166_136_261_u32, |hash, byte| {
        hash.wrapping_mul(16_777_619) ^ u32::from(byte)
    });
    hash % BUCKETS
}
