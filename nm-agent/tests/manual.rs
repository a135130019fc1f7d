//! Manual pages and completions of shells, which the packages install from `packaging`.
//!
//! The files are kept in the repository, so that a package is made without another program, and a
//! change of the command line shows in them. `NM_AGENT_WRITE_MANUAL=1 cargo test -p nm-agent --test
//! manual` writes them.

#![expect(clippy::unwrap_used, reason = "helpers of tests: they fail with it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Variable that makes the test write the files.
const WRITE: &str = "NM_AGENT_WRITE_MANUAL";

const NAME: &str = "nm-agent";

/// Files that the program reads and writes where the packages put them, for the first page.
const FILES: [(&str, &str); 6] = [
    (
        "/etc/nm-agent/",
        "Configuration of the service: core-site.xml and yarn-site.xml, in Hadoop's format.",
    ),
    (
        "/etc/default/nm-agent",
        "Environment of the service. Containers inherit JAVA_HOME and HADOOP_* from it.",
    ),
    (
        "/var/lib/nm-agent/",
        "Files of containers, and the state that a restart of the service recovers.",
    ),
    (
        "/var/log/nm-agent/",
        "Logs of containers. The service's own log is in the journal.",
    ),
    (
        "nm-agent-site.xml",
        "Properties that only nm-agent reads, after yarn-site.xml and in the same folder.",
    ),
    (
        "/usr/share/nm-agent/",
        "Dashboard for Grafana and alert rules for Prometheus.",
    ),
];

/// Variables that every command reads, for the first page.
const ENVIRONMENT: [(&str, &str); 5] = [
    (
        "HADOOP_CONF_DIR",
        "Folder of the configuration, unless --conf names one. YARN_CONF_DIR and HADOOP_HOME are \
         read after it.",
    ),
    (
        "HADOOP_USER_NAME",
        "User in whose name the program calls others; otherwise the user of the process.",
    ),
    (
        "NM_AGENT_LOG",
        "Level of the log on standard error, for example debug, or nm_agent=debug,wire=info.",
    ),
    (
        "NM_AGENT_LOG_FORMAT",
        "Form of the log: text, or json for a JSON object in each line.",
    ),
    ("TMPDIR", "Folder for temporary files; otherwise /tmp."),
];

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging")
}

/// Returns a copy of a command without what it hides: completions would name it.
fn visible(command: &clap::Command) -> clap::Command {
    // Commands are named by text that lives as long as the program.
    let name = command.get_name().to_owned().leak();
    let mut copy = clap::Command::new(&*name)
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .subcommand_required(command.is_subcommand_required_set());
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    if let Some(about) = command.get_long_about() {
        copy = copy.long_about(about.clone());
    }
    let arguments = command.get_arguments();
    let commands = command.get_subcommands();
    copy.args(arguments.filter(|argument| !argument.is_hide_set()))
        .subcommands(commands.filter(|inner| !inner.is_hide_set()).map(visible))
}

fn command() -> clap::Command {
    let mut command = visible(&nm_agent::cli::command());
    command.build();
    command
}

/// Adds the page of a command and those of its commands, by file name.
fn add_pages(command: &clap::Command, parents: &str, pages: &mut BTreeMap<String, Vec<u8>>) {
    let name = match parents {
        "" => command.get_name().to_owned(),
        parents => format!("{parents}-{}", command.get_name()),
    };
    for inner in command.get_subcommands() {
        add_pages(inner, &name, pages);
    }
    let mut page = Vec::new();
    Man::new(command.clone().display_name(&name))
        .title(name.to_uppercase())
        .source(format!("{NAME} {}", env!("CARGO_PKG_VERSION")))
        .render(&mut page)
        .unwrap();
    if name == NAME {
        for (title, entries) in [("FILES", &FILES[..]), ("ENVIRONMENT", &ENVIRONMENT[..])] {
            section(title, entries).to_writer(&mut page).unwrap();
        }
    }
    pages.insert(format!("man/{name}.1"), page);
}

fn section(title: &str, entries: &[(&str, &str)]) -> Roff {
    let mut section = Roff::new();
    section.control("SH", [title]);
    for (term, meaning) in entries {
        section.control("TP", []);
        section.text([bold(*term)]).text([roman(*meaning)]);
    }
    section
}

/// Returns every file, by its path in `packaging`.
fn generated() -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    add_pages(&command(), "", &mut files);
    for (shell, file) in [
        (Shell::Bash, "completions/nm-agent.bash"),
        (Shell::Fish, "completions/nm-agent.fish"),
        (Shell::Zsh, "completions/_nm-agent"),
    ] {
        let mut completions = Vec::new();
        clap_complete::generate(shell, &mut command(), NAME, &mut completions);
        files.insert(file.to_owned(), completions);
    }
    files
}

fn kept() -> BTreeSet<String> {
    let folders = ["man", "completions"].into_iter();
    let kept = folders.flat_map(|folder| {
        let entries = fs::read_dir(packaging().join(folder)).into_iter().flatten();
        entries
            .map(move |entry| format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap()))
    });
    kept.collect()
}

#[test]
fn manual_pages_and_completions_are_those_of_the_command_line() {
    let files = generated();
    if std::env::var_os(WRITE).is_some() {
        for (name, content) in &files {
            let path = packaging().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        for name in kept().iter().filter(|name| !files.contains_key(*name)) {
            fs::remove_file(packaging().join(name)).unwrap();
        }
    }
    assert_eq!(
        kept(),
        files.keys().cloned().collect::<BTreeSet<_>>(),
        "set {WRITE}=1 to write the files"
    );
    for (name, content) in files {
        let kept = fs::read(packaging().join(&name)).unwrap();
        assert!(
            kept == content,
            "packaging/{name} is not what the command line says: set {WRITE}=1 to write it"
        );
    }
}

#[test]
fn what_is_hidden_on_the_command_line_is_in_no_manual_page_or_completion() {
    for (name, content) in generated() {
        let text = String::from_utf8(content).unwrap();
        for hidden in ["shell-master", "--keeper", "keep:", "(keep)"] {
            assert!(!text.contains(hidden), "{name} names {hidden}");
        }
    }
}
