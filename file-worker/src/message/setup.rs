//! The message that sets a worker up.

use std::time::Duration;

use hadoop_fs::FsConfig;
use namenode_access::Proof;
use users::{Account, AccountIds};

use super::{NAME_MAX, SETUP_MAX};
use crate::codec::{In, Malformed, Out, PATH_MAX};

/// Identity and limits of a worker, and what it knows of file systems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Process id of the agent.
    pub parent: i32,
    /// Account whose rights the worker takes; `None`: those of the agent's user, without its
    /// capabilities.
    pub account: Option<AccountIds>,
    /// How the worker proves itself to NameNodes of a secure cluster; `None`: to none.
    pub proof: Option<Proof>,
    /// File systems, for `FileSystems::with_access`.
    pub file_systems: FsConfig,
}

impl Setup {
    /// Writes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default().i64(self.parent.into());
        out = out.bool(self.account.is_some());
        if let Some(account) = &self.account {
            out = out.u32(account.uid).u32(account.gid);
            out = out.u64(account.groups.len() as u64);
            out = account.groups.iter().fold(out, |out, gid| out.u32(*gid));
        }
        out = match &self.proof {
            None => out.u8(0),
            Some(Proof::Tokens) => out.u8(1),
            Some(Proof::Keytab { principal }) => out.u8(2).text(principal),
        };
        let FsConfig {
            default_fs,
            client_properties,
            step_limit,
        } = &self.file_systems;
        let millis = u64::try_from(step_limit.as_millis()).unwrap_or(u64::MAX);
        out = out.text(&default_fs.to_string()).u64(millis);
        let properties = client_properties.iter();
        properties
            .fold(out, |out, (name, value)| out.text(name).text(value))
            .finish()
    }

    /// Reads the message.
    ///
    /// # Errors
    /// No agent wrote it.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut input = In::new(message);
        let parent = input.i64()?.try_into();
        let parent = parent.map_err(|_| Malformed("the agent's process id is none"))?;
        let account = input.bool()?.then(|| ids(&mut input)).transpose()?;
        let proof = match input.u8()? {
            0 => None,
            1 => Some(Proof::Tokens),
            2 => Some(Proof::Keytab {
                principal: input.text(NAME_MAX)?.to_owned(),
            }),
            _ => return Err(Malformed("a proof of no known kind")),
        };
        let default_fs = input.text(PATH_MAX)?.parse();
        let default_fs = default_fs.map_err(|_| Malformed("the default file system is no URI"))?;
        let step_limit = Duration::from_millis(input.u64()?);
        let mut client_properties = Vec::new();
        while !input.is_at_end() {
            let mut text = || Ok(input.text(SETUP_MAX)?.to_owned());
            client_properties.push((text()?, text()?));
        }
        Ok(Self {
            parent,
            account,
            proof,
            file_systems: FsConfig {
                default_fs,
                client_properties,
                step_limit,
            },
        })
    }
}

fn ids(input: &mut In<'_>) -> Result<AccountIds, Malformed> {
    let (uid, gid) = (input.u32()?, input.u32()?);
    let count = input.u64()?;
    let mut groups = Vec::new();
    for _ in 0..count {
        groups.push(input.u32()?);
    }
    let ids = AccountIds { uid, gid, groups };
    match Account::of_ids(ids.clone()) {
        Some(_) => Ok(ids),
        None => Err(Malformed("the account is the superuser's")),
    }
}
