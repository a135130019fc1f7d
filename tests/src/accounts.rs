//! Accounts of users on this machine, for tests of containers that run as them.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::unistd::{Uid, User};

/// Accounts that this machine has as long as this lives. One that was there before stays.
#[derive(Debug)]
pub struct Accounts {
    made: Vec<String>,
}

/// Returns why this machine cannot have accounts of a test.
///
/// # Errors
/// The right or the program that is missing.
pub fn are_possible() -> Result<(), String> {
    if let Some(obstacle) = users::obstacles().first() {
        return Err(obstacle.to_string());
    }
    if !Uid::effective().is_root() {
        return Err("only root makes accounts".to_owned());
    }
    for name in ["useradd", "userdel"] {
        if !Path::new("/usr/sbin").join(name).exists() {
            return Err(format!("{name} is missing (Debian: passwd)"));
        }
    }
    Ok(())
}

impl Accounts {
    /// Makes the accounts of these names that the machine lacks, each with a group of its own.
    ///
    /// # Panics
    /// When one cannot be made.
    #[must_use]
    pub fn make(names: &[&str]) -> Self {
        let mut accounts = Self { made: Vec::new() };
        for name in names {
            if find(name).is_some() {
                continue;
            }
            let shell = ["--shell", "/bin/bash", "--no-create-home", "--user-group"];
            run("useradd", &[&shell[..], &[name]].concat());
            accounts.made.push((*name).to_owned());
        }
        accounts
    }
}

impl Drop for Accounts {
    fn drop(&mut self) {
        for name in &self.made {
            run("userdel", &["--force", name]);
        }
    }
}

/// Returns the id of an account.
///
/// # Panics
/// When there is none of this name.
#[must_use]
pub fn uid(name: &str) -> u32 {
    let account = find(name).unwrap_or_else(|| panic!("no account {name}"));
    account.uid.as_raw()
}

/// Returns the files below these folders that an account may read, as `find` sees them when it runs
/// as this user. What lies in a closed folder is none of them.
///
/// # Panics
/// When there is no such account, or `find` does not run.
#[must_use]
pub fn readable_by(name: &str, folders: &[&Path]) -> Vec<String> {
    let account = find(name).unwrap_or_else(|| panic!("no account {name}"));
    let mut command = Command::new("find");
    command.args(folders).args(["-type", "f", "-readable"]);
    // Setting the id of the user takes away the groups of root.
    let command = command.uid(account.uid.as_raw()).gid(account.gid.as_raw());
    let output = command.current_dir("/").output();
    let output = output.unwrap_or_else(|error| panic!("cannot run find: {error}"));
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    found.lines().map(str::to_owned).collect()
}

fn find(name: &str) -> Option<User> {
    User::from_name(name).ok().flatten()
}

fn run(program: &str, arguments: &[&str]) {
    let program = Path::new("/usr/sbin").join(program);
    let output = Command::new(&program).args(arguments).output();
    match output {
        Ok(output) if output.status.success() => {}
        // Not in a panic: this runs when a failed test ends, too.
        failed => eprintln!("{} {arguments:?}: {failed:?}", program.display()),
    }
}
