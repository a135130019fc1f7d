//! Properties of `hadoop-policy.xml`: who may use the protocols of the node, and from where. Hadoop
//! reads them beside all others, and only with `hadoop.security.authorization`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use access_control::AccessList;
use hadoop_conf::{Expected, PropertyReader, Site};
use service_authorization::{MachineList, ProtocolPolicy};
use wire::protocol::{application_master, container_management};

use super::keys;

/// Property that puts the policy into force.
pub(super) const AUTHORIZATION: &str = "hadoop.security.authorization";

/// Name of the file, unless Hadoop's scripts would be told another by [`FILE_VARIABLE`].
const FILE: &str = "hadoop-policy.xml";
const FILE_VARIABLE: &str = "HADOOP_POLICYFILE";

const CONTAINER_MANAGEMENT: &str = "security.containermanagement.protocol";
const APPLICATION_MASTER: &str =
    "security.applicationmaster-nodemanager.applicationmaster.protocol";
const DEFAULT: &str = "security.service.authorization.default";

/// Policies of the node's protocols, by Java's names.
pub type Policies = BTreeMap<String, ProtocolPolicy>;

/// Adds the properties of the policy's file, if it counts.
pub(super) fn add_file(site: &mut Site, conf_dirs: &[PathBuf], env: &BTreeMap<String, String>) {
    let counts = PropertyReader::new(&site.properties, &keys::TABLE).flag(AUTHORIZATION);
    let named = env.get(FILE_VARIABLE).filter(|name| !name.is_empty());
    let name = named.map_or(FILE, String::as_str);
    if counts && let Err(error) = site.properties.add_file(conf_dirs, name) {
        site.problems.push(error.into());
    }
}

/// Reads the policies; `None`: everybody may use each protocol. `has_proxy`: the AMRMProxy is on.
pub(super) fn policies(reader: &mut PropertyReader<'_>, has_proxy: bool) -> Option<Policies> {
    let counts = reader.flag(AUTHORIZATION);
    let why = "without hadoop.security.authorization = true";
    let policies = reader.only_if(counts, why, |reader| {
        let containers = policy(reader, CONTAINER_MANAGEMENT);
        let masters = policy(reader, APPLICATION_MASTER);
        Policies::from([
            (container_management::PROTOCOL.to_owned(), containers),
            (application_master::PROTOCOL.to_owned(), masters),
        ])
    });
    if !counts {
        return None;
    }
    let mut locked_out = tell_locked_out(reader, CONTAINER_MANAGEMENT);
    if has_proxy {
        locked_out.extend(tell_locked_out(reader, APPLICATION_MASTER));
    }
    for (name, what) in locked_out {
        reader.consequence(&name, what);
    }
    Some(policies)
}

fn policy(reader: &mut PropertyReader<'_>, service: &str) -> ProtocolPolicy {
    ProtocolPolicy {
        users: AccessList::new(list(reader, service, "acl").1),
        blocked_users: AccessList::new(list(reader, service, "acl.blocked").1),
        hosts: machines(reader, service, "hosts"),
        blocked_hosts: machines(reader, service, "hosts.blocked"),
    }
}

/// Returns the list of a protocol, or of all, with the name of the property that sets it.
fn list(reader: &mut PropertyReader<'_>, service: &str, which: &str) -> (String, String) {
    let (own, default) = (format!("{service}.{which}"), format!("{DEFAULT}.{which}"));
    let of_all = reader.untrimmed_text(&default).unwrap_or_default();
    match reader.untrimmed_text(&own) {
        Some(text) => (own, text),
        None => (default, of_all),
    }
}

fn machines(reader: &mut PropertyReader<'_>, service: &str, which: &str) -> MachineList {
    let (name, text) = list(reader, service, which);
    MachineList::parse(&text).unwrap_or_else(|error| {
        reader.problem(&name, Expected::Rule(error.to_string().into()));
        MachineList::default()
    })
}

/// Returns the properties that name users where callers are attempts of applications.
fn tell_locked_out(
    reader: &mut PropertyReader<'_>,
    service: &str,
) -> BTreeSet<(String, &'static str)> {
    let mut told = BTreeSet::new();
    let (name, text) = list(reader, service, "acl");
    if !AccessList::new(text).is_everybody() {
        let what = "callers of this protocol are attempts of applications (appattempt_…) and no \
                    users, so that any list but * keeps all of them out";
        told.insert((name, what));
    }
    let (name, text) = list(reader, service, "acl.blocked");
    let list = AccessList::new(text);
    if list.is_everybody() {
        told.insert((name, "keeps all callers out"));
    } else if !list.is_nobody() {
        let what = "callers of this protocol are attempts of applications (appattempt_…) and no \
                    users, so that a list of users blocks none of them";
        told.insert((name, what));
    }
    told
}
