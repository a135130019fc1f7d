//! The node's identity in a secure cluster, and what such a cluster refuses.

use std::os::unix::fs::PermissionsExt as _;

use ::users::RunAs;
use wire::kerberos::ServerPrincipal;

use super::*;

const SECURE: (&str, &str) = ("hadoop.security.authentication", "kerberos");
const LINUX: (&str, &str) = ("container-executor.class", "LinuxContainerExecutor");
const NM: (&str, &str) = ("principal", "nm/_HOST@EXAMPLE.COM");
const RM: (&str, &str) = ("yarn.resourcemanager.principal", "rm/_HOST@EXAMPLE.COM");
const RM_PATTERN: &str = "yarn.resourcemanager.principal.pattern";

/// A keytab's file with these rights, in a folder that goes with the test.
struct Keytab {
    _folder: TempDir,
    path: String,
}

impl Keytab {
    fn with_mode(mode: u32) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("nm.keytab");
        fs::write(&path, [5, 2]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let path = path.display().to_string();
        Self {
            _folder: folder,
            path,
        }
    }
}

/// Adds what a secure cluster needs, unless the test sets it itself.
fn secure<'a>(keytab: &'a Keytab, pairs: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let usual = [SECURE, LINUX, NM, RM, ("keytab", keytab.path.as_str())];
    let is_set = |name: &str| pairs.iter().any(|(set, _)| *set == name);
    let usual = usual.into_iter().filter(|(name, _)| !is_set(name));
    usual.chain(pairs.iter().copied()).collect()
}

#[track_caller]
fn only_problem(pairs: &[(&str, &str)]) -> String {
    let told = problems(pairs);
    assert_eq!(told.len(), 1, "{told:?}");
    told[0].clone()
}

#[test]
fn the_identity_is_read_in_a_secure_cluster_alone() {
    let keytab = Keytab::with_mode(0o440);
    assert_eq!(config(&[NM, RM, ("keytab", "/none")]).kerberos, None);
    let read = config(&secure(&keytab, &[])).kerberos.unwrap();
    assert_eq!(read.principal, NM.1);
    assert_eq!(read.keytab, PathBuf::from(&keytab.path));
    assert_eq!(
        read.resource_manager,
        ServerPrincipal::Exact(RM.1.to_owned())
    );
    assert!(!read.falls_back_to_simple);
    assert_eq!(
        (read.relogin_after_s, read.first_login_within_ms),
        (60, 5000)
    );
    let word = (SECURE.0, "KERBEROS");
    assert!(config(&secure(&keytab, &[word])).kerberos.is_some());
    let pattern = (RM_PATTERN, "rm/*.example.com@EXAMPLE.COM");
    let of_pattern = config(&secure(&keytab, &[pattern])).kerberos.unwrap();
    assert_eq!(
        of_pattern.resource_manager,
        ServerPrincipal::Pattern(pattern.1.to_owned())
    );
}

#[test]
fn what_a_secure_cluster_needs_is_asked_for_by_name() {
    let keytab = Keytab::with_mode(0o400);
    for (pair, name) in [
        (("principal", ""), "yarn.nodemanager.principal"),
        (("keytab", " "), "yarn.nodemanager.keytab"),
        ((RM.0, ""), RM.0),
    ] {
        let told = only_problem(&secure(&keytab, &[pair]));
        assert!(told.contains(&format!("{name} is not set")), "{told}");
    }
    config(&secure(&keytab, &[(RM.0, ""), (RM_PATTERN, "rm/*@*")]));
}

#[test]
fn principals_that_cannot_be_are_refused() {
    let keytab = Keytab::with_mode(0o400);
    for (name, value, part) in [
        ("principal", "nm/_HOST", "must have a name and a realm"),
        ("principal", "@R", "must have a name and a realm"),
        (RM.0, "rm@R", "must have a service, a host and a realm"),
        (RM.0, "rm/h", "must have a service, a host and a realm"),
        (RM.0, "rm/h/x@R", "must have a service, a host and a realm"),
        (RM_PATTERN, "rm/[ab]@R", "must be made of text, * and ?"),
        (RM_PATTERN, "rm/*@*.COM", "a realm in full or *"),
    ] {
        let told = only_problem(&secure(&keytab, &[(name, value)]));
        assert!(told.contains(part), "{name} = {value}: {told}");
    }
}

#[test]
fn a_keytab_that_is_not_there_or_is_open_to_others_is_refused() {
    let keytab = Keytab::with_mode(0o400);
    let none = ("keytab", "/nowhere/nm.keytab");
    let told = only_problem(&secure(&keytab, &[none]));
    assert!(
        told.contains("must be a file that the agent can read"),
        "{told}"
    );
    let told = only_problem(&secure(&keytab, &[("keytab", "/etc")]));
    assert!(told.contains("must be a file"), "{told}");
    for mode in [0o444, 0o602, 0o644] {
        let keytab = Keytab::with_mode(mode);
        let told = only_problem(&secure(&keytab, &[]));
        let advice = format!("chmod 0400 {}", keytab.path);
        assert!(
            told.contains("must be closed to others") && told.contains(&advice),
            "{told}"
        );
    }
}

#[test]
fn containers_run_as_their_submitters_whatever_limits_users_elsewhere() {
    const LIMIT: &str = "linux-container-executor.nonsecure-mode.limit-users";
    const PATTERN: &str = "linux-container-executor.nonsecure-mode.user-pattern";
    let keytab = Keytab::with_mode(0o400);
    for pairs in [[].as_slice(), &[(LIMIT, "true"), (PATTERN, "^nobody$")]] {
        let executor = config(&secure(&keytab, pairs)).launch.executor;
        let ContainerExecutor::Users(users) = executor else {
            panic!("containers run as the agent's user");
        };
        assert_eq!(users.rules.run_as, RunAs::Submitter);
        assert_eq!(users.rules.account_of("alice"), Ok("alice"));
        assert!(users.rules.account_of("../alice").is_err());
    }
}

#[test]
fn the_default_executor_is_refused_unless_it_is_accepted() {
    const CLASS: &str = "yarn.nodemanager.container-executor.class";
    let keytab = Keytab::with_mode(0o400);
    let default = ("container-executor.class", "DefaultContainerExecutor");
    let told = only_problem(&secure(&keytab, &[default]));
    let accepting = format!("add {CLASS} to yarn.nodemanager.agent.accept-unsafe");
    assert!(told.contains(&accepting), "{told}");
    let accepted = secure(&keytab, &[default, ("agent.accept-unsafe", CLASS)]);
    assert_eq!(config(&accepted).launch.executor, ContainerExecutor::Own);
    let told = warnings(&accepted).join("\n");
    assert!(told.contains("own user and can read each other"), "{told}");
}

#[test]
fn nothing_is_missing_for_logs_in_any_file_system() {
    const LOGS: (&str, &str) = ("yarn.log-aggregation-enable", "true");
    let keytab = Keytab::with_mode(0o400);
    for root in ["hdfs://nn:8020/app-logs", "file:///mnt/app-logs"] {
        let root = ("remote-app-log-dir", root);
        let pairs = secure(&keytab, &[LOGS, root]);
        let warnings = loaded(&pairs).warnings;
        let missing = warnings.iter().filter(|it| it.is_missing_feature());
        assert_eq!(missing.count(), 0, "{warnings:?}");
        assert!(config(&pairs).logs.aggregation.is_some());
    }
}

#[test]
fn a_cluster_in_which_any_ticket_registers_a_node_is_warned_of() {
    let keytab = Keytab::with_mode(0o400);
    let told = warnings(&secure(&keytab, &[])).join("\n");
    assert!(
        told.contains("anyone with a ticket who registers one"),
        "{told}"
    );
    let enforced = [("hadoop.security.authorization", "true")];
    let told = warnings(&secure(&keytab, &enforced)).join("\n");
    assert!(!told.contains("anyone with a ticket"), "{told}");
}
