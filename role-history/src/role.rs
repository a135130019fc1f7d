//! A role: the containers of an application that are alike in size, label and placement (Slider:
//! component). The parts that never change while the application runs.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use records::Resource;
use thiserror::Error;

/// Text that YARN does not accept inside a label: label expressions are single labels.
const LABEL_OPERATORS: [&str; 2] = ["&&", "||"];

/// Number of a role (Slider: `yarn.role.priority`). Non-negative, below 2^30, and possibly sparse:
/// the numbers of an application's roles need not be consecutive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleId(u32);

impl RoleId {
    /// Largest role id: the next bit of a priority marks asks without a location.
    pub const MAX: Self = Self((1 << 30) - 1);

    /// Returns the role id with this number, or `None` outside of 0 to 2^30 - 1.
    #[must_use]
    pub const fn new(number: i32) -> Option<Self> {
        if number < 0 || number > Self::MAX.number() {
            return None;
        }
        Some(Self(number.cast_unsigned()))
    }

    /// Returns the number, which is never negative.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0.cast_signed()
    }
}

impl fmt::Display for RoleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Set of placement rules of a role (Slider: `PlacementPolicy`, `yarn.component.placement.policy`).
/// The empty set is the default: nodes of the history, without unreliable ones, relaxed in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlacementPolicy(u32);

impl PlacementPolicy {
    /// Strict placement: a node of the history is asked for whatever its failures and state, and
    /// the ask is never relaxed. Without history the ask is open.
    pub const STRICT: Self = Self(1);
    /// Placement anywhere: the history is never consulted (older name: no data locality).
    pub const ANYWHERE: Self = Self(2);
    /// Anti-affinity: at most one container of the role on a node. Takes precedence over the other
    /// rules.
    pub const ANTI_AFFINITY_REQUIRED: Self = Self(4);
    /// Exclusion from reviews: the number of containers is not the history's concern. Used for the
    /// role of the ApplicationMaster itself.
    pub const EXCLUDE_FROM_FLEXING: Self = Self(16);

    /// Returns the policy with these bits. Unknown bits are kept and have no effect, as in Slider.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the bits, as in Slider's configuration.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the rules of both policies together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, rule: Self) -> bool {
        self.0 & rule.0 != 0
    }

    /// Returns whether nodes of the history are asked for regardless of their failures, and never
    /// given up.
    #[must_use]
    pub const fn is_strict(self) -> bool {
        self.has(Self::STRICT) && !self.is_anti_affine()
    }

    /// Returns whether a node may run at most one container of the role.
    #[must_use]
    pub const fn is_anti_affine(self) -> bool {
        self.has(Self::ANTI_AFFINITY_REQUIRED)
    }

    /// Returns whether single nodes are chosen by their history. Anti-affine roles ask for all
    /// candidates instead.
    #[must_use]
    pub const fn consults_history(self) -> bool {
        !self.has(Self::ANYWHERE) && !self.is_anti_affine()
    }

    /// Returns whether reviews skip the role.
    #[must_use]
    pub const fn is_excluded_from_flexing(self) -> bool {
        self.has(Self::EXCLUDE_FROM_FLEXING)
    }
}

/// Error of a role definition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RoleError {
    /// Label with an operator. YARN accepts a single label per ask.
    #[error("label {label} of role {role} contains an operator")]
    LabelOperator {
        /// Name of the role.
        role: String,
        /// The rejected label expression.
        label: String,
    },
    /// Two roles with the same id.
    #[error("roles {first} and {second} have the same id, {id}")]
    DuplicateId {
        /// Id that both roles have.
        id: RoleId,
        /// Name of the role that came first.
        first: String,
        /// Name of the role that came second.
        second: String,
    },
    /// Two roles with the same name.
    #[error("two roles have the name {name}")]
    DuplicateName {
        /// Name that both roles have.
        name: String,
    },
}

/// Definition of a role (Slider: `ProviderRole`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Number that tells the role apart, unique within the application.
    pub id: RoleId,
    /// Name that survives a renumbering of the roles, unique within the application.
    pub name: String,
    /// Rules for the choice of nodes.
    pub placement_policy: PlacementPolicy,
    /// Most recent failures on a node that is still asked for; a node with more is left out.
    /// `None`: no limit (Slider: -1).
    pub node_failure_threshold: Option<u32>,
    /// Most recent failures of the role before the application fails. `None`: no limit (Slider: 0
    /// or less).
    pub container_failure_threshold: Option<NonZeroU32>,
    /// Milliseconds after which an ask for one node is relaxed. Not used by strict, anywhere and
    /// anti-affine roles.
    pub placement_timeout_ms: u64,
    /// Label of the nodes that may run the role. `None`: the ask names no label.
    pub label: Option<Arc<str>>,
    /// Size of each container.
    pub resource: Resource,
}

impl Role {
    /// Default of [`placement_timeout_ms`](Self::placement_timeout_ms) (Slider:
    /// `yarn.placement.escalate.seconds`, 30).
    pub const PLACEMENT_TIMEOUT_MS_DEFAULT: u64 = 30_000;
    /// Default of [`node_failure_threshold`](Self::node_failure_threshold) (Slider:
    /// `yarn.node.failure.threshold`).
    pub const NODE_FAILURE_THRESHOLD_DEFAULT: u32 = 3;
    /// Default of [`container_failure_threshold`](Self::container_failure_threshold) (Slider:
    /// `yarn.container.failure.threshold`).
    pub const CONTAINER_FAILURE_THRESHOLD_DEFAULT: NonZeroU32 = NonZeroU32::MIN.saturating_add(4);

    /// Creates a role with Slider's defaults and containers of this size.
    #[must_use]
    pub fn new(id: RoleId, name: impl Into<String>, resource: Resource) -> Self {
        Self {
            id,
            name: name.into(),
            placement_policy: PlacementPolicy::default(),
            node_failure_threshold: Some(Self::NODE_FAILURE_THRESHOLD_DEFAULT),
            container_failure_threshold: Some(Self::CONTAINER_FAILURE_THRESHOLD_DEFAULT),
            placement_timeout_ms: Self::PLACEMENT_TIMEOUT_MS_DEFAULT,
            label: None,
            resource,
        }
    }

    /// Checks the rules that YARN's client enforces on every ask.
    pub(crate) fn validate(&self) -> Result<(), RoleError> {
        match &self.label {
            Some(label) if LABEL_OPERATORS.iter().any(|&text| label.contains(text)) => {
                Err(RoleError::LabelOperator {
                    role: self.name.clone(),
                    label: label.as_ref().to_owned(),
                })
            }
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_ids_are_non_negative_and_leave_bit_30_free() {
        assert_eq!(RoleId::new(0).map(RoleId::number), Some(0));
        assert_eq!(RoleId::new((1 << 30) - 1), Some(RoleId::MAX));
        assert_eq!(RoleId::new(1 << 30), None);
        assert_eq!(RoleId::new(-1), None);
    }

    #[test]
    fn policy_bits_are_sliders() {
        let of = PlacementPolicy::from_bits;
        assert!(of(0).consults_history() && !of(0).is_strict() && !of(0).is_anti_affine());
        assert!(of(1).is_strict() && of(1).consults_history());
        assert!(!of(2).consults_history());
        assert!(of(4).is_anti_affine() && !of(4).consults_history());
        assert!(of(16).is_excluded_from_flexing());
        assert!(
            of(8).consults_history(),
            "an unknown bit changes no other rule"
        );
        assert_eq!(
            PlacementPolicy::STRICT
                .and(PlacementPolicy::ANYWHERE)
                .bits(),
            3
        );
    }

    #[test]
    fn anti_affinity_takes_precedence_over_strict() {
        let both = PlacementPolicy::STRICT.and(PlacementPolicy::ANTI_AFFINITY_REQUIRED);
        assert!(both.is_anti_affine());
        assert!(!both.is_strict());
    }

    #[test]
    fn a_label_with_an_operator_is_refused() {
        let mut role = Role::new(RoleId::MAX, "store", Resource::new(256, 1));
        assert_eq!(role.validate(), Ok(()));
        for label in ["gpu && ssd", "gpu||ssd"] {
            role.label = Some(label.into());
            assert!(
                matches!(role.validate(), Err(RoleError::LabelOperator { .. })),
                "{label}"
            );
        }
        role.label = Some("gpu".into());
        assert_eq!(role.validate(), Ok(()));
    }
}
