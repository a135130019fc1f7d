//! Properties that protect a cluster. A protection that was asked for and that this agent lacks is
//! a problem: silently doing less would be worse than not starting.
//!
//! An administrator who can do without one lists its property in
//! `yarn.nodemanager.agent.accept-unsafe`; then the lack is only a warning.

use hadoop_conf::{Expected, PropertyReader, shared};
use wire::protection::Protections;

use super::read_filters::CSRF;
use super::read_policy::AUTHORIZATION;

/// Property that lists the names of properties whose protection may be missing.
const ACCEPT_UNSAFE: &str = "yarn.nodemanager.agent.accept-unsafe";

/// A property that asks for a protection, and what this agent does without it.
pub(super) struct Protection {
    pub(super) name: &'static str,
    /// Sentence without an end: what is not protected here.
    pub(super) lack: &'static str,
}

/// Containers as their submitters' users (Hadoop: `LinuxContainerExecutor`).
pub(super) const CONTAINER_EXECUTOR: Protection = Protection {
    name: "yarn.nodemanager.container-executor.class",
    lack: "containers of all users run as the agent's own user and can read each other's files",
};

/// Runtimes that containers may ask for.
pub(super) const ALLOWED_RUNTIMES: Protection = Protection {
    name: "yarn.nodemanager.runtime.linux.allowed-runtimes",
    lack: "plain processes are not allowed, and this agent has no other runtime: containers run as \
           plain processes",
};

/// Runtime of containers that ask for none.
pub(super) const RUNTIME_TYPE: Protection = Protection {
    name: "yarn.nodemanager.runtime.linux.type",
    lack: "this agent has no such runtime: containers that ask for none run as plain processes",
};

/// Proof of callers of pages, by a class that this agent has not.
pub(super) const HTTP: Protection = Protection {
    name: "hadoop.http.authentication.type",
    lack: "web pages are served without authentication",
};

const SASL_RESOLVER: Protection = Protection {
    name: "hadoop.security.saslproperties.resolver.class",
    lack: "calls are neither signed nor encrypted, whatever the class demands of a connection",
};

const SANDBOX: Protection = Protection {
    name: "yarn.nodemanager.runtime.linux.sandbox-mode",
    lack: "Java's security manager is not set up: containers run without a sandbox",
};

const INTERMEDIATE_DATA: Protection = Protection {
    name: "yarn.intermediate-data-encryption.enable",
    lack: "this agent encrypts no data of containers on the local disks",
};

/// Every protection whose lack [`ACCEPT_UNSAFE`] may accept.
pub(super) const PROTECTIONS: [&Protection; 7] = [
    &CONTAINER_EXECUTOR,
    &HTTP,
    &SASL_RESOLVER,
    &SANDBOX,
    &INTERMEDIATE_DATA,
    &ALLOWED_RUNTIMES,
    &RUNTIME_TYPE,
];

/// Protections that a flag asks for.
const ASKED_BY_FLAG: [&Protection; 1] = [&INTERMEDIATE_DATA];

/// Protections that any text asks for, except those that stand for none.
const ASKED_BY_TEXT: [(&Protection, &[&str]); 3] = [
    (&HTTP, &["simple", "anonymous", "kerberos"]),
    (
        &SASL_RESOLVER,
        &["org.apache.hadoop.security.SaslPropertiesResolver"],
    ),
    (&SANDBOX, &["disabled"]),
];

/// Returns whether an administrator does without the protection that a property asks for, and warns
/// of the lack then.
pub(super) fn is_accepted(reader: &mut PropertyReader<'_>, protection: &Protection) -> bool {
    let Protection { name, lack } = protection;
    let is_accepted = reader.list(ACCEPT_UNSAFE).iter().any(|known| known == name);
    if is_accepted {
        reader.otherwise(name, *lack);
    }
    is_accepted
}

/// Adds the problem that a property asks for a protection that this agent lacks, or a warning if
/// the lack is accepted.
pub(super) fn unprotected(reader: &mut PropertyReader<'_>, protection: &Protection) {
    if is_accepted(reader, protection) {
        return;
    }
    let Protection { name, lack } = protection;
    let rule = format!("{lack}; to run like this, add {name} to {ACCEPT_UNSAFE}");
    reader.problem(name, Expected::Rule(rule.into()));
}

/// Reads the properties that protect Hadoop's calls and pages.
pub(super) fn security(reader: &mut PropertyReader<'_>) {
    accepted_names(reader);
    for (protection, none) in ASKED_BY_TEXT {
        let text = reader.text(protection.name);
        if text.is_some_and(|text| !none.contains(&text.as_str())) {
            unprotected(reader, protection);
        }
    }
    for protection in ASKED_BY_FLAG {
        if reader.flag(protection.name) {
            unprotected(reader, protection);
        }
    }
    let _ = reader.list("hadoop.security.sensitive-config-keys");
}

/// Reads whether access control lists are obeyed, and warns of those that protect less than they
/// seem to.
pub(super) fn lists_of_access(reader: &mut PropertyReader<'_>, anonymous_allowed: bool) -> bool {
    const ENABLED: &str = "yarn.acl.enable";
    const MAPPING: &str = "hadoop.security.group.mapping";
    const OF_SYSTEM: [&str; 3] = [
        "JniBasedUnixGroupsMappingWithFallback",
        "JniBasedUnixGroupsMapping",
        "ShellBasedUnixGroupsMapping",
    ];
    let enabled = reader.flag(ENABLED);
    if enabled && anonymous_allowed {
        let how = "the lists bind only callers that give a name: others see all logs, as on a Java \
                   NodeManager, unless hadoop.http.authentication.simple.anonymous.allowed is false";
        reader.otherwise(ENABLED, how);
    }
    let mapping = reader.text(MAPPING).unwrap_or_default();
    let class = mapping.rsplit('.').next().unwrap_or_default();
    if enabled && !OF_SYSTEM.contains(&class) {
        reader.otherwise(MAPPING, "groups of users are those of the system");
    }
    enabled
}

/// Checks the names in [`ACCEPT_UNSAFE`]: with a wrong one, somebody would rely on a typing error.
fn accepted_names(reader: &mut PropertyReader<'_>) {
    for name in reader.list(ACCEPT_UNSAFE) {
        let known = PROTECTIONS.map(|protection| protection.name);
        // Earlier agents lacked them, and a list that was right then does not stop a node.
        let had = match name.as_str() {
            AUTHORIZATION => Some("hadoop-policy.xml is enforced"),
            CSRF => Some("requests are refused as by Hadoop"),
            _ => None,
        };
        if let Some(had) = had {
            let how = format!("{name} need not be listed any more: {had}");
            reader.otherwise(ACCEPT_UNSAFE, how);
            continue;
        }
        if !known.contains(&name.as_str()) {
            let known = known.join(", ");
            let rule = format!("{name} is none of the properties that can be listed: {known}");
            reader.problem(ACCEPT_UNSAFE, Expected::Rule(rule.into()));
        }
    }
}

/// Reads the levels of protection of calls that carry a token.
pub(super) fn rpc_protections(reader: &mut PropertyReader<'_>) -> Protections {
    let names = shared::rpc_protections(reader);
    // A word that is no level is a problem by now.
    Protections::from_names(names).unwrap_or_default()
}
