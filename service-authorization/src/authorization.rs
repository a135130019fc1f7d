//! The policies in force.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use access_control::User;

use crate::machines::KnownNames;
use crate::names::Names;
use crate::policy::{Denial, ProtocolPolicy, Refused};

/// Policies of the protocols of a server, by Java's names of the protocols.
#[derive(Debug, Default)]
pub struct ServiceAuthorization {
    policies: RwLock<Arc<BTreeMap<String, ProtocolPolicy>>>,
    names: Names,
}

impl ServiceAuthorization {
    /// Returns the authorization by these policies.
    #[must_use]
    pub fn new(policies: BTreeMap<String, ProtocolPolicy>) -> Self {
        Self {
            policies: RwLock::new(Arc::new(policies)),
            names: Names::default(),
        }
    }

    /// Puts other policies into force. Names are looked up anew; callers who have passed stay, as
    /// in Hadoop.
    pub async fn replace(&self, policies: BTreeMap<String, ProtocolPolicy>) {
        let policies = Arc::new(policies);
        *self
            .policies
            .write()
            .unwrap_or_else(PoisonError::into_inner) = policies;
        self.names.forget().await;
    }

    /// Decides about a caller. `method` is the way in which the user was proved, in Java's words,
    /// such as `TOKEN`.
    ///
    /// # Errors
    /// The refusal.
    pub async fn authorize(
        &self,
        protocol: &str,
        user: &User,
        method: &str,
        address: IpAddr,
    ) -> Result<(), Denial> {
        let address = address.to_canonical();
        let policies = self.policies.read();
        let policies = Arc::clone(&policies.unwrap_or_else(PoisonError::into_inner));
        let Some(policy) = policies.get(protocol) else {
            let protocol = protocol.to_owned();
            return Err(Denial::Protocol { protocol });
        };
        let mut known = KnownNames::new();
        for name in policy.undecided_names(address) {
            if let Some(addresses) = self.names.addresses(name).await {
                known.insert(name.to_owned(), addresses);
            }
        }
        let protocol = protocol.to_owned();
        policy
            .judge(user, address, &known)
            .map_err(|refused| match refused {
                Refused::User => Denial::User {
                    user: format!("{} (auth:{method})", user.name),
                    protocol,
                },
                Refused::Host => Denial::Host {
                    host: address,
                    protocol,
                },
            })
    }
}

#[cfg(test)]
mod tests {
    use access_control::AccessList;

    use super::*;
    use crate::MachineList;

    const PROTOCOL: &str = "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB";

    fn of(policy: ProtocolPolicy) -> BTreeMap<String, ProtocolPolicy> {
        BTreeMap::from([(PROTOCOL.to_owned(), policy)])
    }

    async fn refusal(authorization: &ServiceAuthorization, protocol: &str) -> Option<String> {
        let user = User {
            name: "appattempt_1_0001_000001".to_owned(),
            groups: Vec::new(),
        };
        let address = "127.0.0.1".parse().expect("an address");
        let allowed = authorization.authorize(protocol, &user, "TOKEN", address);
        allowed.await.err().map(|denial| denial.to_string())
    }

    fn from(hosts: &str) -> ProtocolPolicy {
        ProtocolPolicy {
            hosts: MachineList::parse(hosts).expect("a list"),
            ..ProtocolPolicy::default()
        }
    }

    #[tokio::test]
    async fn refusals_have_hadoops_words() {
        let authorization = ServiceAuthorization::new(of(ProtocolPolicy::default()));
        assert_eq!(refusal(&authorization, PROTOCOL).await, None);
        let told = refusal(&authorization, "org.example.Other").await;
        let expected = "Protocol interface org.example.Other is not known.";
        assert_eq!(told.as_deref(), Some(expected));
        let closed = ProtocolPolicy {
            users: AccessList::new("alice"),
            ..ProtocolPolicy::default()
        };
        authorization.replace(of(closed)).await;
        let expected = "User appattempt_1_0001_000001 (auth:TOKEN) is not authorized for protocol \
                        interface org.apache.hadoop.yarn.api.ContainerManagementProtocolPB: denied \
                        by configured ACL";
        let told = refusal(&authorization, PROTOCOL).await;
        assert_eq!(told.as_deref(), Some(expected));
        authorization.replace(of(from("10.0.0.0/8"))).await;
        let expected =
            format!("Host 127.0.0.1 is not authorized for protocol interface {PROTOCOL}");
        assert_eq!(refusal(&authorization, PROTOCOL).await, Some(expected));
    }

    #[tokio::test]
    async fn a_name_stands_for_its_addresses() {
        let authorization = ServiceAuthorization::new(of(from("localhost")));
        assert_eq!(refusal(&authorization, PROTOCOL).await, None);
        let blocked = ProtocolPolicy {
            blocked_hosts: MachineList::parse("localhost").expect("a list"),
            ..ProtocolPolicy::default()
        };
        authorization.replace(of(blocked)).await;
        let told = refusal(&authorization, PROTOCOL).await.expect("a refusal");
        assert!(told.starts_with("Host 127.0.0.1"), "{told}");
    }
}
